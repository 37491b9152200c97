// Scales and their ticks, and lines that stay short however many points they have.

/** A scale from numbers to pixels. */
function scale(low, high, from, to, log) {
  const bend = log ? Math.log10 : (value) => value;
  const [a, b] = [bend(low), bend(high)];
  const place = (value) => from + ((bend(value) - a) / (b - a || 1)) * (to - from);
  place.invert = (pixel) => {
    const value = a + ((pixel - from) / (to - from || 1)) * (b - a);
    return log ? 10 ** value : value;
  };
  // What can be placed at all.
  place.takes = log ? (value) => isNumber(value) && value >= low : isNumber;
  return place;
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
  if (isFraction(name)) return `${Number((100 * value).toPrecision(3))} %`;
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e5 ? value.toExponential(1).replace(".0", "").replace("e+", "e") : String(Number(value.toPrecision(3)));
}

/** The least and the greatest of lists, of what a condition takes. */
function extent(lists, takes) {
  let [low, high] = [Infinity, -Infinity];
  for (const list of lists) {
    for (const value of list) {
      if (!takes(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

const pixel = (value) => Math.round(value * 10) / 10;

/**
 * A line as SVG path data. What cannot be placed leaves a gap. Of the points that share `grain` pixels of width the first,
 * the lowest, the highest and the last are drawn: the line looks the same and stays short.
 */
function linePath(xs, ys, x, y, grain) {
  let path = "";
  let open = false;
  let column = null;
  const close = () => {
    if (column && column.points > 1) path += `V${pixel(column.low)}V${pixel(column.high)}V${pixel(column.last)}`;
    column = null;
  };
  for (let at = 0; at < ys.length; at += 1) {
    if (!y.takes(ys[at]) || !x.takes(xs[at])) {
      close();
      open = false;
      continue;
    }
    const [across, down] = [x(xs[at]), y(ys[at])];
    const place = grain > 0 ? Math.floor(across / grain) : at;
    if (column && open && column.place === place) {
      column.points += 1;
      column.low = Math.min(column.low, down);
      column.high = Math.max(column.high, down);
      column.last = down;
      continue;
    }
    close();
    path += `${open ? "L" : "M"}${pixel(across)} ${pixel(down)}`;
    open = true;
    column = { place, points: 1, low: down, high: down, last: down };
  }
  close();
  return path;
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
