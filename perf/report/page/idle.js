// This file finds why a worker did nothing, piece by piece, by the rules of perf/analysis/idle.hpp.
// That analysis gives the sums in the tables; a test checks that these pieces have the same sums.

const kData = 1, kScheduling = 2, kOtherWorkers = 3, kNothingReady = 4, kLate = 5, kBarrier = 6, kOtherNodes = 7, kStartUp = 8;

// Returns a set of instants: sorted intervals [from, to, from, to, ...] that do not touch.
function united(froms, tos) {
  const order = Uint32Array.from(froms, (_, i) => i).sort((a, b) => froms[a] - froms[b]);
  const set = [];
  for (const i of order) {
    if (froms[i] >= tos[i]) continue;
    if (set.length && froms[i] <= set[set.length - 1]) set[set.length - 1] = Math.max(set[set.length - 1], tos[i]);
    else set.push(froms[i], tos[i]);
  }
  return set;
}

const evens = set => set.filter((_, i) => i % 2 === 0);
const odds = set => set.filter((_, i) => i % 2 === 1);

// Calls call(from, to) for every interval of `set` without `hole`, which is a part of it.
function without(set, hole, call) {
  for (let i = 0, k = 0; i < set.length; i += 2) {
    let from = set[i];
    for (; k < hole.length && hole[k] < set[i + 1]; k += 2) {
      if (hole[k] > from) call(from, hole[k]);
      from = hole[k + 1];
    }
    if (from < set[i + 1]) call(from, set[i + 1]);
  }
}

// Returns the times at which a worker's reason for being idle changes, and the reasons from then on.
function causes(trace, worker) {
  const { tasks, waits, transfers, iterations, workers, eligible } = trace, { rank } = workers[worker], events = [];
  // Kinds of events: 0: a task is ready and not asked for, 1: the same, but only others may run it,
  // 2: submitted and not ready, 3: the main thread waits, 4: a message is awaited, 5: a worker computes,
  // 6: the first iteration has not begun.
  // An event is one number, since numbers sort fast: the time, then the kind, then whether it ends.
  const add = (kind, from, to) => {
    if (from < to) events.push(from * 16 + kind * 2, to * 16 + kind * 2 + 1);
  };
  for (let i = 0; i < tasks.count; ++i) {
    if (workers[tasks.worker[i]].rank !== rank) continue;
    const who = tasks.kinds[tasks.kind[i]][5];
    add(who < 0 || eligible[who][worker] ? 0 : 1, tasks.ready[i], tasks.pop_start[i]);
    add(2, tasks.submitted[i], tasks.ready[i]);
    add(5, tasks.start[i], tasks.end[i]);
  }
  for (let i = 0; i < waits.rank.length; ++i)
    if (waits.rank[i] === rank) add(3, waits.from[i], waits.from[i] + waits.length[i]);
  for (let i = 0; i < transfers.rank.length; ++i)
    if (transfers.rank[i] === rank && transfers.from_rank[i] >= 0) add(4, transfers.from[i], transfers.from[i] + transfers.length[i]);
  const begun = Array.from(iterations.at).filter((_, i) => iterations.rank[i] === rank);
  if (begun.length) add(6, 0, begun.reduce((a, b) => Math.min(a, b)));
  const sorted = Float64Array.from(events).sort(), counts = [0, 0, 0, 0, 0, 0, 0];
  const at = [0], part = [kLate];
  for (let i = 0; i < sorted.length;) {
    const time = Math.floor(sorted[i] / 16);
    for (; i < sorted.length && sorted[i] < time * 16 + 16; ++i) {
      const rest = sorted[i] - time * 16;
      counts[rest >> 1] += rest & 1 ? -1 : 1;
    }
    const now = counts[0] ? kScheduling : counts[1] ? kOtherWorkers : counts[6] && !counts[2] ? kStartUp : counts[4] && !counts[5] ? kOtherNodes : counts[2] ? kNothingReady : counts[3] ? kBarrier : kLate;
    if (time === at[at.length - 1]) part[part.length - 1] = now;
    else if (now !== part[part.length - 1]) at.push(time), part.push(now);
  }
  return { at, part };
}

// Returns a lane of what the worker of `lane` did beside computing.
function idleLane(trace, lane, why) {
  const { tasks, wall } = trace, of = name => Float64Array.from(lane.item, i => tasks[name][i]);
  const computing = united(lane.start, lane.end);
  const grown = (set, from, to) => united([...evens(set), ...of(from)], [...odds(set), ...of(to)]);
  const fetching = grown(computing, "fetch_start", "fetch_end");
  const living = grown(fetching, "pop_start", "released");
  const start = [], end = [], part = [];
  const put = (from, to, what) => {
    start.push(from);
    end.push(to);
    part.push(what);
  };
  without(fetching, computing, (from, to) => put(from, to, kData));
  without(living, fetching, (from, to) => put(from, to, kScheduling));
  without([0, wall], living, (from, to) => {
    let next = firstWhere(0, why.at.length, i => why.at[i] > from);
    for (; from < to; ++next) {
      const until = next < why.at.length ? Math.min(to, why.at[next]) : to;
      put(from, until, why.part[next - 1]);
      from = until;
    }
  });
  return new Lane(partTitles.length, Float64Array.from(start), Float64Array.from(end), Uint8Array.from(part), Uint32Array.from(part), null);
}
