// The learning curves: a legend that switches runs, switches for the axes, and a chart for each metric.

/** A choice of one among a few. */
function segments(title, group, options, chosen, change) {
  const option = ([value, words]) => make("label", {},
    make("input", { type: "radio", name: group, value, checked: value === chosen, onchange: () => change(value) }), words);
  return make("fieldset", { class: "choice" }, make("legend", {}, title), make("span", { class: "segments" }, ...options.map(option)));
}

function showCurves(section, runs) {
  const view = { x: "update", y: "fits", training: true, hidden: new Set(), zoom: null };
  const none = ["update", "seconds"];
  const names = inOrder(new Set(runs.flatMap((run) => [run.train, run.validation].flatMap(Object.keys)).filter((name) => !none.includes(name))));
  section.append(make("h2", {}, "Learning curves"));
  if (!names.length) {
    section.append(make("p", { class: "about" }, "Nothing has been measured yet."));
    return { view, charts: [] };
  }
  section.append(make("p", { class: "about" }, "Points are validations, thin lines are training. Point at a chart for the values, or move through it with the arrow keys. Drag across a chart to zoom in on all of them; a double click zooms out."));
  const unzoom = make("button", { type: "button", hidden: true, onclick: () => zoom(null) }, "zoom out");
  const zoom = (range) => {
    view.zoom = range;
    unzoom.hidden = range === null;
    draw();
  };
  const charts = names.map((name) => chart(name, runs, view, zoom));
  const draw = () => charts.forEach((one) => one.draw());
  const change = (key) => (value) => {
    view[key] = value;
    // A range of updates is none of seconds.
    if (key === "x") zoom(null);
    else draw();
  };
  const body = make("div", { class: "curves-body" });
  body.append(
    make("div", { class: "controls" },
      segments("x axis", "x-axis", [["update", "updates"], ["seconds", "time"]], view.x, change("x")),
      segments("y axis", "y-axis", [["fits", "auto"], ["linear", "linear"], ["log", "log"]], view.y, change("y")),
      make("label", { class: "check" }, make("input", { type: "checkbox", id: "training-lines", checked: true, onchange: (event) => change("training")(event.target.checked) }), "training lines"), unzoom),
    legend(runs, view, draw, charts),
    make("div", { class: "charts" }, ...charts.map((one) => one.element)));
  section.append(body);
  draw();
  // Charts are drawn at the size they have, so that text keeps its own.
  let width = body.clientWidth;
  new ResizeObserver(() => {
    if (body.clientWidth === width) return;
    width = body.clientWidth;
    draw();
  }).observe(body);
  // A canvas has colours of its own, which do not follow the page's by themselves.
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", draw);
  return { view, charts };
}

function legend(runs, view, draw, charts) {
  const list = make("div", { class: "legend-runs" });
  const light = (run) => () => {
    if (!run || !view.hidden.has(run.place)) charts.forEach((one) => one.light(run));
  };
  const boxes = runs.map((run) => make("input", {
    type: "checkbox",
    checked: true,
    onchange: (event) => {
      if (event.target.checked) view.hidden.delete(run.place);
      else view.hidden.add(run.place);
      draw();
    },
  }));
  const switchAll = (of, on) => {
    for (const run of of) {
      boxes[run.place].checked = on;
      if (on) view.hidden.delete(run.place);
      else view.hidden.add(run.place);
    }
    draw();
  };
  runs.forEach((run, place) => {
    if (run.group && run.group !== runs[place - 1]?.group) {
      const kin = runs.filter((other) => other.group === run.group);
      const toggle = () => switchAll(kin, kin.some((other) => view.hidden.has(other.place)));
      list.append(make("div", { class: "legend-group" }, run.group, " ", kin.length > 1 ? make("button", { class: "plain", type: "button", onclick: toggle }, "switch") : null));
    }
    list.append(make("label", { onpointerenter: light(run), onpointerleave: light(null) }, boxes[place], swatch(run), run.name));
  });
  const box = make("fieldset", { class: "legend", "aria-label": "Runs shown" }, list);
  if (runs.length > 2) {
    box.append(make("div", { class: "legend-foot controls" },
      make("button", { class: "plain", type: "button", onclick: () => switchAll(runs, true) }, "show all"),
      make("button", { class: "plain", type: "button", onclick: () => switchAll(runs, false) }, "hide all"),
      make("span", {}, "Point at a name to bring its lines forward.")));
  }
  return box;
}
