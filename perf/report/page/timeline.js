// A Timeline has what is in view and what is selected, and handles mouse, touch and keys.

const kLeast = 100;  // ns in view

class Timeline {
  constructor(trace, lanes, onChange) {
    this.trace = trace;
    this.lanes = lanes;
    this.painter = new Painter(trace, lanes);
    this.onChange = onChange;
    this.wall = Math.max(trace.wall, kLeast);
    this.state = { from: 0, to: this.wall, range: null, task: -1, next: [], found: null, path: false };
    this.names();
    this.listen();
    new ResizeObserver(() => this.changed()).observe(byId("lanes"));
  }

  names() {
    const share = lane => lane.type === "worker" ? percent(1 - lane.idle.time_total / this.wall) : "";
    byId("names").replaceChildren(...this.lanes.map(lane => {
      if (lane.idle) lane.idle.time_total = lane.idle.end.reduce((sum, end, i) => sum + end - lane.idle.start[i], 0);
      return el("div", { class: "name", title: lane.name, style: { height: `${kRow}px`, "margin-top": `${kGap}px` } },
        el("span", {}, lane.name), el("small", { title: lane.idle ? "of the whole run spent computing" : "" }, share(lane)));
    }));
  }

  sums(from, to) {
    return sumRange(this.trace, this.lanes, from, to);
  }

