"""What report_test.py runs within the page of a report, in JavaScript."""

# After what was asked for has been drawn.
DRAWN = "const done = arguments[arguments.length - 1]; requestAnimationFrame(() => requestAnimationFrame(() => done(0)));"
# Redraws at 60 places and zooms: milliseconds (reading pixels back waits for the paint), colours on the
# canvas, which is cleared before, and the range asked for and said to be visible.
FRAMES = """
const { timeline } = report, { wall } = timeline, frames = [], context = canvas.getContext("2d");
for (let i = 0; i < 60; ++i) {
  const width = wall * 0.85 ** (i % 30), from = (wall - width) * i / 60;
  context.clearRect(0, 0, canvas.width, canvas.height);
  const begin = performance.now();
  Object.assign(timeline.state, { from, to: from + width });
  timeline.draw();
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height), time = performance.now() - begin;
  frames.push([time, new Set(new Uint32Array(data.buffer)).size, Math.round(from), Math.round(from + width),
               +visible.dataset.from, +visible.dataset.to]);
}
return frames;"""
# Paints everything that the page has on the canvas, and counts its colours.
COLOURS = """
const { width, height } = canvas, seen = new Set();
const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer);
for (const pixel of pixels) seen.add(pixel);
return seen.size;"""
# Time by worker and part as the page draws it, beside what the analysis says.
PIECES = """
return report.timeline.lanes.filter(lane => lane.type === "worker").map(lane => {
  const sums = lane.idle.nothing();
  lane.idle.addRange(0, report.trace.wall, sums);
  return [Array.from(sums.time).slice(1), report.trace.idle.workers[lane.worker].parts.slice(1)];
});"""
# The sums of a range, which come from blocks, against adding up one by one.
RANGE = """
const { trace, timeline } = report, [from, to] = arguments, { tasks } = trace;
const { tasks: sums } = timeline.sums(from, to), expected = trace.codelets.map(() => [0, 0, 0]);
for (let i = 0; i < tasks.count; ++i) {
  const part = Math.min(to, tasks.end[i]) - Math.max(from, tasks.start[i]);
  if (part <= 0) continue;
  const [codelet, , , flops] = tasks.kinds[tasks.kind[i]], sum = expected[codelet];
  sum[0] += part;
  sum[1] += 1;
  sum[2] += flops * part / (tasks.end[i] - tasks.start[i]);
}
const close = (a, b) => Math.abs(a - b) <= 1e-9 * Math.abs(a + b);
return expected.every(([time, number, work], c) => close(sums.time[c], time) && sums.number[c] === number && close(sums.work[c], work));"""
