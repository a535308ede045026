// This file draws the timeline. The work of a frame depends on the number of pixels, not of tasks.
// Pieces narrower than a pixel and a half become a column that is as high as the share they fill.

const kRow = 26, kGap = 6, kStrip = 3, kNames = 168;

class Painter {
  constructor(trace, lanes) {
    this.trace = trace;
    this.lanes = lanes;
    this.groups = new Set(trace.tasks.group).size;
    this.canvas = byId("canvas");
    this.ruler = byId("ruler");
    this.overview = byId("overview");
    this.theme();
  }

  theme() {
    this.colours = palette(this.trace.codelets, isDark());
    setPalette(this.colours);
    this.ratio = 0;  // so that resize() makes everything anew
    const named = ["ink", "muted", "line", "panel", "accent", "grid", "wait", "transfer", "path"];
    this.ink = Object.fromEntries(named.map(name => [name, style(`--${name}`)]));
    this.groupInk = new Map([...new Set(this.trace.tasks.group)].map(group => [group, groupColor(group)]));
  }

  // Sets the sizes of the canvases. Returns true if they changed.
  resize() {
    const width = byId("lanes").clientWidth - kNames, ratio = devicePixelRatio || 1;
    if (width === this.width && ratio === this.ratio) return false;
    this.width = width;
    this.ratio = ratio;
    const context = this.canvas.getContext("2d");
    const heights = [[this.canvas, this.lanes.length * (kRow + kGap) + kGap], [this.ruler, 34], [this.overview, 34]];
    for (const [canvas, height] of heights) {
      canvas.width = Math.max(1, Math.round(width * ratio));
      canvas.height = Math.round(height * ratio);
      Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    }
    this.hatches = partStyles.map((name, part) => hatch(context, style(name), part, ratio));
    this.small = null;
    return true;
  }

  top(index) {
    return kGap + index * (kRow + kGap);
  }

  draw(state) {
    this.resize();
    this.scale = this.canvas.width / (state.to - state.from);
    this.x = time => (time - state.from) * this.scale;
    const context = this.canvas.getContext("2d"), { width, height } = this.canvas;
    context.clearRect(0, 0, width, height);
    this.drawIterations(context, state, height);
    const scroll = byId("scroll"), ratio = this.ratio;
    this.lanes.forEach((lane, index) => {
      const y = this.top(index);
      if (y + kRow < scroll.scrollTop || y > scroll.scrollTop + scroll.clientHeight) return;
      this.drawLane(context, state, lane, Math.round(y * ratio), Math.round(kRow * ratio));
    });
    this.drawMessages(context, state);
    if (state.path) this.drawPath(context, state);
    if (state.range) this.drawRange(context, state.range, height);
    if (state.task >= 0) this.drawSelection(context, state);
    this.drawRuler(state);
    this.drawOverview(state);
  }

  drawLane(context, state, lane, y, height) {
    context.fillStyle = this.ink.grid;
    context.fillRect(0, y, this.canvas.width, height);
    if (lane.idle) this.drawIdle(context, state, lane.idle, y, height);
    const colours = lane.type === "worker" ? this.colours
      : lane.type === "wait" ? [{ fill: this.ink.wait, ink: this.ink.panel }, { fill: style("--barrier"), ink: this.ink.panel }]
      : [{ fill: this.ink.transfer, ink: this.ink.panel }];
    const body = lane.type === "worker" && this.groups > 1 ? height - Math.round(kStrip * this.ratio) : height;
    const found = lane.type === "worker" ? state.found : null;
    const last = lane.startingFrom(state.to);
    for (let i = lane.endingAfter(state.from); i < last;) {
      const left = this.x(lane.start[i]), right = this.x(lane.end[i]);
      if (right - left >= 1.5) {
        this.drawPiece(context, lane, i, left, right, y, body, colours, found);
        ++i;
        continue;
      }
      const pixel = Math.floor(left);
      let next = lane.nextFrom(state.from + (pixel + 1) / this.scale, i + 1);
      // The last piece that begins in this pixel may be a long one.
      if (next > i + 1 && (lane.end[next - 1] - lane.start[next - 1]) * this.scale >= 1.5) --next;
      this.drawColumn(context, lane, i, next, pixel, y, body, colours, found);
      i = next;
    }
    if (body < height) this.drawGroups(context, state, lane, y + body, height - body);
  }

  drawPiece(context, lane, i, left, right, y, height, colours, found) {
    const from = Math.max(-1, left), to = Math.min(this.canvas.width + 1, right);
    const category = lane.category[i], { fill, ink } = colours[category];
    const out = found && !found.has(category), gap = right - left > 4 ? this.ratio * 0.75 : 0;
    context.fillStyle = fill;
    context.globalAlpha = out ? 0.18 : 1;
    context.fillRect(from, y, to - from - gap, height);
    if (to - from > 46 * this.ratio && !out) this.label(context, this.textOf(lane, i), ink, from, to, y + height / 2);
    context.globalAlpha = 1;
  }

