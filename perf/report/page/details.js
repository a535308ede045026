// This file shows, below the timeline, the selected task, and the numbers of what is in view or
// selected.

function taskDetails(trace, timeline, state) {
  const { task, next } = state, { tasks } = trace;
  if (!tasks.count) return [empty("There are no tasks in this trace.")];
  if (task < 0) return [empty("Click a task to see what it was, what it waited for and how long.")];
  const [codelet, implementation, layer, flops, moved] = tasks.kinds[tasks.kind[task]];
  const length = tasks.end[task] - tasks.start[task], predicted = tasks.predicted[task];
  const rows = [
    ["codelet", trace.codelets[codelet].name],
    ["implementation", trace.codelets[codelet].implementations[implementation]],
    ["layer", layer >= 0 ? trace.layers[layer] ?? String(layer) : ""],
    ["iteration, slice, group", [tasks.iteration[task], tasks.slice[task], tasks.group[task]].map(n => n < 0 ? "–" : n).join(", ")],
    ["worker", trace.workers[tasks.worker[task]].name],
    ["kernel", `${duration(length, 4)}, from ${duration(tasks.start[task], 6)}`, length],
    ["predicted", predicted < 0 ? "the model was not sure"
      : `${duration(predicted, 4)} (${length > 0 ? `${predicted > length ? "+" : ""}${(100 * (predicted / length - 1)).toFixed(1)} %` : "–"})`],
    ["attained", flops > 0 && length > 0 ? `${scaled(flops / length * 1e9, "flop/s")}${moved > 0 ? `, ${significant(flops / moved)} flop/byte` : ""}`
      : moved > 0 && length > 0 ? scaled(moved / length * 1e9, "B/s") : ""],
  ];
  const table = el("table", { class: "pairs" }, el("tbody", {}, ...rows.filter(row => row[1] !== "").map(([name, text, value]) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", { "data-value": value, "data-row": name }, String(text))))));
  return [table, lifeOf(tasks, task), waitedFor(trace, timeline, task, next)];
}

// Shows a task from its submission to the release of its data, as a bar and in words.
function lifeOf(tasks, task) {
  const at = ["submitted", "ready", "pop_start", "popped", "fetch_start", "fetch_end", "start", "end", "released"].map(name => tasks[name][task]);
  const steps = [["waits for others", at[1] - at[0], "--nothing-ready"], ["waits for its worker", at[2] - at[1], "--scheduling"],
    ["is handed over", at[4] - at[2], "--scheduling"], ["fetches data", at[5] - at[4], "--data"],
    ["begins", at[6] - at[5], "--scheduling"], ["computes", at[7] - at[6], "--compute"], ["releases data", at[8] - at[7], "--scheduling"]]
    .filter(step => step[1] > 0);
  return el("div", { class: "life" },
    el("div", { class: "stack", "aria-hidden": "true" }, ...steps.map(([name, length, color]) =>
      el("i", { title: `${name} ${duration(length)}`, style: { "flex-grow": Math.max(length, 1), background: `var(${color})` } }))),
    el("p", { class: "note" }, steps.map(([name, length]) => `${name} ${duration(length)}`).join(" · ")));
}

function waitedFor(trace, timeline, task, next) {
  const { tasks } = trace, last = lastWaitedFor(tasks, task), count = before(tasks, task).length;
  const name = other => trace.codelets[tasks.kinds[tasks.kind[other]][0]].name;
  const text = !count ? "It waited for no other task." : `It waited for ${counted(count, "task")}; the last was ${name(last)}, `
    + `which ended ${duration(tasks.start[task] - tasks.end[last])} before it began.`;
  const line = el("p", { id: "dependencies", "data-count": count }, `${text} ${counted(next.length, "task")} waited for it. `);
  if (count) line.append(el("button", { type: "button", id: "jump", onclick: () => timeline.select(last, true) }, "go to the last"));
  return line;
}

function rangeDetails(trace, timeline, state) {
  const [from, to] = state.range ?? [state.from, state.to];
  byId("range-title").textContent = state.range ? "In the selected range" : "In view";
  const { tasks, parts, workers } = timeline.sums(from, to), all = workers * (to - from);
  if (!all) return [empty("There are no workers in this trace.")];
  const count = tasks.number.reduce((a, b) => a + b, 0), work = tasks.work.reduce((a, b) => a + b, 0);
  const busy = parts.time[0] / all, computed = tasks.time.reduce((a, b) => a + b, 0) || 1;
  const shown = [...tasks.time.keys()].filter(c => tasks.time[c] > 0).sort((a, b) => tasks.time[b] - tasks.time[a]);
  const kRows = 8, rest = shown.slice(kRows).reduce((sum, c) => sum + tasks.time[c], 0);
  const row = c => el("tr", {},
    el("th", { scope: "row" }, el("i", { class: "swatch", style: { background: codeletColor(c) } }), trace.codelets[c].name),
    cell(percent(tasks.time[c] / computed)), cell(duration(tasks.time[c])), cell(whole(tasks.number[c])),
    cell(tasks.work[c] > 0 ? scaled(tasks.work[c] / tasks.time[c] * 1e9, "flop/s") : "–"));
  return [
    el("p", { id: "range-sums", "data-tasks": count, "data-from": Math.round(from), "data-to": Math.round(to) },
      `${duration(to - from, 4)}, ${counted(count, "task")}, compute ${percent(busy)} of the workers' time`
      + (work > 0 ? `, ${scaled(work / (to - from) * 1e9, "flop/s")} in all.` : ".")),
    stack(parts.time, all),
    el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "codelet"), ...["of compute", "time", "tasks", "attained"].map(title => el("th", { class: "number" }, title)))),
      el("tbody", {}, ...shown.slice(0, kRows).map(row),
        rest > 0 ? el("tr", {}, el("th", { scope: "row" }, shown.length - kRows === 1 ? trace.codelets[shown[kRows]].name : `${shown.length - kRows} others`), cell(percent(rest / computed)), cell(duration(rest)), cell(""), cell("")) : null)),
  ];
}

