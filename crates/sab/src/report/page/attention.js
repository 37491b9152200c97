// What a step was reminded of, and how that came to be while the network learned.

const FRAME_MILLISECONDS = 600;

/** The records of a run, in one list for each sequence, in the order of training; odd ones are left out. */
function seriesOf(run) {
  const series = new Map();
  for (const record of run.attention) {
    if (!Array.isArray(record?.reminded_of) || record.reminded_of.length === 0) continue;
    const length = record.reminded_of.length;
    const good = (one) => Array.isArray(one) && Number.isInteger(one[0]) && one[0] >= 0 && one[0] <= length && isNumber(one[1]);
    const reminded = record.reminded_of.map((list) => (Array.isArray(list) ? list.filter(good) : []).sort((a, b) => b[1] - a[1]));
    const key = `${record.split ?? "validation"} sequence ${record.sequence ?? 0}`;
    if (!series.has(key)) series.set(key, []);
    series.get(key).push({ update: record.update ?? 0, inputs: Array.isArray(record.inputs) ? record.inputs : null, reminded_of: reminded });
  }
  for (const list of series.values()) list.sort((a, b) => a.update - b.update);
  return series;
}

function showAttention(section, runs) {
  section.append(make("h2", {}, "What it was reminded of"));
  const able = runs.map((run) => ({ run, series: seriesOf(run) })).filter(({ series }) => series.size > 0);
  if (!able.length) {
    section.append(make("p", { class: "about" }, "There is no record of it here: the models are not reminded of anything, training has not reached the first record, or the run directories, which have it, were not there when this page was made."));
    return null;
  }
  section.append(make("p", { class: "about" }, "A row for each step, a column for each step that can be remembered (0 is the state before the first). The stronger the mark, the greater the weight of that memory. Move the slider to watch the reminders form while the network learns."));
  const state = { chosen: able[0], key: null, at: 0, hover: null, pinned: null, timer: null };
  const picture = matrix();
  const bows = arcs();
  const panel = make("div", { class: "step-panel", id: "step-panel" });
  const frame = make("div", { class: "pictures" }, bows.svg, picture.canvas, scaleOfWeights());
  const slider = make("input", { type: "range", id: "time", min: 0, step: 1, "aria-label": "Time in training", oninput: () => go(Number(slider.value)) });
  const told = make("output", { for: "time" });
  const play = make("button", { type: "button", onclick: () => (state.timer ? stop() : start()) }, "▶ Play");
  const runChoice = choice("Run", able.map(({ run }) => run.name), (at) => pickRun(able[at]));
  const sequenceChoice = choice("Sequence", [], (at) => pickSequence([...state.chosen.series.keys()][at]));
  const zoomed = make("input", { type: "checkbox", onchange: () => draw() });
  const zoomSteps = make("input", { type: "number", min: 1, step: 1, "aria-label": "How many of the last steps", oninput: () => draw() });
  section.append(
    make("div", { class: "controls" }, runChoice.element, sequenceChoice.element,
      make("span", { class: "check" }, make("label", { class: "check" }, zoomed, "answers only: the last"), zoomSteps, "steps"),
      make("div", { class: "time" }, play, slider, told)),
    make("div", { class: "attention-view" }, frame, panel));

  const records = () => state.chosen.series.get(state.key);
  const record = () => records()[state.at];
  const length = () => record().reminded_of.length;
  /** What is shown of no choice: the last step, which has the most to remember. */
  const step = () => Math.min(length(), state.pinned ?? state.hover ?? length());

  function choice(title, names, change) {
    const select = make("select", { onchange: () => change(select.selectedIndex) });
    const element = make("label", { class: "check" }, title, select);
    const fill = (list) => {
      select.replaceChildren(...list.map((name) => make("option", {}, name)));
      element.hidden = list.length < 2;
      element.style.display = list.length < 2 ? "none" : "";
    };
    fill(names);
    return { element, select, fill };
  }

  function pickRun(one) {
    stop();
    state.chosen = one;
    state.hover = null;
    state.pinned = null;
    sequenceChoice.fill([...one.series.keys()]);
    pickSequence([...one.series.keys()][0]);
    zoomSteps.value = Math.min(length(), one.run.config?.task?.name === "copy" ? 10 : 20);
    zoomSteps.max = length();
    draw();
  }

  function pickSequence(key) {
    state.key = key;
    slider.max = records().length - 1;
    go(records().length - 1);
  }

  function go(at) {
    state.at = Math.max(0, Math.min(records().length - 1, at));
    slider.value = state.at;
    draw();
  }

  function start() {
    if (state.at >= records().length - 1) go(0);
    play.textContent = "❚❚ Pause";
    state.timer = setInterval(() => (state.at >= records().length - 1 ? stop() : go(state.at + 1)), FRAME_MILLISECONDS);
  }

  function stop() {
    clearInterval(state.timer);
    state.timer = null;
    play.textContent = "▶ Play";
  }

  function draw() {
    const asked = Math.round(Number(zoomSteps.value));
    const first = zoomed.checked && asked >= 1 ? Math.max(1, length() - asked + 1) : 1;
    picture.draw(record(), Math.max(240, frame.clientWidth), first);
    tell();
    light();
  }

  /** The time in training, with how well the network did by then. */
  function tell() {
    const { update } = record();
    const { validation } = state.chosen.run;
    const judged = (validation.update ?? []).filter((one) => one <= update).length - 1;
    const [name] = inOrder(Object.keys(validation).filter((key) => key !== "update" && key !== "seconds"));
    const how = judged >= 0 && name ? ` · validation ${name} ${metric(name, validation[name][judged])}` : "";
    told.replaceChildren("update ", make("strong", {}, count(update)), how);
    slider.setAttribute("aria-valuetext", `update ${update}`);
    picture.canvas.setAttribute("aria-label", `What each of ${length()} steps was reminded of after update ${update}. Up and down choose a step, Enter pins it, left and right move through training.`);
  }

  function light() {
    picture.light(step());
    bows.draw(record(), Math.max(240, frame.clientWidth), step());
    describe(panel, record(), step(), state.pinned !== null);
  }

  function pin(at) {
    state.pinned = at === null || state.pinned === at ? null : at;
    light();
  }

  for (const [target, stepAt] of [[picture.canvas, picture.stepAt], [bows.svg, bows.stepAt]]) {
    target.addEventListener("pointermove", (event) => {
      const at = stepAt(event);
      if (at === null || at === state.hover) return;
      state.hover = at;
      if (state.pinned === null) light();
    });
    target.addEventListener("click", (event) => pin(stepAt(event)));
  }
  picture.canvas.addEventListener("keydown", (event) => {
    const page = event.key.startsWith("Page") ? 10 : 1;
    const down = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page }[event.key];
    const to = down ? step() + down : { Home: picture.first, End: length() }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      state.hover = Math.max(picture.first, Math.min(length(), to));
      if (state.pinned !== null) state.pinned = state.hover;
      light();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      pin(step());
    } else if (event.key === "Escape") pin(null);
  });
  // The arrow keys go through training wherever they mean nothing else.
  section.addEventListener("keydown", (event) => {
    const on = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!on || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    event.preventDefault();
    stop();
    go(state.at + on);
  });
  // A change of size or of colours asks for a new picture.
  let width = 0;
  new ResizeObserver(() => {
    if (frame.clientWidth === width) return;
    width = frame.clientWidth;
    draw();
  }).observe(frame);
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", draw);

  pickRun(able[0]);
  return { state, picture, panel, slider, told, zoomed, play, svg: bows.svg };
}

