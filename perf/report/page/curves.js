// This file draws curves over the run: loss, accuracy and throughput from the metrics file, and the
// counters of the trace.

function curvesPanel(trace) {
  const { lines, every } = trace.metrics;
  if (!lines.length) return [empty("No metrics file was found: omni-perf report --metrics FILE names what omni-run --metrics wrote.")];
  const names = ["iteration", "seconds", "loss", "loss_average", "accuracy", "images_per_second", "test_loss", "test_accuracy", "simulated"];
  const simulated = lines.some(line => line[8] !== null), lacking = lines.filter(line => line[1] !== null && line[8] === null).length;
  const box = el("div", { class: "figures" });
  const show = over => {
    const points = name => lines.map(line => [line[names.indexOf(over)], line[names.indexOf(name)]]).filter(([a, b]) => a !== null && b !== null);
    const x = over === "iteration" ? { title: "iteration", unit: "iterations", text: whole } : { title: over === "simulated" ? "simulated time" : "time", text: (value, exact) => exact ? seconds(value) : round(seconds(value)) };
    const chart = (name, y, series, options) => lineChart({ name, x, y, series, ...options });
    const loss = { title: "loss", text: (value, exact) => exact ? significant(value, 5) : round(significant(value)) };
    const plain = (value, exact) => exact ? percent(value) : round(percent(value));
    box.replaceChildren(
      chart("loss", loss, [{ name: "training", color: "var(--blue)", faint: true, points: points("loss") },
        { name: "its average", color: "var(--blue)", points: points("loss_average") },
        { name: "test", color: "var(--orange)", dots: true, dash: "5 3", points: points("test_loss") }]),
      chart("accuracy", { title: "correct", text: plain }, [{ name: "training", color: "var(--blue)", faint: true, points: points("accuracy") },
        { name: "test", color: "var(--orange)", dots: true, dash: "5 3", points: points("test_accuracy") }]),
      chart("throughput", { title: "images/s", text: value => round(scaled(value, "")).trim() },
        [{ name: simulated ? "images/s in real time" : "images/s", color: "var(--green)", points: points("images_per_second") }]));
  };
  const pick = (over, title) => el("label", { class: "check" }, el("input", { type: "radio", name: "over", value: over, checked: over === "iteration", onchange: () => show(over) }), title);
  show("iteration");
  return [el("p", { class: "note" }, "over ", pick("iteration", "iterations"), pick("seconds", "time"), simulated ? pick("simulated", "simulated time") : "",
    simulated && lacking ? ` Lines without a simulated time are not shown over it: ${lacking}.` : "",
    every > 1 ? ` One of ${every} lines of the metrics file is shown, and every evaluation.` : ""), box];
}

function countersPanel(trace) {
  if (!trace.counters.length) return [empty("There are no counters in this trace.")];
  const families = new Map();
  for (const counter of trace.counters) {
    const family = counter.name.includes(".") ? counter.name.split(".")[0] : counter.name;
    if (!families.has(family)) families.set(family, []);
    families.get(family).push(counter);
  }
  const colors = ["var(--blue)", "var(--orange)", "var(--green)", "var(--muted)"], dashes = [undefined, "6 3", "2 3", "8 3 2 3"];
  const ranks = trace.headers.length > 1;
  const charts = [...families].map(([family, counters]) => {
    const series = counters.map((counter, i) => ({
      name: counter.name.replace(`${family}.`, "") + (ranks ? ` of rank ${counter.rank}` : ""),
      color: colors[i % colors.length], dash: dashes[i % dashes.length], step: family === "feed",
      points: Array.from(counter.at, (at, k) => [at, counter.values[k]]).filter(point => point[1] !== null) }));
    const title = { memory: "bytes", feed: "mini-batches ahead" }[family] ?? family;
    const number = family === "memory" ? bytes : value => scaled(value, "").trim();
    const text = (value, exact) => exact ? number(value) : round(number(value));
    return lineChart({ name: family, series, height: 180, x: { title: "time", text: (value, exact) => exact ? duration(value) : round(duration(value)) }, y: { title, text, unit: family === "memory" ? 2 ** 20 : 1 } });
  });
  return [el("div", { class: "figures" }, ...charts)];
}
