// This file makes texts of numbers with units, and elements of the page. Text from a trace only ever
// becomes a text node or an attribute, never markup.

function significant(value, digits = 3) {
  if (value === 0) return "0";
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(decimals, 9));
}

function duration(nanoseconds, digits = 3) {
  if (nanoseconds === 0) return "0 s";
  const size = Math.abs(nanoseconds);
  if (size < 1e3) return `${significant(nanoseconds, digits)} ns`;
  if (size < 1e6) return `${significant(nanoseconds / 1e3, digits)} µs`;
  if (size < 1e9) return `${significant(nanoseconds / 1e6, digits)} ms`;
  return `${significant(nanoseconds / 1e9, digits)} s`;
}

// Removes zeros at the end, for axes, where the steps are round.
const round = text => text.replace(/\.(\d*?)0+(?=\D|$)/, (_, kept) => kept ? `.${kept}` : "");

const seconds = value => duration(value * 1e9);
const percent = share => `${(100 * share).toFixed(1)} %`;
const whole = number => Math.round(number).toLocaleString("en").replaceAll(",", "\u202f");

// Returns "1 task" or "2 tasks".
const counted = (number, noun) => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;

function scaled(value, unit) {
  if (value === null || !isFinite(value)) return "–";
  const steps = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const [size, prefix] = steps.find(([least]) => Math.abs(value) >= least * 0.9995) ?? [1, ""];
  return `${significant(value / size)} ${prefix}${unit}`;
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  for (; Math.abs(value) >= 1024 && step < 4; ++step) value /= 1024;
  return `${significant(value)} ${units[step]}`;
}

// Returns 1, 2 or 5 times a power of ten, and at least `least`.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find(step => step * power >= least);
}

const svgNames = new Set(["svg", "g", "path", "line", "rect", "circle", "text", "title", "polyline", "desc"]);

function el(name, attributes = {}, ...children) {
  const node = svgNames.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name)
                                  : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    else if (value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter(child => child !== undefined && child !== null));
  return node;
}

const byId = id => document.getElementById(id);
const empty = text => el("p", { class: "empty" }, text);

function cell(text, value) {
  return el("td", value === undefined ? {} : { class: "number", "data-value": value }, text);
}

// columns: [{title, text(row), value?(row), hint?}]. Those with a value are numbers and sort by it,
// largest first; the others by their text.
function sortableTable(columns, rows, options = {}) {
  let by = options.by ?? -1, down = true;
  const body = el("tbody");
  const swatchOf = color => el("i", { class: "swatch", style: { background: color } });
  const heads = columns.map((column, i) => el("th", { scope: "col", class: column.value ? "number" : "" },
    column.color ? swatchOf(column.color) : null,
    el("button", { type: "button", title: column.hint ?? `sort by ${column.title}`, onclick: () => {
      down = by === i ? !down : Boolean(column.value);
      by = i;
      fill();
    } }, column.title)));
  function fill() {
    const sorted = [...rows];
    if (by >= 0) {
      const { value, text } = columns[by];
      sorted.sort((a, b) => (down ? -1 : 1) * (value ? (value(a) ?? -1) - (value(b) ?? -1) : text(a).localeCompare(text(b))));
    }
    heads.forEach((head, i) => head.setAttribute("aria-sort", i !== by ? "none" : down ? "descending" : "ascending"));
    body.replaceChildren(...sorted.map(row => el("tr", options.row?.(row) ?? {},
      ...columns.map(column => {
        const node = cell(column.text(row), column.value?.(row) ?? undefined);
        if (column.swatch) node.prepend(swatchOf(column.swatch(row)));
        return node;
      }))));
  }
  fill();
  return el("div", { class: "wide" }, el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body));
}
