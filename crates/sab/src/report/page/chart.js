// One chart: a metric of all runs that have it, over updates or seconds. uPlot draws it.

const COLOURS = 8;
const DASHES = [null, [7, 3], [2, 3], [9, 3, 2, 3], [12, 4]];
/** Marks tell runs apart without colour: with eight colours there are forty pairs before one comes again. */
const MARKS = [
  (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  (x, y, r) => `M${x - 0.88 * r} ${y - 0.88 * r}h${1.76 * r}v${1.76 * r}h${-1.76 * r}Z`,
  (x, y, r) => `M${x} ${y - 1.2 * r}L${x + 1.15 * r} ${y + 0.85 * r}H${x - 1.15 * r}Z`,
  (x, y, r) => `M${x} ${y - 1.3 * r}L${x + 1.3 * r} ${y}L${x} ${y + 1.3 * r}L${x - 1.3 * r} ${y}Z`,
  (x, y, r) => `M${x} ${y + 1.2 * r}L${x + 1.15 * r} ${y - 0.85 * r}H${x - 1.15 * r}Z`,
];
/** Marks are no closer than this, in pixels: the eye could not tell them apart. */
const CLOSEST_MARKS = 13;
const MOST_VALUES = 8;

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
    run.look = { colour: `--run-${kin % COLOURS}`, dash: DASHES[Math.floor(kin / COLOURS) % DASHES.length], mark: MARKS[member % MARKS.length] };
  });
}

/** A run's line and mark, as its charts show them. */
function swatch(run) {
  const { colour, dash, mark } = run.look;
  return shape("svg", { class: "swatch", viewBox: "0 0 30 14", "aria-hidden": "true" },
    shape("path", { class: "line", d: "M1 7H29", "stroke-dasharray": dash?.join(" "), style: `stroke:var(${colour})` }),
    shape("path", { d: mark(15, 7, 4), style: `fill:var(${colour})` }));
}

