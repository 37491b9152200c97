// The matrix of steps against the steps they were reminded of, on a canvas.

const MATRIX = { left: 46, right: 14, top: 34, bottom: 4, tallest: 520, widest: 30 };

/** How dark a weight is: weak reminders stay visible, and the order of weights is kept. */
const darkness = (weight) => 0.1 + 0.9 * Math.sqrt(Math.min(1, Math.max(0, weight)));

/** Where the columns of a sequence lie; the arcs above the matrix share it. */
function columnsOf(length, width) {
  const cell = Math.min(MATRIX.widest, (width - MATRIX.left - MATRIX.right) / (length + 1));
  return { cell, left: MATRIX.left, at: (step) => MATRIX.left + (step + 0.5) * cell };
}

/** Red, green and blue of a colour of the style sheet. */
function channels(context, name) {
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const hex = context.fillStyle;
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function matrix() {
  const canvas = make("canvas", { class: "matrix", tabindex: 0, role: "application" });
  const base = document.createElement("canvas");
  const own = { canvas, cells: 0, first: 1, last: 0 };
  let plot = null;

  /** Draws a record; `first` is the first step that has a row. */
  own.draw = (record, width, first) => {
    const length = record.reminded_of.length;
    const rows = length - first + 1;
    const columns = columnsOf(length, width);
    const whole = first === 1;
    const tall = whole ? Math.min(columns.cell, MATRIX.tallest / rows) : Math.max(Math.min(columns.cell, MATRIX.tallest / rows), Math.min(24, 440 / rows));
    const height = MATRIX.top + rows * tall + MATRIX.bottom;
    const dots = window.devicePixelRatio || 1;
    for (const one of [canvas, base]) {
      one.width = Math.round(width * dots);
      one.height = Math.round(height * dots);
    }
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    plot = { record, columns, rows, first, length, tall, width, height, dots, inputs: record.inputs ?? null };
    Object.assign(own, { first, last: length, cells: fill() });
    labels();
    own.light(null);
  };

  /** Each dot of the screen is as dark as the strongest reminder that falls on it. */
  function fill() {
    const { record, columns, first, length, tall, dots, width, height } = plot;
    const context = base.getContext("2d");
    const [ink, paper, future] = ["--ink", "--card", "--future"].map((name) => channels(context, name));
    const [left, top, cell] = [columns.left * dots, MATRIX.top * dots, columns.cell * dots];
    const [wide, high] = [Math.ceil((length + 1) * cell), Math.ceil(plot.rows * tall * dots)];
    const dark = new Float32Array(wide * high);
    const gap = (size) => (size >= 7 ? 1 : 0);
    let cells = 0;
    for (let step = first; step <= length; step += 1) {
      const y0 = Math.floor((step - first) * tall * dots);
      const y1 = Math.min(high, Math.max(y0 + 1, Math.floor((step - first + 1) * tall * dots) - gap(tall * dots)));
      for (const [remembered, weight] of record.reminded_of[step - 1]) {
        const x0 = Math.floor(remembered * cell);
        // A mark of a single dot is too easily missed.
        const x1 = Math.min(wide, Math.max(x0 + Math.ceil(1.5 * dots), Math.floor((remembered + 1) * cell) - gap(cell)));
        const value = darkness(weight);
        for (let y = y0; y < y1; y += 1) for (let x = x0; x < x1; x += 1) if (value > dark[y * wide + x]) dark[y * wide + x] = value;
        cells += 1;
      }
    }
    context.clearRect(0, 0, width * dots, height * dots);
    const image = context.createImageData(wide, high);
    for (let y = 0; y < high; y += 1) {
      const step = first + Math.floor(y / (tall * dots));
      for (let x = 0; x < wide; x += 1) {
        const ground = x / cell >= step ? future : paper;
        const value = dark[y * wide + x];
        const at = 4 * (y * wide + x);
        for (let channel = 0; channel < 3; channel += 1) image.data[at + channel] = ground[channel] + (ink[channel] - ground[channel]) * value;
        image.data[at + 3] = 255;
      }
    }
    context.putImageData(image, Math.round(left), Math.round(top));
    return cells;
  }

  function labels() {
    const { columns, rows, first, length, tall, dots, inputs } = plot;
    const context = base.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    context.setTransform(dots, 0, 0, dots, 0, 0);
    context.strokeStyle = colour("--line");
    context.strokeRect(columns.left - 0.5, MATRIX.top - 0.5, (length + 1) * columns.cell + 1, rows * tall + 1);
    context.fillStyle = colour("--soft");
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    const across = linearTicks(0, length, Math.max(2, Math.floor(((length + 1) * columns.cell) / 52)));
    for (const step of across.filter(Number.isInteger)) {
      context.fillText(String(step), columns.at(step), MATRIX.top - 8);
      context.fillRect(Math.round(columns.at(step)), MATRIX.top - 5, 1, 4);
    }
    context.textAlign = "left";
    context.fillText("remembered step →", columns.left, 11);
    context.textAlign = "right";
    context.fillText("step ↓", columns.left - 6, 11);
    const withSymbols = inputs && tall >= 11;
    const down = linearTicks(first, length, Math.max(1, Math.floor((rows * tall) / (withSymbols ? 16 : 26)))).filter(Number.isInteger);
    for (const step of down) {
      const symbol = withSymbols && inputs[step - 1] ? `${inputs[step - 1]}  ` : "";
      context.fillText(`${symbol}${step}`, columns.left - 6, MATRIX.top + (step - first + 0.5) * tall + 4);
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  /** Marks the row of a step. */
  own.light = (step) => {
    const context = canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(base, 0, 0);
    if (!plot || step === null || step < plot.first || step > plot.length) return;
    const { record, columns, first, tall, dots, length } = plot;
    context.setTransform(dots, 0, 0, dots, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const [accent, paper] = ["--accent", "--card"].map((name) => style.getPropertyValue(name).trim());
    const high = Math.max(tall, 5);
    const top = MATRIX.top + (step - first + 0.5) * tall - high / 2;
    const right = columns.left + (length + 1) * columns.cell;
    // The row anew, on paper of its own: over the old marks the colour would turn to mud.
    context.fillStyle = paper;
    context.fillRect(columns.left, top, right - columns.left, high);
    context.fillStyle = accent;
    context.globalAlpha = 0.12;
    context.fillRect(columns.left, top, right - columns.left, high);
    for (const [remembered, weight] of record.reminded_of[step - 1]) {
      context.globalAlpha = darkness(weight);
      const wide = Math.max(columns.cell, 3);
      context.fillRect(columns.at(remembered) - wide / 2, top, wide - (wide >= 7 ? 1 : 0), high);
    }
    context.globalAlpha = 1;
    // A mark in the margin, for whom the colour says nothing.
    context.beginPath();
    context.moveTo(columns.left - 5, top + high / 2 - 4);
    context.lineTo(columns.left + 0.5, top + high / 2);
    context.lineTo(columns.left - 5, top + high / 2 + 4);
    context.fill();
    context.strokeStyle = accent;
    context.strokeRect(columns.left - 0.5, top - 0.5, right - columns.left + 1, high + 1);
  };

  /** The step under the pointer, or none. */
  own.stepAt = (event) => {
    if (!plot) return null;
    const box = canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) * (plot.height / (box.height || 1)) - MATRIX.top) / plot.tall);
    return row >= 0 && row < plot.rows ? plot.first + row : null;
  };

  /** Where a step's row is, in pixels of the canvas. */
  own.rowOf = (step) => MATRIX.top + (step - plot.first + 0.5) * plot.tall;

  return own;
}

/** Round numbers from low to high, about as many as asked for. */
function linearTicks(low, high, wanted) {
  const raw = (high - low) / Math.max(1, wanted);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}
