// This file makes the panels below the timeline: what the workers did, messages, kernels, roofline,
// staleness.

function idlePanel(trace) {
  const { idle, wall, workers } = trace;
  if (!workers.length) return [empty("There are no workers in this trace.")];
  const kParts = [...partTitles.keys()];
  const columns = [
    { title: "worker", text: row => row.name },
    ...kParts.map(part => ({ title: partTitles[part], hint: partHints[part], text: row => percent(wall ? row.parts[part] / wall : 0),
      value: row => row.parts[part], color: `var(${partStyles[part]})` })),
    { title: "not computing", hint: "all the rest of the run", text: row => duration(row.idle), value: row => row.idle },
    { title: "tasks", text: row => whole(row.tasks), value: row => row.tasks },
  ];
  const rows = idle.workers.map((worker, i) => ({ ...worker, i, name: workers[i].name, idle: wall - worker.parts[0] }));
  const bars = rows.map(row => el("div", { class: "bar-row" }, el("span", {}, row.name), stack(row.parts, wall || 1)));
  const total = rows.length > 1 ? [el("div", { class: "bar-row" }, el("b", {}, "all workers"), stack(idle.share, 1))] : [];
  return [el("div", { class: "bars" }, ...total, ...bars),
    sortableTable(columns, rows, { row: row => ({ "data-worker": row.i, "data-idle": row.idle }) }),
    el("p", { class: "note" }, kParts.map(part => `${partTitles[part]}: ${partHints[part]}`).join("; ") + ".")];
}

function messagesPanel(trace) {
  const { messages } = trace, sum = value => messages.reduce((all, row) => all + value(row), 0);
  byId("messages").parentNode.hidden = !messages.length;
  if (!messages.length) return [];
  const columns = [
    { title: "from rank", text: row => String(row.from_rank), value: row => row.from_rank },
    { title: "to rank", text: row => String(row.rank), value: row => row.rank },
    { title: "count", text: row => whole(row.count), value: row => row.count, hint: "messages" },
    { title: "bytes", text: row => bytes(row.bytes), value: row => row.bytes },
    { title: "busy", text: row => seconds(row.busy), value: row => row.busy, hint: "time in which at least one was awaited" },
    { title: "bandwidth", text: row => row.busy > 0 ? scaled(row.bytes / row.busy, "B/s") : "–", value: row => row.bytes / row.busy, hint: "bytes / busy" },
    { title: "overlapped", text: row => percent(row.hidden), value: row => row.hidden, hint: "share of that time in which a worker of the receiving rank computed" },
  ];
  const awaited = sum(row => row.busy), hidden = awaited > 0 ? sum(row => row.busy * row.hidden) / awaited : 0;
  return [sortableTable(columns, messages, { by: 3 }), el("p", { class: "note" },
    `${bytes(sum(row => row.bytes))} in ${counted(sum(row => row.count), "message")}; ${percent(hidden)} of the time in which they were awaited is overlapped by compute. `
    + "In the timeline an arrow is a message, from when it was awaited until it was there: the largest in view.")];
}

function colorOf(trace, name) {
  const index = trace.codelets.findIndex(codelet => codelet.name === name);
  return index < 0 ? "var(--muted)" : codeletColor(index);
}

function kernelPanel(trace) {
  if (!trace.kernels.length) return [empty("There are no tasks in this trace, so there are no kernels.")];
  const columns = [
    { title: "codelet", text: row => row.codelet, swatch: row => colorOf(trace, row.codelet) },
    { title: "implementation", text: row => row.implementation },
    { title: "kind", text: row => row.kind, hint: "of worker" },
    { title: "of compute", text: row => percent(row.share), value: row => row.share, hint: "share of all time that workers computed" },
    { title: "total", text: row => seconds(row.total), value: row => row.total },
    { title: "tasks", text: row => whole(row.count), value: row => row.count },
    { title: "median", text: row => seconds(row.median), value: row => row.median },
    { title: "deviation", text: row => seconds(row.mad), value: row => row.mad, hint: "median absolute deviation from the median" },
    { title: "max", text: row => seconds(row.max), value: row => row.max },
    { title: "attained", text: row => row.gflops > 0 ? scaled(row.gflops * 1e9, "flop/s") : "–", value: row => row.gflops },
    { title: "traffic", text: row => row.gbytes > 0 ? scaled(row.gbytes * 1e9, "B/s") : "–", value: row => row.gbytes },
  ];
  return [sortableTable(columns, trace.kernels, { by: 4 })];
}