  textOf(lane, i) {
    if (lane.type === "wait") return lane.category[i] ? "waits for all tasks" : "waits for values";
    if (lane.type === "transfer") return bytes(this.trace.transfers.bytes[lane.item[i]]);
    const { tasks, codelets } = this.trace, layer = tasks.kinds[tasks.kind[lane.item[i]]][2];
    return codelets[lane.category[i]].name + (layer >= 0 ? ` · ${layer}` : "");
  }

  label(context, text, ink, from, to, middle) {
    const pad = 5 * this.ratio, room = to - from - 2 * pad;
    context.font = `${11 * this.ratio}px system-ui, sans-serif`;
    const width = context.measureText(text).width;
    if (width > room) {
      const letters = Math.floor(text.length * room / width) - 1;
      if (letters < 3) return;
      text = `${text.slice(0, letters)}…`;
    }
    context.fillStyle = ink;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(text, from + pad, middle + this.ratio * 0.5);
  }

  // Draws many pieces in one pixel as the codelet that took most of it, but a searched one if there is any.
  drawColumn(context, lane, first, last, pixel, y, height, colours, found) {
    let best = lane.category[first], busy = lane.end[first] - lane.start[first], out = found && !found.has(best);
    if (last - first > 1) {
      const sums = this.sums?.length === lane.categories ? this.sums.fill(0) : (this.sums = new Float64Array(lane.categories));
      lane.addTimes(first, last, sums);
      let most = -1;
      busy = 0;
      for (let c = 0; c < lane.categories; ++c) {
        const time = sums[c], wanted = !found || found.has(c);
        busy += time;
        const rank = time > 0 && found && wanted ? time + 1e18 : time;
        if (rank > most) most = rank, best = c, out = found && !wanted;
      }
    }
    const share = Math.min(1, Math.max(0.12, busy * this.scale));
    context.fillStyle = colours[best].fill;
    context.globalAlpha = out ? 0.18 : 1;
    context.fillRect(pixel, y + height * (1 - share), 1, height * share);
    context.globalAlpha = 1;
  }

  drawIdle(context, state, idle, y, height) {
    const wide = 3 * this.ratio, last = idle.startingFrom(state.to);
    for (let i = idle.endingAfter(state.from); i < last;) {
      const left = Math.max(0, this.x(idle.start[i])), right = Math.min(this.canvas.width, this.x(idle.end[i]));
      if (right - left >= wide) {
        context.fillStyle = this.hatches[idle.category[i]];
        context.fillRect(left, y, right - left, height);
        ++i;
      } else {
        i = Math.max(i + 1, idle.endingAfter(state.from + (Math.floor(left) + 1) / this.scale, i + 1));
      }
    }
  }

  // Shows below the tasks of a worker for which group it works, by the colour of the group.
  drawGroups(context, state, lane, y, height) {
    const { tasks } = this.trace, last = lane.startingFrom(state.to), ratio = this.ratio;
    for (let i = lane.endingAfter(state.from); i < last;) {
      const left = Math.floor(this.x(lane.start[i])), group = tasks.group[lane.item[i]];
      const next = lane.nextFrom(state.from + (left + 1) / this.scale, i + 1);
      const right = Math.max(left + 1, this.x(lane.end[next - 1]));
      context.fillStyle = this.groupInk.get(group);
      context.fillRect(left, y + ratio, right - left, height - ratio);
      i = next;
    }
  }

  drawIterations(context, state, height) {
    context.fillStyle = this.ink.line;
    for (const { x } of this.iterationMarks(state, 24)) context.fillRect(Math.round(x), 0, 1, height);
  }

  // Returns the iterations of the first rank with round numbers, on average at least `apart` pixels
  // apart.
  iterationMarks(state, apart) {
    const { at, rank, iteration } = this.trace.iterations, marks = [];
    const mine = this.mine ??= Array.from(at, (_, i) => i).filter(i => rank[i] === rank[0]);
    const first = firstWhere(0, mine.length, k => at[mine[k]] >= state.from);
    const last = firstWhere(first, mine.length, k => at[mine[k]] > state.to);
    const step = Math.max(1, niceStep((last - first || 1) * apart * this.ratio / this.canvas.width));
    for (let i = first; i < last; ++i)
      if (iteration[mine[i]] % step === 0) marks.push({ x: this.x(at[mine[i]]), number: iteration[mine[i]] });
    // Adds the iteration that is under way at the left border.
    if (first > 0 && !(marks[0]?.x < apart * this.ratio)) marks.unshift({ x: 0, number: iteration[mine[first - 1]] });
    return marks;
  }
}
