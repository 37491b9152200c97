// Elements, and numbers and settings as people read them.

const SVG = "http://www.w3.org/2000/svg";

function filledIn(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  // Strings become text, whatever is in them.
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An HTML element; attributes that begin with `on` are listeners. */
function make(tag, attributes = {}, ...children) {
  return filledIn(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function shape(tag, attributes = {}, ...children) {
  return filledIn(document.createElementNS(SVG, tag), attributes, children);
}

/** A text whose `words` in backticks are code. */
function withCode(text) {
  return text.split("`").map((part, at) => (at % 2 === 1 ? make("code", {}, part) : part));
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const isFraction = (name) => name.includes("accuracy");
const NONE = "–";
const pixel = (value) => Math.round(value * 10) / 10;

/** 12000 as 12 000. */
function count(value) {
  return isNumber(value) ? String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f") : NONE;
}

/** Some five digits, as `sab` prints them. */
function number(value) {
  if (!isNumber(value)) return NONE;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.01 || size >= 1e5) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return value.toFixed(size < 10 ? 4 : size < 100 ? 3 : size < 1000 ? 2 : size < 10000 ? 1 : 0);
}

/** Near the whole with two decimals, so that only what is complete is 100. */
function percent(value) {
  if (!isNumber(value)) return NONE;
  const shown = 100 * value;
  return shown >= 99 && shown < 100 ? `${Math.min(shown, 99.99).toFixed(2)} %` : `${shown.toFixed(1)} %`;
}

const metric = (name, value) => (isFraction(name) ? percent(value) : number(value));

/** With all digits that the page has. */
function exact(name, value) {
  if (!isNumber(value)) return NONE;
  return isFraction(name) ? `${Number((100 * value).toPrecision(6))} %` : String(value).replace("e+", "e");
}

/** Seconds as m:ss or h:mm:ss. */
function duration(seconds) {
  if (!isNumber(seconds) || seconds < 0) return NONE;
  const whole = Math.round(seconds);
  const two = (value) => String(value).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** Metrics in the order in which they matter, with what they are. */
const METRICS = new Map([
  ["accuracy", "Accuracy"],
  ["bpc", "Bits per character"],
  ["mse", "Mean squared error"],
  ["mae", "Mean absolute error"],
  ["error", "Error"],
  ["ce_last10", "Cross-entropy of the ten answers, nats"],
  ["ce", "Cross-entropy, nats"],
  ["loss", "Training loss"],
  ["gradient_norm", "Gradient norm before clipping"],
  ["learning_rate", "Learning rate"],
]);

/** Of how training goes, not of how well. */
const ALWAYS_LOG = ["gradient_norm", "learning_rate"];

function inOrder(names) {
  const known = [...METRICS.keys()];
  // Metrics this page does not know stand before the loss.
  const place = (name) => (known.includes(name) ? known.indexOf(name) : known.indexOf("loss") - 0.5);
  return [...names].sort((a, b) => place(a) - place(b) || a.localeCompare(b));
}

function metricTitle(name) {
  const words = name.replaceAll("_", " ");
  return METRICS.get(name) ?? words.charAt(0).toUpperCase() + words.slice(1);
}

const steps = (value) => `${value} step${value === 1 ? "" : "s"}`;

/** The settings of a model in words. */
function modelWords(model) {
  if (!model || typeof model !== "object") return NONE;
  const { kind, hidden, k_top: top, k_att: every, k_trunc: reach } = model;
  if (kind === "transformer") return `Transformer, ${model.layers} layers of ${hidden}, ${model.heads} heads`;
  if (kind !== "sab") return String(kind ?? NONE);
  const gradient = reach === "none" ? "full backpropagation" : `gradient of ${steps(reach)}`;
  const name = top === 0 ? "LSTM" : top === "all" ? "LSTM with full self-attention" : `SAB, reminded of ${top}`;
  const words = [`${name}, ${gradient}, ${hidden} units`];
  if (top !== 0 && isNumber(every) && every !== 1) words.push(`stores every ${every}th state`);
  if (top !== 0 && model.mental_updates === false) words.push("no mental updates");
  return words.join(", ");
}

/** The task of a run in words. */
function taskWords(task) {
  if (!task || typeof task !== "object") return NONE;
  return isNumber(task.length) ? `${task.name}, T = ${task.length}` : String(task.name ?? NONE);
}
