// This file draws what lies over and around the lanes: selection, arrows, range, ruler and the small
// picture of the whole run.

const kArrows = 64;       // more cannot be told apart
const kMessages = 4096;  // of a row, in view; with more, the row has no arrows

Object.assign(Painter.prototype, {
  // Draws a frame around a task, and returns its place.
  frame(context, task, color, width) {
    const { tasks } = this.trace;
    const index = this.lanes.findIndex(lane => lane.type === "worker" && lane.worker === tasks.worker[task]);
    const left = this.x(tasks.start[task]), right = Math.max(this.x(tasks.end[task]), left + 2 * this.ratio);
    const box = { left, right, y: this.top(index) * this.ratio, height: kRow * this.ratio };
    const half = width * this.ratio / 2;
    context.strokeStyle = color;
    context.lineWidth = width * this.ratio;
    const from = Math.max(-20, left), to = Math.min(this.canvas.width + 20, right);
    if (to > from) context.strokeRect(from - half, box.y - half, to - from + 2 * half, box.height + 2 * half);
    return box;
  },

  drawSelection(context, { task, next }) {
    const { trace } = this, mine = this.frame(context, task, this.ink.accent, 2.5);
    const earlier = Array.from(before(trace.tasks, task)), last = lastWaitedFor(trace.tasks, task);
    const middle = box => box.y + box.height / 2;
    const arrow = (from, to, color, width, dash) => {
      context.strokeStyle = color;
      context.lineWidth = width * this.ratio;
      context.setLineDash(dash.map(length => length * this.ratio));
      context.beginPath();
      const bend = Math.max(12 * this.ratio, Math.abs(to.left - from.right) / 3);
      context.moveTo(from.right, middle(from));
      context.bezierCurveTo(from.right + bend, middle(from), to.left - bend, middle(to), to.left, middle(to));
      context.stroke();
      context.setLineDash([]);
    };
    for (const other of earlier.slice(-kArrows)) {
      const box = this.frame(context, other, this.ink.ink, other === last ? 2 : 1);
      arrow(box, mine, this.ink.ink, other === last ? 2 : 1, []);
    }
    for (const other of next.slice(0, kArrows)) arrow(mine, this.frame(context, other, this.ink.muted, 1), this.ink.muted, 1, [3, 3]);
    this.frame(context, task, this.ink.accent, 2.5);
  },

  // Returns the largest messages between ranks in view, with the rows of sender and receiver.
  messagesInView({ from, to }) {
    const found = [], { from_rank, bytes } = this.trace.transfers;
    this.lanes.forEach((lane, receiver) => {
      if (lane.type !== "transfer" || from_rank[lane.item[0]] < 0) return;
      const sender = this.lanes.findIndex(one => one.rank === from_rank[lane.item[0]]);
      const first = lane.endingAfter(from), last = lane.startingFrom(to);
      if (sender < 0 || last - first > kMessages) return;
      for (let i = first; i < last; ++i)
        if (lane.end[i] > from) found.push({ sender, receiver, from: lane.start[i], to: lane.end[i], bytes: bytes[lane.item[i]] });
    });
    return found.sort((a, b) => b.bytes - a.bytes).slice(0, kArrows);
  },

  // Draws an arrow for each message, from when it was awaited until it was there.
  drawMessages(context, state) {
    const middle = row => (this.top(row) + kRow / 2) * this.ratio, size = 7 * this.ratio;
    context.strokeStyle = this.ink.accent;
    context.lineWidth = this.ratio;
    context.beginPath();
    for (const { sender, receiver, from, to } of this.messagesInView(state)) {
      const left = this.x(from), right = this.x(to), top = middle(sender), end = middle(receiver);
      context.moveTo(left, top);
      context.lineTo(right, end);
      for (const turn of [-0.4, 0.4]) {
        const angle = Math.atan2(end - top, right - left) + turn;
        context.moveTo(right, end);
        context.lineTo(right - size * Math.cos(angle), end - size * Math.sin(angle));
      }
    }
    context.stroke();
  },

  // Draws the longest chain of dependent tasks as a line through those wide enough to be seen.
  drawPath(context, state) {
    const { tasks, limits } = this.trace, { path } = limits, ratio = this.ratio;
    const rows = new Map(this.lanes.map((lane, index) => [lane.worker, index]));
    context.beginPath();
    let at = -Infinity, begun = false;
    const first = Math.max(0, firstWhere(0, path.length, i => tasks.end[path[i]] >= state.from) - 1);
    for (let i = first; i < path.length; ++i) {
      const task = path[i], left = this.x(tasks.start[task]), right = this.x(tasks.end[task]);
      if (right - at < 1.5 && i + 1 < path.length) continue;
      at = right;
      const y = (this.top(rows.get(tasks.worker[task])) + 4) * ratio;
      if (begun) context.lineTo(left, y);
      else context.moveTo(left, y);
      context.lineTo(right, y);
      begun = true;
      if (left > this.canvas.width) break;
    }
    context.lineJoin = "round";
    for (const [color, width] of [[this.ink.panel, 4.5], [this.ink.path, 2]]) {
      context.strokeStyle = color;
      context.lineWidth = width * ratio;
      context.stroke();
    }
  },

  drawRange(context, [from, to], height) {
    const left = this.x(from), right = this.x(to);
    context.fillStyle = this.ink.accent;
    context.globalAlpha = 0.12;
    context.fillRect(left, 0, right - left, height);
    context.globalAlpha = 1;
    context.fillRect(left, 0, this.ratio, height);
    context.fillRect(right - this.ratio, 0, this.ratio, height);
  },

  drawRuler(state) {
    const context = this.ruler.getContext("2d"), { width, height } = this.ruler, ratio = this.ratio;
    context.clearRect(0, 0, width, height);
    context.font = `${11 * ratio}px system-ui, sans-serif`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const { x, number } of this.iterationMarks(state, 40)) {
      context.fillStyle = this.ink.muted;
      context.fillRect(Math.round(x), 0, ratio, 15 * ratio);
      context.fillText(String(number), x + 4 * ratio, 8 * ratio);
    }
    const step = niceStep((state.to - state.from) * 100 * ratio / width);
    for (let tick = Math.ceil(state.from / step) * step; tick <= state.to; tick += step) {
      const x = this.x(tick);
      context.fillStyle = this.ink.line;
      context.fillRect(Math.round(x), 19 * ratio, ratio, 15 * ratio);
      context.fillStyle = this.ink.ink;
      context.fillText(tickText(tick, step), x + 4 * ratio, 27 * ratio);
    }
    if (state.range) this.drawRange(context, state.range, height);
  },

  // Shows how busy all workers were, by codelet. The picture is drawn once, and then copied.
  drawOverview(state) {
    const context = this.overview.getContext("2d"), { width, height } = this.overview;
    if (!this.small) {
      this.small = document.createElement("canvas");
      this.small.width = width;
      this.small.height = height;
      const pen = this.small.getContext("2d"), workers = this.lanes.filter(lane => lane.type === "worker");
      const step = this.trace.wall / width;
      for (let x = 0; x < width && workers.length; ++x) {
        const sums = workers[0].nothing();
        for (const lane of workers) lane.addRange(x * step, (x + 1) * step, sums);
        let y = height;
        sums.time.forEach((time, c) => {
          const size = height * time / (step * workers.length);
          if (!size) return;
          pen.fillStyle = this.colours[c].fill;
          pen.fillRect(x, y - size, 1, size);
          y -= size;
        });
      }
    }
    context.clearRect(0, 0, width, height);
    context.drawImage(this.small, 0, 0);
    const scale = width / this.trace.wall, left = state.from * scale, right = Math.max(left + 2, state.to * scale);
    context.fillStyle = this.ink.panel;
    context.globalAlpha = 0.72;
    context.fillRect(0, 0, left, height);
    context.fillRect(right, 0, width - right, height);
    context.globalAlpha = 1;
    context.strokeStyle = this.ink.accent;
    context.lineWidth = this.ratio * 1.5;
    context.strokeRect(left + 1, 1, right - left - 2, height - 2);
  },
});

// Returns, of the tasks that a task waited for, the one that ended last; -1: it waited for none.
function lastWaitedFor(tasks, task) {
  let last = -1;
  for (const other of before(tasks, task)) if (last < 0 || tasks.end[other] >= tasks.end[last]) last = other;
  return last;
}

function tickText(time, step) {
  const [size, unit] = step >= 1e8 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : step >= 1e2 ? [1e3, "µs"] : [1, "ns"];
  return `${(time / size).toFixed(Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)))} ${unit}`;
}
