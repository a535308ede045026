// A Lane has the pieces of time on one line of the timeline, by start; each has a category. A Lane
// finds in logarithmic time what lies at a place, and how much of each category lies in a range.

const kBlock = 32;

function firstWhere(from, to, holds) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (holds(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}

class Lane {
  // start, end, category and item are arrays of one length, in any order. work has the flops of each
  // piece, or is null.
  constructor(categories, start, end, category, item, work) {
    const count = start.length;
    let order = null;
    for (let i = 1; i < count && !order; ++i)
      if (start[i] < start[i - 1]) order = Uint32Array.from(start, (_, k) => k).sort((a, b) => start[a] - start[b]);
    const pick = array => order ? array.map((_, k) => array[order[k]]) : array;
    this.categories = categories;
    this.count = count;
    this.start = pick(start);
    this.end = pick(end);
    this.category = pick(category);
    this.item = pick(item);
    this.work = work ? pick(work) : null;
    this.reach = Float64Array.from(this.end);  // the latest end so far: pieces may overlap
    for (let i = 1; i < count; ++i) this.reach[i] = Math.max(this.reach[i], this.reach[i - 1]);
    this.sumBlocks();
  }

  // Sums up time, number and work of the first n * kBlock pieces, by category, for every n.
  sumBlocks() {
    const { categories, count } = this;
    const blocks = Math.floor(count / kBlock) + 1;
    this.time = new Float64Array(blocks * categories);
    this.number = new Float64Array(blocks * categories);
    this.effort = new Float64Array(blocks * categories);
    const total = this.nothing();
    for (let i = 0; i < count; ++i) {
      if (i % kBlock === 0) this.keep(i / kBlock, total);
      this.addPiece(i, this.start[i], this.end[i], total);
    }
    if (count % kBlock === 0) this.keep(count / kBlock, total);
  }

  nothing() {
    const { categories } = this;
    return { time: new Float64Array(categories), number: new Float64Array(categories), work: new Float64Array(categories) };
  }

  keep(block, total) {
    this.time.set(total.time, block * this.categories);
    this.number.set(total.number, block * this.categories);
    this.effort.set(total.work, block * this.categories);
  }

  addPiece(i, from, to, total) {
    const length = this.end[i] - this.start[i], part = Math.max(0, to - from);
    const category = this.category[i];
    total.time[category] += part;
    total.number[category] += 1;
    if (this.work) total.work[category] += length > 0 ? this.work[i] * part / length : this.work[i];
  }

  // Adds the pieces first .. last-1, whole.
  addPieces(first, last, total) {
    const from = Math.ceil(first / kBlock), to = Math.floor(last / kBlock), n = this.categories;
    if (from >= to) {
      for (let i = first; i < last; ++i) this.addPiece(i, this.start[i], this.end[i], total);
      return;
    }
    for (let i = first; i < from * kBlock; ++i) this.addPiece(i, this.start[i], this.end[i], total);
    for (let c = 0; c < n; ++c) {
      total.time[c] += this.time[to * n + c] - this.time[from * n + c];
      total.number[c] += this.number[to * n + c] - this.number[from * n + c];
      total.work[c] += this.effort[to * n + c] - this.effort[from * n + c];
    }
    for (let i = to * kBlock; i < last; ++i) this.addPiece(i, this.start[i], this.end[i], total);
  }

  // Adds only the times of the pieces first .. last-1. Drawing calls it for every pixel.
  addTimes(first, last, time) {
    const { start, end, category, categories: n } = this;
    const from = Math.ceil(first / kBlock), to = Math.floor(last / kBlock), blocks = from < to;
    const left = blocks ? from * kBlock : last, right = blocks ? to * kBlock : last;
    for (let i = first; i < left; ++i) time[category[i]] += end[i] - start[i];
    for (let c = 0; blocks && c < n; ++c) time[c] += this.time[to * n + c] - this.time[from * n + c];
    for (let i = right; i < last; ++i) time[category[i]] += end[i] - start[i];
  }

  // Returns the first piece that ends after a time, of those from `first` on.
  endingAfter(time, first = 0) {
    return firstWhere(first, this.count, i => this.reach[i] > time);
  }

  startingFrom(time, first = 0) {
    return firstWhere(first, this.count, i => this.start[i] >= time);
  }

  // Returns what startingFrom() does, and is fast if the piece is near `first`.
  nextFrom(time, first) {
    let step = 1;
    while (first + step < this.count && this.start[first + step] < time) step *= 2;
    return firstWhere(first + (step >> 1), Math.min(this.count, first + step), i => this.start[i] >= time);
  }

  // Adds what lies in a range; pieces at its borders count with the part inside.
  addRange(from, to, total) {
    let first = this.endingAfter(from), last = this.startingFrom(to, first);
    while (first < last && this.start[first] < from) {
      if (this.end[first] > from) this.addPiece(first, from, Math.min(to, this.end[first]), total);
      ++first;
    }
    while (last > first && this.end[last - 1] > to) {
      --last;
      this.addPiece(last, this.start[last], to, total);
    }
    this.addPieces(first, last, total);
  }

  // Returns the piece at a time, or the nearest within `tolerance`; -1: none.
  at(time, tolerance) {
    let best = -1, distance = tolerance;
    for (let i = this.endingAfter(time - tolerance); i < this.count && this.start[i] <= time + tolerance; ++i) {
      const away = Math.max(this.start[i] - time, time - this.end[i], 0);
      if (away < distance || (away === 0 && distance === 0)) best = i, distance = away;
      if (this.start[i] > time) break;
    }
    return best;
  }
}
