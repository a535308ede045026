// This file starts the page: what ran, the key figures, the panels, the choice of dark and light.

function header(trace) {
  const first = trace.headers[0] ?? {}, { tasks, iterations, limits, idle, wall } = trace;
  const many = trace.headers.length > 1 ? `${trace.headers.length} ranks on ${[...new Set(trace.headers.map(h => h.host))].join(", ")}` : first.host;
  const when = first.started > 0 ? new Date(first.started * 1e3).toISOString().replace("T", " ").slice(0, 16) + " UTC" : null;
  const words = [first.net, first.batch > 0 ? `batch ${first.batch}` : null, many ? `on ${many}` : null, when,
    first.scheduler ? `scheduler ${first.scheduler}` : null, first.starpu ? `StarPU ${first.starpu}` : null];
  document.title = `${first.net || "trace"}: where did the time go?`;
  byId("what-ran").replaceChildren(words.filter(Boolean).join(" · "), el("br"), el("code", {}, first.command ?? ""));
  const warning = byId("warning");
  warning.hidden = trace.complete;
  if (!trace.complete) warning.textContent = "This run was killed, or is still going on: what follows is the part that was written.";
  const work = tasks.kinds.length ? Array.from(tasks.kind).reduce((sum, kind) => sum + tasks.kinds[kind][3], 0) : 0;
  const figures = [
    ["wall time", duration(wall, 4), "from the first thing that happened to the last"],
    ["compute", percent(idle.share[0]), "share of all workers' time"],
    ["tasks", whole(tasks.count), ""],
    ["iterations", whole(iterations.count), ""],
    ["median iteration", iterations.median > 0 ? seconds(iterations.median) : "–", "without the first two"],
    ["images/s by the mean iteration", iterations.images_per_second > 0 ? whole(iterations.images_per_second) : "–", "mini-batch / mean iteration, without the first two"],
    ["attained", work > 0 && wall > 0 ? scaled(work / wall * 1e9, "flop/s") : "–", "of all workers together"],
    ["bound", limits.efficiency > 0 ? seconds(Math.max(limits.area, limits.critical_path)) : "–",
      `no schedule of these tasks takes less, which is ${percent(limits.efficiency)} of the wall time: `
      + `area bound ${seconds(limits.area)}, critical-path bound ${seconds(limits.critical_path)}`],
  ];
  byId("figures").replaceChildren(...figures.map(([name, value, hint]) => el("div", { title: hint }, el("dt", {}, name), el("dd", {}, value))));
}

function start() {
  const trace = readTrace(JSON.parse(byId("data").textContent));
  const lanes = buildLanes(trace);
  header(trace);

  let told = null;
  const timeline = new Timeline(trace, lanes, state => {
    byId("range").replaceChildren(...rangeDetails(trace, timeline, state));
    if (told === state.task) return;
    told = state.task;
    byId("task").replaceChildren(...taskDetails(trace, timeline, state));
  });
  legend(trace, timeline);

  const panels = { idle: idlePanel, messages: messagesPanel, kernels: kernelPanel, roofline: rooflinePanel, staleness: stalenessPanel,
    curves: curvesPanel, counters: countersPanel };
  for (const [id, panel] of Object.entries(panels)) byId(id).replaceChildren(...panel(trace));

  themeButton(byId("theme"), () => {
    timeline.painter.theme();
    for (const mark of document.querySelectorAll("[data-group]")) mark.style.background = groupColor(+mark.dataset.group);
    timeline.changed();
  });
  // Scripts and tests read here where things are, and what is in view.
  window.report = { trace, timeline };
}

start();
