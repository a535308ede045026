// This file draws curves and points with axes, as SVG that is drawn anew when its width changes.

const kMargin = { left: 78, right: 14, top: 10, bottom: 34 };

// Several curves in one chart have these colours.
const seriesColors = ["--blue", "--orange", "--green", "--path", "--accent", "--barrier", "--data", "--muted"];
const seriesColor = index => `var(${seriesColors[index % seriesColors.length]})`;

// Returns a box with the picture that draw(width) returns for the width of the box.
function responsive(draw, name) {
  const box = el("div", { class: "chart", role: "img", "aria-label": name });
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.round(box.clientWidth);
    if (width === last || width < 50) return;
    last = width;
    box.replaceChildren(draw(width));
  }).observe(box);
  return box;
}

function linearTicks(from, to, count, unit = 1) {
  const step = niceStep((to - from || 1) / count / unit) * unit, ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; ++i) ticks.push(i * step || 0);
  return ticks;
}

function logTicks(from, to) {
  const ticks = [];
  for (let power = Math.ceil(Math.log10(from) - 1e-9); power <= Math.log10(to) + 1e-9; ++power) ticks.push(10 ** power);
  return ticks;
}

// Returns a function from a value to its place. `place` has the places of `from` and `to`.
function scale({ from, to, log, place: [begin, end] }) {
  const value = log ? Math.log10 : x => x;
  const span = value(to) - value(from) || 1;
  return x => begin + (value(x) - value(from)) / span * (end - begin);
}