function rooflinePanel(trace) {
  const { peaks, rows } = trace.roofline, points = rows.filter(row => row.flops > 0 && row.intensity > 0 && row.attained > 0);
  const lost = rows.filter(row => row.lost > 0).slice(0, 3).map(row => `${row.codelet} ${seconds(row.lost)}`);
  const parts = [];
  if (!peaks.length) parts.push(empty("This trace holds no measured peaks, so there is no roof to compare with."));
  if (!points.length) return [...parts, empty("No codelet of this trace counts its operations.")];
  const roofs = [...new Set(peaks.map(peak => peak.kind))].map(kind => {
    const of = what => peaks.find(peak => peak.kind === kind && peak.what === what)?.per_worker;
    return { kind, compute: of("gemm"), copy: of("copy") };
  }).filter(roof => roof.compute && roof.copy);
  const xs = [...points.map(row => row.intensity), ...roofs.map(roof => roof.compute / roof.copy)];
  const ys = [...points.map(row => row.attained), ...roofs.map(roof => roof.compute)];
  const x = { from: Math.min(...xs) / 2.5, to: Math.max(...xs) * 2.5, log: true, title: "flop/byte", text: tick => round(significant(tick, 1)) };
  const y = { from: Math.min(...ys) / 2.5, to: Math.max(...ys) * 2, log: true, title: "attained", text: tick => round(scaled(tick, "flop/s")) };
  const draw = width => {
    const named = new Set();
    const { picture, atX, atY } = axes({ width, height: 320, x, y }), placed = new Labels(width);
    placed.take(kMargin.left, kMargin.top - 4, 90, 16);  // the title of the axis
    for (const { kind, compute, copy } of roofs) {
      const bend = compute / copy, left = Math.max(x.from, y.from / copy);
      const path = `M${atX(left)} ${atY(left * copy)}L${atX(Math.min(bend, x.to))} ${atY(Math.min(compute, x.to * copy))}L${atX(x.to)} ${atY(Math.min(compute, x.to * copy))}`;
      picture.append(el("path", { class: "roof", d: path }, el("title", {}, `${kind}: ${scaled(compute, "flop/s")}, ${scaled(copy, "B/s")}`)));
      placed.label(`${kind} ${scaled(compute, "flop/s")}`, [{ x: atX(Math.min(bend, x.to)) - 10, y: atY(compute) + 4, end: true },
        { x: width - 14, y: atY(compute) - 6, end: true }, { x: width - 14, y: atY(compute) + 15, end: true }]);
      placed.take(atX(Math.min(bend, x.to)), atY(compute) - 2, width, 4);
    }
    const most = Math.max(...points.map(row => row.seconds)), radius = row => 3.5 + 7 * Math.sqrt(row.seconds / most);
    for (const row of points) placed.take(atX(row.intensity) - radius(row), atY(row.attained) - radius(row), 2 * radius(row), 2 * radius(row));
    for (const row of [...points].sort((a, b) => b.seconds - a.seconds)) {
      const cx = atX(row.intensity), cy = atY(row.attained), r = radius(row);
      const text = `${row.codelet} (${row.implementation}, ${row.kind}): ${scaled(row.attained, "flop/s")}`
        + `${row.roof > 0 ? `, ${percent(row.fraction)} of the roof, bound by ${row.bound}` : ""}, ${seconds(row.seconds)} in all`;
      picture.append(el("circle", { class: "point", cx, cy, r, tabindex: 0, style: { fill: colorOf(trace, row.codelet) } }, el("title", {}, text)));
      const beside = y => [{ x: cx + r + 4, y }, { x: cx - r - 4, y, end: true }];
      const places = [cy + 4, cy - r - 2, cy + r + 12].flatMap(y => cx > width * 0.6 ? beside(y).reverse() : beside(y));
      // A codelet with several points has the label at its longest one.
      if (!named.has(row.codelet) && placed.label(row.codelet, places)) named.add(row.codelet);
    }
    picture.append(...placed.texts);
    return picture;
  };
  if (lost.length) parts.push(el("p", { class: "note" }, `Time that the roof would have saved: ${lost.join(", ")}. The area of a point is its share of time.`));
  if (points.some(row => row.fraction > 1)) parts.push(el("p", { class: "note" }, "A point above its roof: its data were in the caches, which are faster than the memory that was measured; or the machine was busy while the peaks were measured, and all shares of the roof are too high."));
  return [responsive(draw, "roofline"), ...parts];
}

function stalenessPanel(trace) {
  const { exchanges, meetings, mean, expected, max, groups, histogram } = trace.staleness;
  if (!exchanges && !meetings) return [empty("There are no exchanges in this trace: one group trains, and nothing is stale.")];
  const most = Math.max(...histogram.map(([, count]) => count));
  const draw = width => {
    const last = Math.max(...histogram.map(([value]) => value)), step = Math.max(1, Math.ceil(last * 40 / width));
    const ticks = Array.from({ length: Math.floor(last / step) + 1 }, (_, i) => i * step);
    const { picture, atX, atY, bottom } = axes({ width, height: 320,
      x: { from: -0.6, to: last + 0.6, title: "updates by others since the parameters were taken", text: String, ticks },
      y: { from: 0, to: most * 1.12, title: "exchanges", text: whole, unit: 1 } });
    const size = Math.max(1, Math.min(60, (atX(1) - atX(0)) * 0.7));
    for (const [value, count] of histogram) {
      picture.append(el("rect", { class: "column", x: atX(value) - size / 2, y: atY(count), width: size, height: bottom - atY(count) },
        el("title", {}, `${value}: ${counted(count, "exchange")}`)));
      if (size > 24) picture.append(el("text", { class: "value", x: atX(value), y: atY(count) - 4, "text-anchor": "middle" }, whole(count)));
    }
    return picture;
  };
  const number = value => value === null ? "–" : value.toFixed(2);
  const columns = [
    { title: "group", text: row => String(row.group), value: row => row.group, swatch: row => groupColor(row.group) },
    { title: "exchanges", text: row => whole(row.exchanges), value: row => row.exchanges },
    { title: "share", text: row => percent(row.share), value: row => row.share, hint: "of all exchanges" },
    { title: "mean staleness", text: row => number(row.mean), value: row => row.mean },
    { title: "expected", text: row => number(row.expected), value: row => row.expected, hint: "exchanges of others for each of its own" },
    { title: "max", text: row => whole(row.max), value: row => row.max },
  ];
  const sums = meetings ? `${counted(exchanges, "exchange")} of groups with a model of their own, ${counted(meetings, "meeting")}.`
    : `${counted(exchanges, "exchange")}, mean staleness ${number(mean)}, ${number(expected)} expected, max ${max}.`;
  return [...(meetings ? [] : [responsive(draw, "staleness histogram")]), el("p", { class: "note", id: "staleness-sums" }, sums),
    sortableTable(columns, groups)];
}