// Shows as one bar what workers did.
function stack(times, all) {
  return el("div", { class: "stack" }, ...[...times.keys()].filter(part => times[part] > 0).map(part =>
    el("i", { class: `part-${part}`, title: `${partTitles[part]} ${percent(times[part] / all)}: ${partHints[part]}`,
      style: { "flex-grow": times[part] / all, background: `var(${partStyles[part]})` } },
    times[part] / all > 0.08 ? percent(times[part] / all) : "")));
}

// Lists every codelet with its share of all computing; a click shows where it ran.
function legend(trace, timeline) {
  const total = new Float64Array(trace.codelets.length);
  for (const lane of timeline.lanes) if (lane.type === "worker") lane.addRange(0, timeline.wall, { time: total, number: new Float64Array(total.length), work: new Float64Array(total.length) });
  const all = total.reduce((a, b) => a + b, 0) || 1, chosen = new Set(), search = byId("search");
  const order = [...total.keys()].filter(c => total[c] > 0).sort((a, b) => total[b] - total[a]);
  const update = () => {
    const text = search.value.trim().toLowerCase();
    const found = new Set(order.filter(c => chosen.has(c) || (text && trace.codelets[c].name.toLowerCase().includes(text))));
    for (const button of byId("legend").querySelectorAll("button")) {
      button.setAttribute("aria-pressed", chosen.has(+button.dataset.codelet));
      button.classList.toggle("faint", found.size > 0 && !found.has(+button.dataset.codelet));
    }
    timeline.find(found.size || text ? found : null);
  };
  search.oninput = update;
  const groups = [...new Set(trace.tasks.group)].sort((a, b) => a - b);
  byId("legend").replaceChildren(...order.map(c => el("button", { type: "button", "data-codelet": c, "aria-pressed": "false", onclick: () => {
    if (!chosen.delete(c)) chosen.add(c);
    update();
  } }, el("i", { class: "swatch", style: { background: codeletColor(c) } }), trace.codelets[c].name, el("small", {}, percent(total[c] / all)))),
  ...(groups.length > 1 ? groups.map(group =>
    el("span", { class: "group" }, el("i", { "data-group": group, style: { background: groupColor(group) } }), `group ${group}`)) : []),
  ...partTitles.slice(1).map((title, part) => el("span", { class: "group", title: partHints[part + 1] },
    el("i", { class: `idle part-${part + 1}` }), title)));
}