/** What a step saw and what it was reminded of, strongest first. */
function describe(panel, record, step, pinned) {
  const saw = (at) => (at === 0 ? "before the first" : record.inputs?.[at - 1] ?? "");
  const reminded = record.reminded_of[step - 1] ?? [];
  const row = ([at, weight]) => make("tr", {},
    make("th", { class: "number", scope: "row" }, String(at)),
    record.inputs ? make("td", { class: at === 0 ? "soft" : "symbol mono" }, saw(at)) : null,
    make("td", { class: "number soft" }, String(step - at)),
    make("td", { class: "number" }, weight >= 0.001 || weight === 0 ? weight.toFixed(3) : "< 0.001"),
    make("td", { class: "bar" }, make("i", { style: `width:${(100 * Math.min(1, Math.max(0, weight))).toFixed(1)}%` })));
  const head = ["step", record.inputs ? "saw" : null, "ago", "weight", ""].filter((name) => name !== null);
  const column = (name) => make("th", { scope: "col", class: name === "saw" || name === "" ? null : "number" }, name);
  panel.replaceChildren(
    make("h3", {}, `Step ${step}`, record.inputs ? make("span", {}, "saw ", make("span", { class: "symbol mono" }, saw(step))) : null,
      pinned ? make("span", { class: "pinned-mark" }, "pinned") : null),
    make("p", {}, reminded.length ? `reminded of ${reminded.length}, strongest first` : "reminded of nothing"),
    make("div", { class: "reminders" }, make("table", {},
      make("thead", {}, make("tr", {}, ...head.map(column))), make("tbody", {}, ...reminded.map(row)))),
    make("p", { class: "hint" }, "Point at a row, or use ", make("kbd", {}, "↑"), " ", make("kbd", {}, "↓"), " in the picture. Click or ",
      make("kbd", {}, "Enter"), " pins a step, ", make("kbd", {}, "Esc"), " lets it go; ", make("kbd", {}, "←"), " ", make("kbd", {}, "→"), " move through training."));
}

function scaleOfWeights() {
  const sample = (weight) => make("span", {}, make("i", { style: `opacity:${darkness(weight).toFixed(2)}` }), String(weight));
  const future = make("span", {}, make("i", { style: "background:var(--future)" }), "not yet past");
  return make("p", { class: "scale" }, "weight", ...[0.01, 0.1, 0.25, 0.5, 1].map(sample), future);
}
