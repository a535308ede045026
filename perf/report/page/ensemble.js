// This file makes the page of an ensemble: a table of the members, and the curves of all of them.

const columns = ["iteration", "seconds", "loss", "loss_average", "accuracy", "images_per_second", "test_loss", "test_accuracy"];

function memberCharts(data, over) {
  const seconds_ = over === "seconds";
  const x = seconds_ ? { title: "time", text: (value, exact) => exact ? seconds(value) : round(seconds(value)) } : { title: "iteration", unit: "iterations", text: whole };
  const number = { text: (value, exact) => exact ? significant(value, 5) : round(significant(value)), zero: false };
  const share = { text: (value, exact) => exact ? percent(value) : round(percent(value)), zero: false };
  const chart = (name, title, column, y, options) => lineChart({ name, x, y: { title, ...y }, height: 300, series: data.members.map((member, i) => ({
    name: member.name, color: seriesColor(i), dash: i >= seriesColors.length ? "6 3" : undefined, ...options,
    points: member.lines.map(line => [line[columns.indexOf(over)], line[columns.indexOf(column)]]).filter(([a, b]) => a !== null && b !== null) })) });
  return [chart("training loss", "running average of the loss", "loss_average", number), chart("test loss", "loss on the test set", "test_loss", number, { dots: true }),
    chart("test accuracy", "correct on the test set", "test_accuracy", share, { dots: true })];
}

function memberTable(data) {
  const shown = (value, text) => value === null ? "\u2013" : text(value);
  return sortableTable([
    { title: "member", text: row => row.name, swatch: row => seriesColor(data.members.indexOf(row)) },
    { title: "state", text: row => row.state },
    { title: "iterations", text: row => whole(row.iteration), value: row => row.iteration },
    { title: "test loss", text: row => shown(row.loss, value => significant(value, 4)), value: row => row.loss ?? Infinity },
    { title: "test accuracy", text: row => shown(row.accuracy, percent), value: row => row.accuracy ?? -1 },
  ], data.members);
}

function startEnsemble() {
  const data = JSON.parse(byId("data").textContent);
  byId("what-ran").replaceChildren(`${data.members.length} members`, el("br"), el("code", {}, data.command));
  byId("table").replaceChildren(memberTable(data));
  const box = el("div", { class: "figures" }), show = over => box.replaceChildren(...memberCharts(data, over));
  const pick = (over, title) => el("label", { class: "check" }, el("input", { type: "radio", name: "over", value: over, checked: over === "iteration", onchange: () => show(over) }), title);
  byId("curves").replaceChildren(el("p", { class: "note" }, "over ", pick("iteration", "iterations"), pick("seconds", "time")), box);
  show("iteration");
  themeButton(byId("theme"));
}

startEnsemble();
