// This file makes the lines of the timeline: of every rank its main thread (when it waited), its
// workers, its transfers between memory nodes, and the messages that it received.

function workerLanes(trace) {
  const { tasks } = trace, counts = trace.workers.map(() => 0);
  for (let i = 0; i < tasks.count; ++i) ++counts[tasks.worker[i]];
  const mine = counts.map(count => new Uint32Array(count));
  counts.fill(0);
  for (let i = 0; i < tasks.count; ++i) mine[tasks.worker[i]][counts[tasks.worker[i]]++] = i;
  return mine.map((items, worker) => {
    const column = name => Float64Array.from(items, i => tasks[name][i]);
    const kinds = Array.from(items, i => tasks.kinds[tasks.kind[i]]);
    const lane = new Lane(trace.codelets.length, column("start"), column("end"),
      Uint32Array.from(kinds, kind => kind[0]), items, Float64Array.from(kinds, kind => kind[3]));
    return Object.assign(lane, { type: "worker", worker, rank: trace.workers[worker].rank, name: trace.workers[worker].name.replace(/^rank \d+: /, rank => rank.slice(5)) });
  });
}

function otherLanes(trace, rank, columns, type, nameOf, categoryOf, categories) {
  const groups = new Map();
  for (let i = 0; i < columns.rank.length; ++i) {
    if (columns.rank[i] !== rank) continue;
    const name = nameOf(i);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(i);
  }
  return [...groups].map(([name, items]) => {
    items.sort((a, b) => columns.from[a] - columns.from[b]);
    const start = Float64Array.from(items, i => columns.from[i]);
    const end = Float64Array.from(items, i => columns.from[i] + columns.length[i]);
    const lane = new Lane(categories, start, end, Uint8Array.from(items, categoryOf), Uint32Array.from(items), null);
    return Object.assign(lane, { type, name, rank });
  });
}

function buildLanes(trace) {
  const workers = workerLanes(trace), lanes = [];
  const ranks = [...new Set(trace.headers.map(header => header.rank))];
  for (const rank of ranks) {
    const prefix = ranks.length > 1 ? `${rank}: ` : "";
    lanes.push(...otherLanes(trace, rank, trace.waits, "wait", () => `${prefix}main thread`, i => trace.waits.all[i], 2));
    const why = new Map();  // causes by what a worker may run
    for (const lane of workers) {
      if (trace.workers[lane.worker].rank !== rank) continue;
      const may = trace.eligible.map(eligible => Boolean(eligible[lane.worker])).join();
      if (!why.has(may)) why.set(may, causes(trace, lane.worker));
      lane.idle = idleLane(trace, lane, why.get(may));
      lanes.push(lane);
    }
    lanes.push(...otherLanes(trace, rank, trace.transfers, "transfer",
      i => prefix + (trace.transfers.from_rank[i] < 0 ? `node ${trace.transfers.from_node[i]} → ${trace.transfers.to_node[i]}`
        : `messages of rank ${trace.transfers.from_rank[i]}`), () => 0, 1));
  }
  return lanes;
}

// Returns where a task lies: [lane, piece].
function pieceOf(trace, lanes, task) {
  const lane = lanes.find(one => one.type === "worker" && one.worker === trace.tasks.worker[task]);
  for (let i = lane.startingFrom(trace.tasks.start[task]); i < lane.count; ++i)
    if (lane.item[i] === task) return [lane, i];
  return [lane, 0];
}

// Returns sums over all workers in a range: by codelet, and by the part of their time.
function sumRange(trace, lanes, from, to) {
  const codelets = trace.codelets.length;
  const tasks = { time: new Float64Array(codelets), number: new Float64Array(codelets), work: new Float64Array(codelets) };
  const nothing = () => new Float64Array(partTitles.length);
  const parts = { time: nothing(), number: nothing(), work: nothing() };
  let workers = 0;
  for (const lane of lanes) {
    if (lane.type !== "worker") continue;
    lane.addRange(from, to, tasks);
    lane.idle.addRange(from, to, parts);
    ++workers;
  }
  const idle = parts.time.reduce((sum, time) => sum + time, 0);
  parts.time[0] = Math.max(0, workers * (to - from) - idle);
  return { tasks, parts, workers };
}