  // Redraws once, before the next frame.
  changed() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
      this.onChange(this.state);
    });
  }

  draw() {
    const { from, to } = this.state, output = byId("visible");
    this.painter.draw(this.state);
    output.textContent = `${duration(from, 4)} – ${duration(to, 4)} (${duration(to - from)} of ${duration(this.wall)})`;
    output.dataset.from = Math.round(from);
    output.dataset.to = Math.round(to);
  }

  show(from, to) {
    const length = Math.min(this.wall, Math.max(kLeast, to - from));
    this.state.from = Math.min(Math.max(0, from), this.wall - length);
    this.state.to = this.state.from + length;
    this.changed();
  }

  zoom(factor, around = (this.state.from + this.state.to) / 2) {
    const { from, to } = this.state;
    if (factor < 1 && to - from <= kLeast) return;
    this.show(around - (around - from) * factor, around + (to - around) * factor);
  }

  pan(share) {
    const length = this.state.to - this.state.from;
    this.show(this.state.from + share * length, this.state.to + share * length);
  }

  select(task, bring = false) {
    const { tasks } = this.trace, { state } = this;
    state.task = task;
    state.next = task >= 0 ? after(tasks, task) : [];
    if (task >= 0 && bring) {
      const length = Math.max(state.to - state.from, (tasks.end[task] - tasks.start[task]) * 1.2);
      const middle = (tasks.start[task] + tasks.end[task]) / 2;
      if (tasks.start[task] < state.from || tasks.end[task] > state.to) this.show(middle - length / 2, middle + length / 2);
      const index = this.lanes.findIndex(lane => lane.worker === tasks.worker[task]), scroll = byId("scroll");
      const top = this.painter.top(index);
      if (top < scroll.scrollTop || top + kRow > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top - kRow;
    }
    this.changed();
  }

  selectRange(range) {
    this.state.range = range;
    byId("zoom-range").disabled = !range;
    this.changed();
  }

  find(codelets) {
    this.state.found = codelets;
    this.changed();
  }

  timeAt(event) {
    const box = byId("ruler").getBoundingClientRect(), { from, to } = this.state;
    return from + (event.clientX - box.left) / box.width * (to - from);
  }

  // Returns the lane and the piece under the mouse, or the nearest piece within 3 pixels.
  pieceAt(event) {
    const y = event.clientY - byId("canvas").getBoundingClientRect().top;
    const index = Math.floor((y - kGap / 2) / (kRow + kGap)), lane = this.lanes[index];
    if (!lane) return [null, -1];
    const { from, to } = this.state;
    return [lane, lane.at(this.timeAt(event), 3 * (to - from) / this.painter.width)];
  }

  // Selects the task before or after the selected one on its worker.
  neighbour(step) {
    const { task } = this.state, { tasks } = this.trace;
    if (!tasks.count) return;
    if (task < 0) {
      const lane = this.lanes.find(one => one.type === "worker" && one.count);
      return this.select(lane.item[Math.min(lane.count - 1, lane.startingFrom(this.state.from))], true);
    }
    const [lane, i] = pieceOf(this.trace, this.lanes, task);
    this.select(lane.item[Math.min(lane.count - 1, Math.max(0, i + step))], true);
  }

  jumpToLast() {
    const { task } = this.state, last = task >= 0 ? lastWaitedFor(this.trace.tasks, task) : -1;
    if (last >= 0) this.select(last, true);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
    const { range } = this.state;
    const keys = {
      "+": () => this.zoom(1 / 1.5), "=": () => this.zoom(1 / 1.5), "-": () => this.zoom(1.5),
      ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15), 0: () => this.show(0, this.wall),
      f: () => range && this.show(...range), "[": () => this.neighbour(-1), "]": () => this.neighbour(1),
      d: () => this.jumpToLast(), Escape: () => (this.selectRange(null), this.select(-1)),
    };
    // Outside the canvas these keys scroll the page, or press a button.
    if (event.target.id === "canvas") Object.assign(keys, {
      ArrowUp: () => this.zoom(1 / 1.5), ArrowDown: () => this.zoom(1.5),
      PageUp: () => this.pan(-0.9), PageDown: () => this.pan(0.9),
      Home: () => this.pan(-1e9), End: () => this.pan(1e9), Enter: () => this.neighbour(1),
    });
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  listen() {
    const canvas = byId("canvas"), ruler = byId("ruler"), overview = byId("overview");
    document.addEventListener("keydown", event => this.key(event));
    for (const target of [canvas, ruler]) {
      target.addEventListener("wheel", event => this.wheel(event), { passive: false });
      target.addEventListener("pointerdown", event => this.press(event, target));
    }
    canvas.addEventListener("pointermove", event => this.hover(event));
    canvas.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
    canvas.addEventListener("dblclick", event => this.doubleClick(event));
    byId("scroll").addEventListener("scroll", () => this.changed());

    const moveTo = event => {
      const box = overview.getBoundingClientRect(), { from, to } = this.state;
      const middle = (event.clientX - box.left) / box.width * this.wall;
      this.show(middle - (to - from) / 2, middle + (to - from) / 2);
    };
    overview.addEventListener("pointerdown", event => {
      overview.setPointerCapture(event.pointerId);
      moveTo(event);
    });
    overview.addEventListener("pointermove", event => {
      if (event.buttons & 1) moveTo(event);
    });

    byId("zoom-in").onclick = () => this.zoom(1 / 2);
    byId("zoom-out").onclick = () => this.zoom(2);
    byId("zoom-all").onclick = () => this.show(0, this.wall);
    byId("zoom-range").onclick = () => this.show(...this.state.range);
    byId("show-path").onchange = event => {
      this.state.path = event.target.checked;
      this.changed();
    };
  }

  wheel(event) {
    const { from, to } = this.state, step = event.deltaMode === 1 ? 30 : 1;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      return this.pan(((event.deltaX || event.deltaY) * step) / this.painter.width);
    }
    // At the whole run there is nothing to zoom out of: the page scrolls on.
    if (event.deltaY > 0 && from === 0 && to === this.wall) return;
    event.preventDefault();
    this.zoom(Math.exp(event.deltaY * step * (event.ctrlKey ? 0.01 : 0.002)), this.timeAt(event));
  }

  // Follows the pointers that are down: one pans or selects a range, two pinch, one that does not
  // move clicks.
  press(event, target) {
    if (event.button !== 0) return;
    const down = this.pointers ??= new Map();
    down.set(event.pointerId, event);
    if (down.size > 1) return;
    const beginning = at => ({ ...this.state, x: at.clientX, time: this.timeAt(at) });
    let begin = beginning(event);
    const select = target.id === "ruler" || event.shiftKey;
    let moved = false;
    target.setPointerCapture(event.pointerId);
    const move = now => {
      const [one, other] = [...down.values()], spread = down.size > 1 ? Math.abs(one.clientX - other.clientX) : 0;
      down.set(now.pointerId, now);
      if (spread) {
        const [a, b] = [...down.values()];
        moved = true;
        return this.zoom(spread / Math.max(10, Math.abs(a.clientX - b.clientX)), this.timeAt(now));
      }
      if (Math.abs(now.clientX - begin.x) > 3) moved = true;
      if (!moved) return;
      const shift = (begin.x - now.clientX) / this.painter.width * (begin.to - begin.from);
      if (select) this.selectRange([begin.time, this.timeAt(now)].sort((a, b) => a - b));
      else this.show(begin.from + shift, begin.to + shift);
    };
    const up = now => {
      down.delete(now.pointerId);
      if (down.size) {
        begin = beginning([...down.values()][0]);  // the pointer that is left of a pinch pans on
        return;
      }
      target.removeEventListener("pointermove", move);
      target.removeEventListener("pointerup", up);
      target.removeEventListener("pointercancel", up);
      if (moved || now.type === "pointercancel") return;
      if (target.id === "ruler") return this.selectRange(null);
      const [lane, i] = this.pieceAt(now);
      this.select(lane?.type === "worker" && i >= 0 ? lane.item[i] : -1);
    };
    target.addEventListener("pointermove", move);
    target.addEventListener("pointerup", up);
    target.addEventListener("pointercancel", up);
  }

  doubleClick(event) {
    const [lane, i] = this.pieceAt(event);
    if (i < 0) return;
    const length = lane.end[i] - lane.start[i];
    this.show(lane.start[i] - length, lane.end[i] + length);
  }

  hover(event) {
    const tip = byId("tip"), [lane, i] = event.buttons ? [null, -1] : this.pieceAt(event);
    let text = "";
    if (i >= 0) text = `${this.painter.textOf(lane, i)}, ${duration(lane.end[i] - lane.start[i])}`;
    else if (lane?.idle) {
      const k = lane.idle.at(this.timeAt(event), 0);
      if (k >= 0) text = `${partTitles[lane.idle.category[k]]}, ${duration(lane.idle.end[k] - lane.idle.start[k])}`;
    }
    tip.hidden = !text;
    tip.textContent = text;
    const box = byId("timeline").getBoundingClientRect(), left = event.clientX - box.left;
    tip.style.left = `${Math.min(left + 14, box.width - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY - box.top + 18}px`;
  }
}
