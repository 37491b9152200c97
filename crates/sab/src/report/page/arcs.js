// Arcs from a step to the steps it was reminded of, above the line of the sequence's symbols.

const ARCS = { height: 168, ground: 122 };
const NULL_SLOT = "∅";

function arcs() {
  const svg = shape("svg", { class: "arcs", role: "img" });
  const own = { svg };
  let line = null;

  const symbolOf = (record, step) => (step === 0 ? NULL_SLOT : record.inputs?.[step - 1] ?? null);

  own.draw = (record, width, step) => {
    const length = record.reminded_of.length;
    const columns = columnsOf(length, width);
    line = { columns, length, width };
    const reminded = step === null ? [] : record.reminded_of[step - 1] ?? [];
    svg.setAttribute("viewBox", `0 0 ${width} ${ARCS.height}`);
    svg.setAttribute("height", ARCS.height);
    svg.setAttribute("aria-label", step === null ? "No step is chosen." : `Arcs from step ${step} to ${reminded.length} remembered steps.`);
    const end = columns.left + (length + 1) * columns.cell;
    svg.replaceChildren(
      shape("path", { class: "ground", d: `M${columns.left} ${ARCS.ground + 0.5}H${end}` }),
      ...symbols(record, columns, length),
      // The strongest is drawn last, on top.
      ...[...reminded].reverse().map(([remembered, weight]) => arc(columns, length, step, remembered, weight)),
      ...ends(record, columns, step, reminded));
  };

  function symbols(record, columns, length) {
    if (!record.inputs || columns.cell < 6) return [];
    const size = Math.min(14, columns.cell * 1.45);
    return Array.from({ length: length + 1 }, (_, step) =>
      shape("text", { x: pixel(columns.at(step)), y: ARCS.ground + 15, "font-size": size.toFixed(1) }, symbolOf(record, step) ?? ""));
  }

  function arc(columns, length, step, remembered, weight) {
    const [from, to] = [columns.at(step), columns.at(remembered)];
    const rise = 14 + (ARCS.ground - 24) * Math.sqrt(Math.abs(step - remembered) / (length + 1));
    const strength = Math.min(1, Math.max(0, weight));
    return shape("path", {
      class: "arc",
      d: `M${pixel(from)} ${ARCS.ground}C${pixel(from)} ${pixel(ARCS.ground - rise * 1.3)} ${pixel(to)} ${pixel(ARCS.ground - rise * 1.3)} ${pixel(to)} ${ARCS.ground}`,
      "stroke-width": (0.8 + 4.2 * strength).toFixed(2),
      "stroke-opacity": (0.25 + 0.75 * Math.sqrt(strength)).toFixed(2),
    });
  }

  /** Names the ends of the arcs, the step itself first and then the strongest, as far as there is room. */
  function ends(record, columns, step, reminded) {
    if (step === null) return [];
    const taken = [];
    const named = [];
    for (const place of [step, ...reminded.map(([remembered]) => remembered)]) {
      const kind = place === step ? "here" : "end";
      const across = columns.at(place);
      const symbol = symbolOf(record, place);
      named.push(shape("path", { class: kind, d: `M${pixel(across)} ${ARCS.ground + 1}l-3.2 5h6.4Z` }));
      if (record.inputs && columns.cell >= 6 && symbol) {
        const size = Math.min(17, Math.max(11, columns.cell * 1.6));
        named.push(shape("path", { d: `M${pixel(across - size * 0.36)} ${ARCS.ground + 6}h${pixel(size * 0.72)}v12h${pixel(-size * 0.72)}Z`, style: "fill:var(--paper)" }),
          shape("text", { class: kind, x: pixel(across), y: ARCS.ground + 16, "font-size": size.toFixed(1) }, symbol));
      }
      const words = columns.cell >= 6 || !symbol ? String(place) : `${place}:${symbol}`;
      const half = words.length * 3.6 + 3;
      const middle = Math.max(half, Math.min(line.width - half, across));
      if (taken.some(([left, right]) => middle + half > left && middle - half < right)) continue;
      taken.push([middle - half, middle + half]);
      named.push(shape("text", { class: kind, x: pixel(middle), y: ARCS.ground + 33, "font-size": 11 }, words));
    }
    return named;
  }

  /** The step under the pointer, or none. */
  own.stepAt = (event) => {
    if (!line) return null;
    const box = svg.getBoundingClientRect();
    const across = (event.clientX - box.left) * (line.width / (box.width || 1));
    const step = Math.floor((across - line.columns.left) / line.columns.cell);
    return step >= 1 && step <= line.length ? step : null;
  };

  return own;
}
