// One chart: a figure of all runs that have it, over updates or seconds.

const COLOURS = 8;
const DASHES = [null, "7 3", "2 3", "9 3 2 3", "12 4"];
/** Marks tell runs apart without colour: with eight colours there are forty pairs before one comes again. */
const MARKS = [
  (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  (x, y, r) => `M${x - 0.88 * r} ${y - 0.88 * r}h${1.76 * r}v${1.76 * r}h${-1.76 * r}Z`,
  (x, y, r) => `M${x} ${y - 1.2 * r}L${x + 1.15 * r} ${y + 0.85 * r}H${x - 1.15 * r}Z`,
  (x, y, r) => `M${x} ${y - 1.3 * r}L${x + 1.3 * r} ${y}L${x} ${y + 1.3 * r}L${x - 1.3 * r} ${y}Z`,
  (x, y, r) => `M${x} ${y + 1.2 * r}L${x + 1.15 * r} ${y - 0.85 * r}H${x - 1.15 * r}Z`,
];

/** Gives each run its look: a group has a colour, its members differ by marks; without groups each run has both. */
function giveLooks(runs) {
  const groups = [...new Set(runs.map((run) => run.group))];
  const grouped = groups.some((group) => group !== "");
  const members = new Map();
  runs.forEach((run, place) => {
    const kin = grouped ? groups.indexOf(run.group) : place;
    const member = members.get(run.group) ?? 0;
    members.set(run.group, member + 1);
    run.place = place;
    run.look = {
      colour: `var(--run-${kin % COLOURS})`,
      dash: DASHES[Math.floor(kin / COLOURS) % DASHES.length],
      mark: MARKS[member % MARKS.length],
    };
  });
}

/** A run's line and mark, as its charts show them. */
function swatch(run) {
  const { colour, dash, mark } = run.look;
  return shape("svg", { class: "swatch", viewBox: "0 0 30 14", "aria-hidden": "true" },
    shape("path", { class: "line validation", d: "M1 7H29", "stroke-dasharray": dash, style: `stroke:${colour}` }),
    shape("path", { d: mark(15, 7, 4), style: `fill:${colour}` }));
}

const MARGIN = { left: 58, right: 24, top: 10, bottom: 34 };
const CLOSEST_MARKS = 13;

/** A chart of a figure. `view` says what is shown and how; `draw` follows it. */
function chart(name, runs, view) {
  const svg = shape("svg", { tabindex: 0, role: "img" });
  const tip = make("div", { class: "tip", hidden: true, role: "status" });
  const note = make("p", { class: "note", hidden: true });
  const element = make("figure", { class: "chart", "data-figure": name },
    make("figcaption", {}, figureTitle(name), make("span", { class: "soft" }, name)), svg, tip, note);
  const concerned = runs.filter((run) => run.train[name] || run.validation[name]);
  const own = { name, element, svg, tip, cursor: null };
  let frame = null;

  const shown = () => concerned.filter((run) => !view.hidden.has(run.place));
  const kinds = (run) => ["train", "validation"].filter((kind) => run[kind][name] && (kind === "validation" || drawsTraining(run)));
  // A figure that only training has is drawn even when training lines are switched off.
  const drawsTraining = (run) => view.training || !run.validation[name];

  function isLog(lists) {
    if (ALWAYS_LOG.includes(name)) return true;
    if (view.y !== "fits") return view.y === "log";
    const range = extent(lists, (value) => isNumber(value) && value > 0);
    return !isFraction(name) && range !== null && range[1] / range[0] > 50;
  }

  own.draw = () => {
    const width = Math.max(260, Math.round(element.clientWidth || 560));
    const height = Math.round(Math.min(290, Math.max(200, width * 0.5)));
    const visible = shown();
    const lists = (kind) => visible.flatMap((run) => (run[kind][name] && kinds(run).includes(kind) ? [run[kind][name]] : []));
    const all = [...lists("train"), ...lists("validation")];
    const log = isLog(all);
    const takes = log ? (value) => isNumber(value) && value > 0 : isNumber;
    const [low, high] = domain(extent(all, takes), log);
    const across = visible.flatMap((run) => kinds(run).map((kind) => run[kind][view.x] ?? []));
    const end = extent(across, isNumber)?.[1] ?? 1;
    const x = scale(0, end || 1, MARGIN.left, width - MARGIN.right, false);
    const y = scale(low, high, height - MARGIN.bottom, MARGIN.top, log);
    frame = { x, y, width, height };
    own.log = log;
    own.cursor = null;
    tip.hidden = true;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("aria-label", `${figureTitle(name)} of ${visible.length} runs, ${log ? "logarithmic" : "linear"} axis from ${figure(name, low)} to ${figure(name, high)}. Left and right move along a run, up and down between runs.`);
    svg.replaceChildren(axes(frame, [low, high], end, log), ...visible.map((run) => series(run, frame, visible.length)), shape("g", { class: "pointer" }));
    element.classList.toggle("many", visible.length > 8);
    own.paths = svg.querySelectorAll(".series .line").length;
    tellMissing(all, y.takes);
  };

  /** A rate that decays to nothing would take all decades there are: four are enough to see it. */
  function domain(range, log) {
    if (isFraction(name) && !log) return [0, 1];
    if (!range) return log ? [0.1, 1] : [0, 1];
    const [low, high] = range;
    if (log && name === "learning_rate") return [Math.max(low, high / 1e4) / 1.15, high * 1.15];
    if (log) return low === high ? [low / 2, high * 2] : [low / 1.15, high * 1.15];
    const bottom = low >= 0 ? 0 : low;
    return bottom === high ? [bottom - 0.5, high + 0.5] : [bottom, high + 0.04 * (high - bottom)];
  }

  function axes({ x, y, width, height }, [low, high], end, log) {
    const group = shape("g", { "aria-hidden": "true" });
    const ground = height - MARGIN.bottom;
    const rows = Math.max(3, Math.round((ground - MARGIN.top) / 42));
    for (const value of log ? logTicks(low, high, rows) : linearTicks(low, high, rows)) {
      const at = Math.round(y(value));
      group.append(shape("path", { class: "grid", d: `M${MARGIN.left} ${at}H${width - MARGIN.right}` }),
        shape("text", { x: MARGIN.left - 7, y: at + 4, "text-anchor": "end" }, tickWords(name, value)));
    }
    for (const value of linearTicks(0, end || 1, Math.max(2, Math.floor(width / 90)))) {
      const at = Math.round(x(value));
      group.append(shape("path", { class: "axis", d: `M${at} ${ground}v4` }),
        shape("text", { x: at, y: ground + 16, "text-anchor": "middle" }, view.x === "update" ? count(value) : duration(value)));
    }
    group.append(shape("path", { class: "axis", d: `M${MARGIN.left} ${ground}H${width - MARGIN.right}` }),
      shape("text", { x: width - MARGIN.right, y: height - 3, "text-anchor": "end" }, view.x === "update" ? "updates" : "time, minutes and seconds"));
    return group;
  }

  function series(run, { x, y, width }, together) {
    const { colour, dash, mark } = run.look;
    const group = shape("g", { class: "series", "data-run": run.place });
    for (const kind of kinds(run)) {
      const [xs, ys] = [run[kind][view.x] ?? [], run[kind][name]];
      const grain = ys.length > width ? Math.max(1, Math.min(4, together / 8)) : 0;
      const d = linePath(xs, ys, x, y, grain);
      if (!d) continue;
      const alone = !run.validation[name];
      const class_ = kind === "validation" ? "line validation" : alone ? "line training alone" : "line training";
      group.append(shape("path", { class: class_, d, style: `stroke:${colour}`, "stroke-dasharray": kind === "validation" || alone ? dash : null }));
      if (kind === "validation") group.append(shape("path", { class: "marks", d: marks(xs, ys, x, y, mark), style: `fill:${colour}` }));
    }
    return group;
  }

  /** Marks on a line, not closer than the eye can tell apart. */
  function marks(xs, ys, x, y, mark) {
    let path = "";
    let before = -Infinity;
    xs.forEach((value, at) => {
      if (!x.takes(value) || !y.takes(ys[at])) return;
      const across = x(value);
      if (across - before < CLOSEST_MARKS && at < xs.length - 1) return;
      path += mark(pixel(across), pixel(y(ys[at])), 3.2);
      before = across;
    });
    return path;
  }

  function tellMissing(lists, takes) {
    let [strange, low] = [0, 0];
    for (const list of lists) {
      for (const value of list) {
        if (value === "nan") strange += 1;
        else if (isNumber(value) && !takes(value)) low += 1;
      }
    }
    const words = [];
    if (strange) words.push(`${count(strange)} value${strange === 1 ? " is" : "s are"} no finite number and not drawn`);
    if (low) words.push(`${count(low)} value${low === 1 ? " is" : "s are"} below the axis, which is logarithmic`);
    note.hidden = words.length === 0;
    note.textContent = words.length ? `${words.join("; ")}.` : "";
  }

  /** Shows the values around a point of a run; the run's own comes first. */
  function show({ run, kind, at }) {
    own.cursor = { run, kind, at };
    const here = run[kind][view.x][at];
    const [across, down] = [frame.x(here), frame.y(run[kind][name][at])];
    svg.querySelector(".pointer").replaceChildren(
      shape("path", { class: "cursor", d: `M${across} ${MARGIN.top}V${frame.height - MARGIN.bottom}` }),
      shape("circle", { class: "ring", cx: across, cy: down, r: 5.5 }));
    const rows = shown().filter((other) => kinds(other).includes(kind)).map((other) => {
      const place = other === run ? at : nearest(other[kind][view.x], here);
      const value = other[kind][name][place];
      return { other, place, value, away: other === run ? -1 : frame.y.takes(value) ? Math.abs(frame.y(value) - down) : Infinity };
    }).sort((a, b) => a.away - b.away);
    const row = ({ other, place, value }) => make("tr", {}, make("td", {}, swatch(other)), make("td", {}, other.name),
      make("td", { class: "number" }, exact(name, value)),
      make("td", { class: "soft" }, other[kind].update[place] === run[kind].update[at] ? "" : `at ${count(other[kind].update[place])}`));
    const most = 8;
    tip.replaceChildren(
      make("p", {}, `${kind === "train" ? "training" : "validation"} · update ${count(run[kind].update[at])} · ${duration(run[kind].seconds?.[at])}`),
      make("table", {}, make("tbody", {}, ...rows.slice(0, most).map(row))));
    if (rows.length > most) tip.append(make("p", {}, `and ${rows.length - most} more`));
    tip.hidden = false;
    // Beside the point, on the side that has room; the drawing may be scaled, as in print.
    const zoom = svg.clientWidth / frame.width || 1;
    const left = across * zoom > element.clientWidth / 2 ? across * zoom - tip.offsetWidth - 14 : across * zoom + 14;
    tip.style.left = `${Math.max(0, Math.min(left, element.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${svg.offsetTop + MARGIN.top}px`;
  }

  own.hide = () => {
    own.cursor = null;
    tip.hidden = true;
    svg.querySelector(".pointer")?.replaceChildren();
  };

  /** The point nearest to the pointer. */
  function point(event) {
    const box = svg.getBoundingClientRect();
    const zoom = frame.width / (box.width || 1);
    const [across, down] = [(event.clientX - box.left) * zoom, (event.clientY - box.top) * zoom];
    let best = null;
    for (const run of shown()) {
      for (const kind of kinds(run)) {
        const [xs, ys] = [run[kind][view.x] ?? [], run[kind][name]];
        const at = nearest(xs, frame.x.invert(across));
        if (!isNumber(xs[at]) || !frame.y.takes(ys[at])) continue;
        // Training has many more points: without a head start for validation its points could hardly be reached.
        const start = kind === "train" && run.validation[name] ? 14 : 0;
        const away = start + Math.hypot(frame.x(xs[at]) - across, frame.y(ys[at]) - down);
        if (!best || away < best.away) best = { run, kind, at, away };
      }
    }
    if (best) show(best);
    else own.hide();
  }

  function key(event) {
    if (event.key === "Escape") return own.hide();
    const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const between = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!sideways && !between) return undefined;
    event.preventDefault();
    const kindOf = (run) => (run.validation[name] ? "validation" : "train");
    const all = shown().filter((run) => kinds(run).length);
    if (!all.length) return undefined;
    let { run, kind, at } = own.cursor ?? { run: all[0], kind: kindOf(all[0]), at: -1 };
    if (between) {
      const other = all[(all.indexOf(run) + between + all.length) % all.length];
      at = nearest(other[kindOf(other)][view.x], run[kind][view.x][Math.max(0, at)]);
      [run, kind] = [other, kindOf(other)];
    } else {
      do at += sideways; while (at >= 0 && at < run[kind][name].length && !frame.y.takes(run[kind][name][at]));
    }
    if (frame.y.takes(run[kind][name][at])) show({ run, kind, at });
    return undefined;
  }

  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("pointerleave", own.hide);
  svg.addEventListener("blur", own.hide);
  svg.addEventListener("keydown", key);
  return own;
}