// Draws axes with a title each. Returns the picture, the two scales, and the ends of the axes.
function axes({ width, height, x, y }) {
  const picture = el("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
  const right = width - kMargin.right, bottom = height - kMargin.bottom;
  const atX = scale({ ...x, place: [kMargin.left, right] }), atY = scale({ ...y, place: [bottom, kMargin.top] });
  const ticksX = x.ticks ?? (x.log ? logTicks(x.from, x.to) : linearTicks(x.from, x.to, Math.max(2, width / 90)));
  const ticksY = y.log ? logTicks(y.from, y.to) : linearTicks(y.from, y.to, Math.max(2, height / 45), y.unit);
  for (const tick of ticksY) {
    picture.append(el("line", { class: "grid", x1: kMargin.left, x2: right, y1: atY(tick), y2: atY(tick) }));
    picture.append(el("text", { x: kMargin.left - 7, y: atY(tick) + 4, "text-anchor": "end" }, y.text(tick)));
  }
  for (const tick of ticksX) {
    picture.append(el("line", { class: "grid", x1: atX(tick), x2: atX(tick), y1: bottom, y2: bottom + 4 }));
    picture.append(el("text", { x: atX(tick), y: bottom + 16, "text-anchor": "middle" }, x.text(tick)));
  }
  picture.append(el("line", { class: "axis", x1: kMargin.left, x2: right, y1: bottom, y2: bottom }));
  picture.append(el("text", { class: "title", x: right, y: height - 3, "text-anchor": "end" }, x.title));
  picture.append(el("text", { class: "title", x: kMargin.left + 4, y: kMargin.top + 8 }, y.title));
  return { picture, atX, atY, right, bottom };
}

// Labels are texts in a picture that do not overlap: one without room is left out.
class Labels {
  constructor(width) {
    this.width = width;
    this.texts = [];
    this.boxes = [];
  }

  take(x, y, width, height) {
    this.boxes.push({ x, y, width, height });
  }

  // Puts a text at the first of `places` with room: {x, y, end: it ends there}. Returns whether there is one.
  label(text, places) {
    const width = 7 * text.length, height = 14;  // generous for 11 px
    for (const { x, y, end } of places) {
      const box = { x: end ? x - width : x, y: y - 11, width, height };
      const outside = box.x < kMargin.left || box.x + width > this.width || box.y < 0;
      const over = one => box.x < one.x + one.width && one.x < box.x + width && box.y < one.y + one.height && one.y < box.y + height;
      if (outside || this.boxes.some(over)) continue;
      this.boxes.push(box);
      this.texts.push(el("text", { class: "value", x, y, "text-anchor": end ? "end" : "start" }, text));
      return true;
    }
    return false;
  }
}

// Returns at most two points, the lowest and the highest, for each pixel of the width.
function thinned(points, atX) {
  if (points.length < 2000) return points;
  const kept = [];
  for (let i = 0; i < points.length;) {
    const pixel = Math.floor(atX(points[i][0]));
    let low = i, high = i;
    for (; i < points.length && Math.floor(atX(points[i][0])) === pixel; ++i) {
      if (points[i][1] < points[low][1]) low = i;
      if (points[i][1] > points[high][1]) high = i;
    }
    kept.push(...(low === high ? [low] : [Math.min(low, high), Math.max(low, high)]).map(k => points[k]));
  }
  return kept;
}

// series: [{name, color, points: [[x, y]], dots, faint, step}]; those without points are left out. The value
// nearest to the mouse is shown. A series without a name is only drawn.
function lineChart({ name, series, x, y, height = 210 }) {
  const shown = series.filter(one => one.points.length), named = shown.filter(one => one.name);
  if (!shown.length) return empty(`${name}: no values.`);
  const all = shown.flatMap(one => one.points);
  const extent = k => all.reduce(([low, high], point) => [Math.min(low, point[k]), Math.max(high, point[k])], [Infinity, -Infinity]);
  const [fromX, toX] = extent(0);
  let [fromY, toY] = extent(1);
  if (y.zero !== false) fromY = Math.min(0, fromY);
  toY = toY > fromY ? toY + (toY - fromY) * 0.08 : fromY + 1;
  const draw = width => {
    const { picture, atX, atY, bottom } = axes({ width, height, x: { ...x, from: fromX, to: toX > fromX ? toX : fromX + 1 }, y: { ...y, from: fromY, to: toY } });
    for (const one of shown) {
      const points = thinned(one.points, atX), group = el("g", { style: { color: one.color } });
      if (one.dots || points.length === 1) {
        for (const [px, py] of points) group.append(el("circle", { class: "dot", cx: atX(px), cy: atY(py), r: 3.5 }));
      }
      if (points.length > 1) {
        const path = points.map(([px, py], i) => {
          const [cx, cy] = [atX(px).toFixed(1), atY(py).toFixed(1)];
          return i === 0 ? `M${cx} ${cy}` : one.step ? `H${cx}V${cy}` : `L${cx} ${cy}`;
        }).join("");
        group.append(el("path", { class: one.faint ? "curve faint" : "curve", d: path, "stroke-dasharray": one.dash ?? "none" }));
      }
      picture.append(group);
    }
    const mark = el("line", { class: "mark", y1: kMargin.top, y2: bottom, visibility: "hidden" });
    const label = el("text", { class: "value", y: kMargin.top + 8, "text-anchor": "end", x: width - kMargin.right });
    picture.append(mark, label);
    picture.addEventListener("pointermove", event => {
      const at = event.clientX - picture.getBoundingClientRect().left;
      const near = named.map(one => one.points.reduce((best, point) => Math.abs(atX(point[0]) - at) < Math.abs(atX(best[0]) - at) ? point : best));
      const px = atX(near[0][0]);
      mark.setAttribute("x1", px);
      mark.setAttribute("x2", px);
      mark.setAttribute("visibility", "visible");
      label.textContent = `${x.text(near[0][0], true)} ${x.unit ?? ""}: ` + named.map((one, i) => `${one.name} ${y.text(near[i][1], true)}`).join(", ");
    });
    picture.addEventListener("pointerleave", () => {
      mark.setAttribute("visibility", "hidden");
      label.textContent = "";
    });
    return picture;
  };
  return el("figure", {}, el("figcaption", {}, el("b", {}, name), ...named.map(one =>
    el("span", { class: "group" }, el("i", { class: one.dots ? "dotted" : one.dash ? "dashed" : one.faint ? "faint" : "", style: { color: one.color } }), one.name))), responsive(draw, name));
}
