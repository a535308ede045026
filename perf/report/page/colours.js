// This file makes the recorded colours of codelets readable on a dark and on a light page. Codelets
// of one colour (a family) differ in lightness.

function toOklab(color) {
  const [r, g, b] = [16, 8, 0].map(shift => {
    const value = (color >> shift & 255) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
}

function fromOklab([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
                  -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
                  -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s];
  const parts = linear.map(value => {
    const clipped = Math.min(1, Math.max(0, value));
    return Math.round(255 * (clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055));
  });
  return `rgb(${parts.join(" ")})`;
}

// Returns the colour of a codelet for everything but the canvas; it follows the theme by itself.
const codeletColor = index => `var(--codelet-${index})`;

function setPalette(colours) {
  colours.forEach(({ fill }, i) => document.documentElement.style.setProperty(`--codelet-${i}`, fill));
}

// Returns [{fill, ink}] of the codelets. The chroma is limited, because codelets cover large areas.
function palette(codelets, dark) {
  const [low, high] = dark ? [0.52, 0.8] : [0.5, 0.78];
  const family = new Map();
  return codelets.map(codelet => {
    const member = family.get(codelet.color) ?? 0;
    family.set(codelet.color, member + 1);
    const [l, a, b] = toOklab(codelet.color);
    const step = 0.085 * Math.ceil(member / 2) * (member % 2 ? 1 : -1);
    const spread = Math.min(1, Math.max(0, (l - 0.3) / 0.55));
    const chroma = Math.hypot(a, b), calm = chroma > 0 ? Math.min(1, 0.155 / chroma) : 1;
    const lightness = Math.min(0.88, Math.max(0.42, low + (high - low) * spread + step));
    return { fill: fromOklab([lightness, calm * a, calm * b]), ink: lightness > 0.6 ? "#10141a" : "#ffffff" };
  });
}

// Returns the colour of a compute group. Hues differ by the golden angle (2.4 rad), so that those of
// any number of groups can be told apart.
function groupColor(group, dark = isDark()) {
  const hue = 2.4 * group + 0.9, chroma = 0.13;
  return fromOklab([dark ? 0.76 : 0.55, chroma * Math.cos(hue), chroma * Math.sin(hue)]);
}

const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The page follows the system until the button was pressed.
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// changed() is called after every change of the theme, and once now.
function themeButton(button, changed = () => {}) {
  const themed = () => {
    button.textContent = isDark() ? "light" : "dark";
    changed();
  };
  button.onclick = () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    themed();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
  themed();
}

const partStyles = ["--compute", "--data", "--scheduling", "--other-workers", "--nothing-ready", "--submission-late", "--barrier", "--other-nodes", "--start-up"];
// omni-perf idle has the same names.
const partTitles = ["compute", "data", "scheduling", "other workers", "nothing ready", "submission late", "barrier", "other nodes", "start up"];
const partHints = ["a kernel runs", "a task's data are brought to the worker's memory",
  "a task that the worker may run is ready, but not begun", "all ready tasks may only be run by other workers", "all submitted tasks wait for others",
  "nothing is submitted, and the main thread does something else",
  "nothing is submitted: the main thread waits",
  "a message of another rank is awaited, and no worker computes",
  "nothing is submitted, and the first iteration has not begun"];

// Returns a pattern that tells a part apart without its colour.
function hatch(context, color, part, ratio) {
  const size = Math.round(8 * ratio), tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.strokeStyle = pen.fillStyle = color;
  pen.globalAlpha = 0.12;
  pen.fillRect(0, 0, size, size);
  pen.globalAlpha = 0.5;
  pen.lineWidth = ratio;
  pen.beginPath();
  const slope = [0, 2, 1, 5, -1, 3, 4, 6, 7][part];
  for (const at of [-size, 0, size]) {
    if (slope === 1) pen.moveTo(at, size), pen.lineTo(at + size, 0);
    if (slope === -1) pen.moveTo(at, 0), pen.lineTo(at + size, size);
    if (slope === 2) pen.moveTo(0, size / 2), pen.lineTo(size, size / 2);
    if (slope === 5 && at === 0) pen.strokeRect(ratio, ratio, size / 2, size / 2);
    if (slope === 6 && at === 0) pen.moveTo(0, 0), pen.lineTo(size, size), pen.moveTo(size, 0), pen.lineTo(0, size);
    if (slope === 7 && at === 0) pen.moveTo(0, size / 4), pen.lineTo(size, size / 4), pen.moveTo(0, size * 3 / 4), pen.lineTo(size, size * 3 / 4);
    if (slope === 3) pen.moveTo(size / 2, 0), pen.lineTo(size / 2, size);
  }
  pen.stroke();
  if (slope === 4) pen.fillRect(size / 2 - ratio, size / 2 - ratio, 2 * ratio, 2 * ratio);
  return context.createPattern(tile, "repeat");
}
