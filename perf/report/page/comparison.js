// This file makes the page of a comparison of strategies: key figures, the table, test accuracy over
// time and epochs.

// Returns a function from a line to its time by the clock of the comparison; null: the line has none.
const clockOf = data => data.clock === "virtual" ? line => line.simulated_time ?? null : line => line.time;
const trainingsOf = (data, strategy) => data.trainings.filter(training => training.strategy === strategy);

// Returns the means of the n-th evaluations of all seeds, as far as all that have any have one.
function meanCurve(curves) {
  const begun = curves.filter(points => points.length);
  return Array.from({ length: begun.length ? Math.min(...begun.map(points => points.length)) : 0 }, (_, n) =>
    [0, 1].map(k => begun.reduce((sum, points) => sum + points[n][k], 0) / begun.length));
}

function accuracyChart(data, name, x, at) {
  const series = data.strategies.flatMap(({ strategy }, i) => {
    const curves = trainingsOf(data, strategy).map(training => training.evaluations.map(line => [at(line), line.test_accuracy]).filter(point => point[0] !== null));
    const color = seriesColor(i), dash = i >= seriesColors.length ? "6 3" : undefined;
    return [...(curves.length > 1 ? curves.map(points => ({ color, faint: true, points })) : []),
      { name: strategy, color, dash, points: meanCurve(curves) }];
  });
  const last = Math.max(...series.flatMap(one => one.points.map(point => point[0])));
  if (isFinite(last)) series.push({ name: "target", color: "var(--muted)", dash: "2 3", points: [[0, data.target], [last, data.target]] });
  const text = (value, exact) => exact ? percent(value) : round(percent(value));
  return lineChart({ name, series, x, y: { title: "correct on the test set", text, zero: false }, height: 300 });
}

function spreadColumn(title, key, text, hint) {
  const show = spread => !spread ? "–" : spread.min === spread.max ? text(spread.mean)
    : `${text(spread.mean)} (${text(spread.min)} to ${text(spread.max)})`;
  return { title, hint, text: row => show(row[key]), value: row => row[key]?.mean ?? Infinity };
}

function strategyTable(data) {
  const lead = row => data.leads.find(one => one.over === row.strategy);
  const plain = value => round(significant(value));
  const said = one => !one ? "–" : `${one.ahead} of ${one.seeds}` + (one.p === null ? "" : `, p = ${significant(one.p, 2)}`);
  const missed = row => [[row.diverged, "diverged"], [row.failed, "failed"]].filter(([count]) => count).map(([count, what]) => `, ${count} ${what}`).join("");
  return sortableTable([
    { title: "strategy", text: row => row.strategy, swatch: row => seriesColor(data.strategies.indexOf(row)) },
    { title: "reached", text: row => `${row.reached} of ${row.trainings}${missed(row)}`, value: row => row.reached },
    spreadColumn("epochs", "epochs", plain, "to the target: mean over seeds, lowest to highest"),
    spreadColumn(data.clock === "virtual" ? "simulated time" : "time", "time", seconds, "to the target: mean over seeds, lowest to highest"),
    spreadColumn("updates", "updates", whole, "to the target: mean over seeds, lowest to highest"),
    spreadColumn(data.clock === "virtual" ? "images/simulated s" : "images/s", "images_per_second", whole, "of whole trainings"),
    spreadColumn("final accuracy", "test_accuracy", percent, "of the last evaluation"),
    ...(data.best ? [{ title: `${data.best} is ahead`, hint: "seeds in which the best strategy reached the target first; p of a sign test", text: row => said(lead(row)) }] : []),
  ], data.strategies);
}

function startComparison() {
  const data = JSON.parse(byId("data").textContent), best = data.strategies.find(row => row.strategy === data.best);
  const expected = data.strategies.length * data.seeds, done = data.trainings.length;
  byId("what-ran").replaceChildren([data.asked.net, `on ${data.asked.data}`, `${data.seeds} seed${data.seeds === 1 ? "" : "s"}`].join(" · "), el("br"), el("code", {}, data.command));
  const warnings = [...(done < expected ? [`${done} of ${expected} trainings are done; the others are missing here.`] : []),
    ...(data.left_out ? [`Left out: evaluations without a simulated time: ${data.left_out}.`] : [])];
  byId("warning").hidden = !warnings.length;
  byId("warning").textContent = warnings.join(" ");
  const figures = [["target", percent(data.target), "accuracy on the test set"],
    ["best", data.best ?? "–", "lowest median time to the target"],
    [data.clock === "virtual" ? "median simulated time" : "median time", best ? seconds(best.median_time) : "–", data.clock === "virtual" ? "on the virtual clock" : "without evaluations"]];
  byId("figures").replaceChildren(...figures.map(([name, value, hint]) => el("div", { title: hint }, el("dt", {}, name), el("dd", {}, value))));
  byId("table").replaceChildren(strategyTable(data));
  const time = data.clock === "virtual" ? "simulated time" : "time";
  byId("time").replaceChildren(accuracyChart(data, `test accuracy over ${time}`, { title: time, text: (value, exact) => exact ? seconds(value) : round(seconds(value)) }, clockOf(data)));
  byId("epochs").replaceChildren(accuracyChart(data, "test accuracy over epochs", { title: "epochs", text: (value, exact) => (exact ? "epoch " : "") + round(significant(value)) }, line => line.epoch),
    el("p", { class: "note" }, "A curve is the mean of a strategy's evaluations over its seeds, as far as all have one; a thin line is one seed."));
  themeButton(byId("theme"));
}

startComparison();