/** The index of the number nearest to a value in an ascending list. */
function nearest(list, value) {
  let [low, high] = [0, list.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low > 0 && Math.abs(list[low - 1] - value) <= Math.abs(list[low] - value) ? low - 1 : low;
}

/** Powers of ten; with their doubles and halves where few fit. */
function logTicks(low, high, wanted) {
  const [first, last] = [Math.floor(Math.log10(low) + 1e-9), Math.ceil(Math.log10(high) - 1e-9)];
  const factors = last - first <= 2 ? [1, 2, 5] : [1];
  const stride = Math.max(1, Math.ceil((last - first) / wanted));
  const found = [];
  for (let power = first; power <= last; power += stride) {
    for (const factor of factors) {
      const value = Number(`${factor}e${power}`);
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found.length > 1 ? found : [low, high];
}

function tickWords(name, value) {
  if (value === null) return "";
  if (isFraction(name)) return `${Number((100 * value).toPrecision(4))} %`;
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e5 ? value.toExponential(1).replace(".0", "").replace("e+", "e") : String(Number(value.toPrecision(3)));
}

/** A chart of a metric. `view` says what is shown and how; `draw` follows it; `zoom` is called with a range of x or null. */
function chart(name, runs, view, zoom) {
  const holder = make("div", { class: "plot", role: "img" });
  const tip = make("div", { class: "tip", hidden: true, role: "status" });
  const note = make("p", { class: "note", hidden: true });
  const element = make("figure", { class: "chart", "data-metric": name },
    make("figcaption", {}, metricTitle(name), make("span", { class: "soft" }, name)), holder, tip, note);
  const concerned = runs.filter((run) => run.train[name] || run.validation[name]);
  const own = { name, element, tip, plot: null, lines: [], log: false };

  // A metric that only training has is drawn even when training lines are switched off.
  const isDrawn = (run, kind) => run[kind][name] && (kind === "validation" || view.training || !run.validation[name]);

  own.draw = () => {
    own.plot?.destroy();
    tip.hidden = true;
    const visible = concerned.filter((run) => !view.hidden.has(run.place));
    const all = visible.flatMap((run) => ["train", "validation"].filter((kind) => isDrawn(run, kind)).map((kind) => ({ run, kind })));
    const values = all.flatMap(({ run, kind }) => run[kind][name]);
    own.log = isLog(values.filter(isNumber));
    const top = values.reduce((most, value) => (isNumber(value) && value > most ? value : most), 0);
    // A rate that decays to nothing would take all decades there are: four are enough to see it.
    const least = name === "learning_rate" ? top / 1e4 : 0;
    const takes = own.log ? (value) => isNumber(value) && value > 0 && value >= least : isNumber;
    for (const line of all) {
      const points = line.run[line.kind][view.x].map((x, at) => [x, line.run[line.kind][name][at]]).filter(([x]) => isNumber(x));
      line.xs = points.map(([x]) => x);
      line.ys = points.map(([, y]) => (takes(y) ? y : null));
    }
    own.lines = all.filter(({ ys }) => ys.some(isNumber));
    const end = own.lines.reduce((most, { xs }) => Math.max(most, xs[xs.length - 1]), 0) || 1;
    const data = own.lines.length ? uPlot.join(own.lines.map(({ xs, ys }) => [xs, ys])) : [[]];
    own.plot = new uPlot(options(end, visible.length), data, holder);
    own.plot.over.tabIndex = 0;
    own.plot.over.addEventListener("keydown", key);
    own.plot.over.addEventListener("blur", hide);
    holder.setAttribute("aria-label", `${metricTitle(name)} of ${visible.length} runs, ${own.log ? "logarithmic" : "linear"} axis. Left and right move along the axis.`);
    tellMissing(values, takes);
  };

  function isLog(values) {
    if (ALWAYS_LOG.includes(name)) return true;
    if (view.y !== "fits") return view.y === "log";
    const positive = values.filter((value) => value > 0);
    const [low, high] = positive.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, 0]);
    return !isFraction(name) && high / low > 50;
  }

  function options(end, together) {
    const style = getComputedStyle(element);
    const colour = (variable) => style.getPropertyValue(variable).trim();
    const axis = { stroke: colour("--soft"), font: `11px ${style.fontFamily}`, ticks: { stroke: colour("--line"), size: 4, width: 1 } };
    const series = ({ run, kind }) => {
      const alone = kind === "train" && !run.validation[name];
      const width = kind === "validation" ? (together > 8 ? 1.4 : 1.9) : alone ? 1.2 : 1;
      const alpha = kind === "validation" ? 1 : alone ? 0.85 : together > 8 ? 0.25 : 0.45;
      return {
        stroke: colour(run.look.colour), width, alpha, dash: (kind === "validation" || alone) ? run.look.dash : null,
        points: kind === "train" ? { show: false } : { show: true, fill: colour(run.look.colour), width: 0, paths: marks(run.look.mark) },
      };
    };
    const width = Math.max(260, Math.round(element.clientWidth || 560));
    // uPlot would draw all nine lines of every decade.
    const decades = own.log ? { splits: (u, _, low, high) => logTicks(low, high, Math.round(u.height / 50)), filter: (_, ticks) => ticks } : {};
    return {
      width,
      height: Math.round(Math.min(290, Math.max(200, width * 0.5))),
      legend: { show: false },
      cursor: {
        y: false,
        points: { size: 9, fill: "transparent", stroke: colour("--ink"), width: 1.6 },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => { later(null); return null; } },
      },
      scales: {
        x: { time: false, range: () => view.zoom ?? [0, end] },
        y: { distr: own.log ? 3 : 1, range: (_, low, high) => span(low, high) },
      },
      axes: [
        { ...axis, size: 34, grid: { show: false }, values: (_, ticks) => ticks.map(view.x === "update" ? count : duration) },
        { ...axis, ...decades, size: 58, grid: { stroke: colour("--line"), width: 1 }, values: (_, ticks) => ticks.map((value) => tickWords(name, value)) },
      ],
      series: [{}, ...own.lines.map(series)],
      hooks: { setCursor: [show], setSelect: [select] },
    };
  }

  /** The y axis around what is drawn. */
  function span(low, high) {
    if (isFraction(name) && !own.log && !view.zoom) return [0, 1];
    if (!isNumber(low) || !isNumber(high)) return own.log ? [0.1, 1] : [0, 1];
    if (own.log) return low === high ? [low / 2, high * 2] : [low / 1.15, high * 1.15];
    const bottom = low >= 0 && !view.zoom ? 0 : low - 0.04 * (high - low);
    return bottom === high ? [bottom - 0.5, high + 0.5] : [bottom, high + 0.04 * (high - bottom)];
  }

  /** Draws the marks of a line. */
  const marks = (mark) => (u, place, first, last) => {
    const path = new Path2D();
    let before = -Infinity;
    for (let at = first; at <= last; at += 1) {
      const value = u.data[place][at];
      if (!isNumber(value)) continue;
      const across = u.valToPos(u.data[0][at], "x", true);
      if (across - before < CLOSEST_MARKS * devicePixelRatio) continue;
      path.addPath(new Path2D(mark(across, u.valToPos(value, "y", true), 3.2 * devicePixelRatio)));
      before = across;
    }
    return { stroke: null, fill: path, clip: null, flags: 3 };
  };

  function tellMissing(values, takes) {
    const strange = values.filter((value) => value === "nan").length;
    const low = values.filter((value) => isNumber(value) && !takes(value)).length;
    const words = [];
    if (strange) words.push(`${count(strange)} value${strange === 1 ? " is" : "s are"} not finite and not drawn`);
    if (low) words.push(`${count(low)} value${low === 1 ? " is" : "s are"} below the axis, which is logarithmic`);
    note.hidden = words.length === 0;
    note.textContent = words.length ? `${words.join("; ")}.` : "";
  }

  /** Zooming makes all charts anew: not while uPlot still handles the event. */
  const later = (range) => setTimeout(() => zoom(range), 0);

  function select(u) {
    const { left, width } = u.select;
    if (width < 4) return;
    later([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
  }

  /** Shows the values at the pointer; the nearest comes first, and of the same kind as it the others. */
  function show(u) {
    const { left, top } = u.cursor;
    if (!(left >= 0) || !own.lines.length) return void (tip.hidden = true);
    const here = u.posToVal(left, "x");
    const near = own.lines.map(({ run, kind, xs, ys }) => {
      const at = nearest(xs, here);
      // Training has many more points: without a head start for validation its points could hardly be reached.
      const start = kind === "train" && run.validation[name] ? 14 : 0;
      const away = ys[at] === null ? Infinity : start + Math.hypot(u.valToPos(xs[at], "x") - left, u.valToPos(ys[at], "y") - top);
      const of = (key) => run[kind][key]?.[run[kind][view.x].indexOf(xs[at])];
      return { run, kind, away, value: of(name), update: of("update"), seconds: of("seconds") };
    }).sort((a, b) => a.away - b.away);
    const [{ kind, update, seconds }] = near;
    const rows = near.filter((other) => other.kind === kind);
    const row = (other) => make("tr", {}, make("td", {}, swatch(other.run)), make("td", {}, other.run.name),
      make("td", { class: "number" }, exact(name, other.value)),
      make("td", { class: "soft" }, other.update === update ? "" : `at ${count(other.update)}`));
    tip.replaceChildren(
      make("p", {}, `${kind === "train" ? "training" : "validation"} · update ${count(update)} · ${duration(seconds)}`),
      make("table", {}, make("tbody", {}, ...rows.slice(0, MOST_VALUES).map(row))));
    if (rows.length > MOST_VALUES) tip.append(make("p", {}, `and ${rows.length - MOST_VALUES} more`));
    tip.hidden = false;
    // Beside the pointer, on the side that has room.
    const across = left + u.over.offsetLeft;
    const place = across > element.clientWidth / 2 ? across - tip.offsetWidth - 14 : across + 14;
    tip.style.left = `${Math.max(0, Math.min(place, element.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${holder.offsetTop + u.over.offsetTop}px`;
  }

  const hide = () => own.plot.setCursor({ left: -10, top: -10 });

  function key(event) {
    if (event.key === "Escape") return hide();
    const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const [xs] = own.plot.data;
    if (!sideways || !xs.length) return undefined;
    event.preventDefault();
    const { left, top, idx } = own.plot.cursor;
    const at = left >= 0 && isNumber(idx) ? Math.min(xs.length - 1, Math.max(0, idx + sideways)) : sideways > 0 ? 0 : xs.length - 1;
    own.plot.setCursor({ left: own.plot.valToPos(xs[at], "x"), top: top >= 0 ? top : own.plot.over.clientHeight / 2 });
    return undefined;
  }

  /** Brings the lines of a run forward, or with null all. */
  own.light = (run) => {
    own.plot.series.forEach((series, place) => {
      const line = own.lines[place - 1];
      if (!line) return;
      series.strong ??= series.alpha;
      series.alpha = run && line.run !== run ? 0.08 * series.strong : series.strong;
      if (series.points) series.points.alpha = series.alpha;
    });
    own.plot.redraw(false);
  };

  return own;
}
