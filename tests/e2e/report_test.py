"""The HTML report in a real browser: it is clicked, zoomed, sorted and read, and what it says is held
against the trace and against omni-perf's own answers. Usage: report_test.py OMNI_PERF MAKE_TRACE
[SCREENSHOT.png [TRACE METRICS]]: the picture for the README. Exit code 77: no browser here."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from browser import Browser, missing  # noqa: E402
from report_scripts import COLOURS, DRAWN, FRAMES, PIECES, RANGE  # noqa: E402


def check(what, got, expected):
    if got != expected:
        raise AssertionError(f"{what}: {got!r}, expected {expected!r}")


def read_trace(folder):
    records = {"task": [], "worker": [], "codelet": []}
    with open(os.path.join(folder, "rank-0.jsonl"), encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            records.setdefault(next(iter(record)), []).append(record)
    return records


class Test:
    def __init__(self, browser, omni_perf, make_trace, folder):
        self.browser, self.omni_perf, self.make_trace, self.folder = browser, omni_perf, make_trace, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def report(self, name, *options, metrics=None):
        """A trace and its report, opened."""
        subprocess.run([self.make_trace, self.path(name), *options], check=True)
        self.perf("report", self.path(name), "--html", self.path(f"{name}.html"),
                  *(["--metrics", metrics] if metrics else []))
        self.open(self.path(f"{name}.html"))

    def perf(self, *arguments):
        return subprocess.run([self.omni_perf, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout

    def open(self, path):
        self.browser.open("about:blank")
        self.browser.requests()
        self.browser.console()
        self.browser.open("file://" + path)
        self.drawn()

    def drawn(self):
        self.browser.run_async(DRAWN)

    def view(self):
        self.drawn()
        return self.browser.run("return [+visible.dataset.from, +visible.dataset.to]")

    def quiet(self):
        """The page neither complained nor asked for anything but itself."""
        check("complaints of the page", self.browser.console(), [])
        check("addresses asked for", [url for url in self.browser.requests() if not url.startswith(("file:", "data:"))], [])

    def small_trace(self):
        self.report("small", "tasks=400", "workers=3", "bad_name=</script><img src=x onerror=alert(1)>",
                    metrics=self.metrics())
        self.keys_need_no_focus()
        self.one_share()
        self.click_a_task()
        self.zoom()
        self.range()
        self.idle()
        self.sort()
        self.theme()
        self.curves()
        check("no virtual clock", self.browser.run("return document.querySelector('#curves input[value=simulated]')"), None)
        check("pieces of idle time", all(drawn == said for drawn, said in self.browser.run(PIECES)), True)
        self.quiet()

    def metrics(self, simulated=None):
        path = self.path("metrics.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for i in range(1, 201):
                loss = 0.3 + 2 / (1 + 0.05 * i)
                line = {"iteration": 5 * i, "time": 0.1 * i, "loss": loss * (1 + 0.1 * (i * 7 % 5 - 2) / 2), "loss_average": loss,
                        "accuracy": 1 - loss / 2.5, "images_per_second": 9000 + 100 * (i % 7)}
                if simulated and i != 1:
                    line["simulated_time"] = simulated * i
                file.write(json.dumps(line) + "\n")
                if i % 40 == 0:
                    file.write(json.dumps({"iteration": 5 * i, "time": 0.1 * i, "test_loss": loss * 1.05,
                                           "test_accuracy": 1 - loss / 2.4}) + "\n")
        return path

    def click_a_task(self):
        """The middle of the canvas of a known task: what the page says must be what the trace says."""
        records = read_trace(self.path("small"))
        task = max(records["task"][50:], key=lambda one: one["times"][7] - one["times"][6])
        begin = min(min(one["times"]) for one in records["task"])
        first = min(begin, min(one["at"] for one in records["iteration"]))
        middle = (task["times"][6] + task["times"][7]) / 2 - first
        from_, to = self.view()
        width = self.browser.run("return ruler.clientWidth")
        row = self.browser.run("return report.timeline.lanes.findIndex(lane => lane.worker === arguments[0])", task["worker"])
        y = self.browser.run("return report.timeline.painter.top(arguments[0]) + 8", row)
        self.browser.mouse("#canvas", (middle - from_) / (to - from_) * width, y, "down", "up")
        self.drawn()
        cells = self.browser.run("return Object.fromEntries([...document.querySelectorAll('#task td')].map(cell => "
                                 "[cell.dataset.row, [cell.textContent, cell.dataset.value]]))")
        codelet = records["codelet"][task["codelet"]]
        check("codelet", cells["codelet"][0], codelet["name"])
        check("implementation", cells["implementation"][0], codelet["implementations"][task["impl"]])
        check("length", int(cells["kernel"][1]), task["times"][7] - task["times"][6])
        check("worker", cells["worker"][0], records["worker"][task["worker"]]["name"])
        check("iteration, slice, group", cells["iteration, slice, group"][0],
              ", ".join(str(task.get(key, "–")) for key in ("iteration", "slice", "group")))
        # On to the one that it waited for last, by key, and by button.
        if int(self.browser.run("return dependencies.dataset.count")):
            selected = self.browser.run("return report.timeline.state.task")
            self.browser.click("#jump")
            self.drawn()
            check("went to another task", self.browser.run("return report.timeline.state.task") < selected, True)
        self.browser.type("#canvas", "]")
        self.browser.type("#canvas", "\ue00c")  # Escape
        self.drawn()
        check("no task after Escape", self.browser.run("return report.timeline.state.task"), -1)

    def keys_need_no_focus(self):
        """Those that the page does not scroll by."""
        whole = self.view()
        self.browser.type("body", "+")
        check("zoomed", self.view()[1] < whole[1] or self.view()[0] > whole[0], True)
        near = self.view()
        self.browser.type("body", "\ue013")  # up arrow: scrolls
        check("not zoomed", self.view(), near)
        self.browser.type("#search", "0")
        check("a letter to look for", self.view(), near)
        self.browser.run("search.value = ''; search.oninput(); search.blur()")
        self.browser.type("body", "0")
        check("the whole run", self.view(), whole)

    def one_share(self):
        """Of a codelet: the same below the timeline, in the legend, and in the table of kernels."""
        view = self.browser.run("return Object.fromEntries([...document.querySelectorAll('#range tbody tr')].map(row => "
                                "[row.cells[0].textContent, row.cells[1].textContent]))")
        legend = self.browser.run("return Object.fromEntries([...document.querySelectorAll('#legend button')].map(one => "
                                  "[one.childNodes[1].textContent, one.querySelector('small').textContent]))")
        for codelet in [one for one in view if not one.endswith(" others")]:
            check(f"share of {codelet}", view[codelet], legend[codelet])
        tiles = self.browser.run("return [...document.querySelectorAll('#figures dd')].map(tile => tile.textContent)")
        check("no number twice", [one for one in tiles if tiles.count(one) > 1 and one != "–"], [])

    def zoom(self):
        from_, to = self.view()
        width = self.browser.run("return ruler.clientWidth")
        self.browser.wheel("#canvas", width / 2, 50, -400)
        near, far = self.view()
        check("the wheel zooms in around the mouse", from_ < near < (from_ + to) / 2 < far < to, True)
        self.browser.click("#zoom-in")
        closer = self.view()
        check("the button halves", abs((closer[1] - closer[0]) / (far - near) - 0.5) < 0.01, True)
        self.browser.mouse("#canvas", width / 2, 50, "down", (-100, 0), "up")
        check("dragging to the left shows what is later", self.view()[0] > closer[0], True)
        self.browser.type("#canvas", "\ue012")  # left arrow
        self.browser.click("#zoom-out")
        self.browser.click("#zoom-all")
        check("the whole run again", self.view(), [from_, to])

    def range(self):
        """Dragging on the ruler selects; the numbers follow from the trace."""
        width = self.browser.run("return ruler.clientWidth")
        self.browser.mouse("#ruler", width * 0.25, 20, "down", (round(width * 0.5), 0), "up")
        self.drawn()
        sums = self.browser.run("const s = document.getElementById('range-sums').dataset; return [+s.from, +s.to, +s.tasks]")
        expected = self.browser.run("const { tasks } = report.trace; let n = 0; for (let i = 0; i < tasks.count; ++i) "
                                    "n += tasks.end[i] > arguments[0] && tasks.start[i] < arguments[1]; return n", *sums[:2])
        check("tasks in the range", sums[2], expected)
        check("sums of the range", self.browser.run(RANGE, *sums[:2]), True)
        self.browser.click("#zoom-range")
        view = self.view()
        check("zoomed to the range", [round(x) for x in view], sums[:2])
        self.browser.click("#zoom-all")

    def idle(self):
        said = json.loads(self.perf("idle", self.path("small"), "--json"))
        rows = self.browser.run("return [...document.querySelectorAll('#idle tr[data-worker]')].map(row => "
                                "[row.cells[0].textContent, ...[...row.cells].slice(1, 10).map(cell => +cell.dataset.value)])")
        check("workers", len(rows), 3)
        names = ["compute", "data", "scheduling", "other_workers", "nothing_ready", "submission_late", "barrier", "other_nodes", "start_up"]
        for row, worker in zip(rows, said["workers"], strict=True):
            check("worker", row[0], worker["name"])
            check(f"time of {row[0]}", row[1:], [round(worker["parts"][name] * 1e9) for name in names])

    def sort(self):
        column = "[...document.querySelectorAll('#kernels tbody tr')].map(row => %s)"
        totals = self.browser.run("return " + column % "+row.cells[4].dataset.value")
        check("by total, largest first", totals, sorted(totals, reverse=True))
        self.browser.click("#kernels th:nth-child(6) button")
        counts = self.browser.run("return " + column % "+row.cells[5].dataset.value")
        check("by tasks", counts, sorted(counts, reverse=True))
        self.browser.click("#kernels th:nth-child(6) button")
        again = self.browser.run("return " + column % "+row.cells[5].dataset.value")
        check("the other way round", again, sorted(counts))
        self.browser.click("#kernels th:nth-child(1) button")
        names = self.browser.run("return " + column % "row.cells[0].textContent")
        check("by name", len(names) > 3 and names[0] <= names[-1], True)
        check("a name is text", any("</script><img" in name for name in names), True)
        check("and no element", self.browser.run("return document.images.length"), 0)

    def theme(self):
        colour = "return getComputedStyle(document.body).backgroundColor"
        before = self.browser.run(colour)
        self.browser.click("#theme")
        self.drawn()
        check("another background", self.browser.run(colour) != before, True)
        self.browser.click("#theme")
        check("the first again", self.browser.run(colour), before)

    def curves(self):
        check("three curves of the metrics", self.browser.run("return document.querySelectorAll('#curves svg').length"), 3)
        self.browser.click("#curves input[value=seconds]")
        self.drawn()
        check("over time", self.browser.run("return document.querySelectorAll('#curves svg path').length >= 5"), True)
        check("roofline", self.browser.run("return document.querySelectorAll('#roofline circle').length >= 4"), True)
        check("no exchanges", "no exchanges" in self.browser.text("#staleness"), True)

    def simulated_time(self):
        """Curves over the time of a virtual clock are named so; lines without it (1, and 5 evaluations) are left out."""
        check("left out", "Lines without a simulated time are not shown over it: 6." in self.browser.text("#curves"), True)
        titles = "return [...document.querySelectorAll('#curves svg text.title')].map(one => one.textContent)"
        self.browser.click("#curves input[value=simulated]")
        self.drawn()
        check("simulated time", sorted(set(self.browser.run(titles))), ["correct", "images/s", "loss", "simulated time"])

    def above_the_roof(self):
        """Peaks that were measured too low, said where the points are."""
        self.report("above", "tasks=100")
        excuse = "A point above its roof"
        check("below the roof", excuse in self.browser.text("#roofline"), False)
        with open(self.path("above/rank-0.jsonl"), encoding="utf-8") as file:
            text = file.read()
        with open(self.path("above/rank-0.jsonl"), "w", encoding="utf-8") as file:
            file.write(text.replace('"per_worker":90000000000', '"per_worker":9000000'))
        self.perf("report", self.path("above"), "--html", self.path("above.html"))
        self.open(self.path("above.html"))
        check("above the roof", excuse in self.browser.text("#roofline"), True)
        self.quiet()

    def words(self):
        """The page calls things as omni-perf does; labels do not overlap; zero is no nanoseconds."""
        self.report("words", "tasks=2000", "workers=2", metrics=self.metrics(simulated=1e-3))
        told = self.perf("idle", self.path("words")).splitlines()[2].split("  ")
        heads = self.browser.run("return [...document.querySelectorAll('#idle th')].map(one => one.textContent)")
        check("parts", [one.strip() for one in told if one.strip()][3:], heads[1:10])
        told = {one.strip() for one in self.perf("kernels", self.path("words")).splitlines()[2].split("  ")}
        heads = {one.strip() for one in self.browser.run(
            "return [...document.querySelectorAll('#kernels th button')].map(one => one.textContent)")}
        check("heads of kernels", heads - told, set())
        tiles = self.browser.run("return [...document.querySelectorAll('#figures dt')].map(one => one.textContent)")
        summary = self.perf("summary", self.path("words"))
        for tile in ("wall time", "tasks", "iterations", "median iteration", "images/s by the mean iteration"):
            check(f"the word {tile}", [tile in tiles, f"\n{tile} " in summary], [True, True])
        self.browser.click("#curves input[value=seconds]")
        self.drawn()
        self.simulated_time()
        texts = self.browser.run("return [...document.querySelectorAll('svg text')].map(one => one.textContent)")
        check("no 0 ns", [text for text in texts if text in ("0 ns", "0 ms")], [])
        overlap = self.browser.run("""
            const boxes = [...document.querySelectorAll('#roofline text.value')].map(one => one.getBoundingClientRect());
            return [boxes.length, boxes.filter((a, i) => boxes.some((b, k) => k < i && a.left < b.right - 1
              && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)).length];""")
        check("labels", [overlap[0] > 3, overlap[1]], [True, 0])
        said = self.browser.run("return document.body.innerText")
        check("one of a thing", [word for word in ("1 tasks", "1 groups", "1 exchanges", "1 messages") if f" {word}" in said], [])
        self.quiet()

    def little(self):
        """Almost nothing to show is no problem."""
        self.report("little", "tasks=1", "workers=1", "layers=1", "slices=1", "peaks=0")
        check("no metrics", "No metrics file" in self.browser.text("#curves"), True)
        check("no peaks", "no measured peaks" in self.browser.text("#roofline"), True)
        check("no messages", self.browser.text("#messages"), "")
        self.quiet()
        with open(self.path("nothing"), "w", encoding="utf-8") as file:
            file.write('{"omnivore_trace":1,"rank":0,"started":0,"host":"h","command":"c","starpu":"1","scheduler":"s",'
                       '"net":"n","batch":1}\n{"end":5,"tasks":0}\n')
        os.mkdir(self.path("empty"))
        os.rename(self.path("nothing"), self.path("empty/rank-0.jsonl"))
        self.perf("report", self.path("empty"), "--html", self.path("empty.html"))
        self.open(self.path("empty.html"))
        check("no tasks", "no tasks in this trace" in self.browser.text("#kernels"), True)
        check("no workers", "no workers" in self.browser.text("#idle"), True)
        check("no task to click", "no tasks" in self.browser.text("#task"), True)
        check("a whole run", self.browser.run("return warning.hidden"), True)
        # The same of a run that was killed.
        os.rename(self.path("empty/rank-0.jsonl"), self.path("empty/rank-0.jsonl.part"))
        with open(self.path("empty/rank-0.jsonl.part"), "r+", encoding="utf-8") as file:
            file.truncate(len(file.readline()))
        self.perf("report", self.path("empty"), "--html", self.path("empty.html"))
        self.open(self.path("empty.html"))
        check("a killed run", "killed" in self.browser.text("#warning") and not self.browser.run("return warning.hidden"), True)
        self.quiet()

    def ranks(self):
        """Messages between ranks: a table, and arrows from the sender's rows to the receiver's."""
        self.report("ranks", "ranks=2", "tasks=400", "workers=2")
        said = json.loads(self.perf("transfers", self.path("ranks"), "--json"))["links"]
        rows = self.browser.run("return [...document.querySelectorAll('#messages tbody tr')].map(row => "
                                "[...row.cells].map(cell => +cell.dataset.value))")
        check("links", sorted(row[:4] + row[6:] for row in rows),
              sorted([one["from_rank"], one["rank"], one["count"], one["bytes"], one["overlapped"]] for one in said))
        arrows = self.browser.run("const { timeline } = report, { lanes } = timeline, rank = row => lanes[row].rank; "
                                  "return timeline.painter.messagesInView(timeline.state).map(one => "
                                  "[rank(one.sender), rank(one.receiver), lanes[one.receiver].name, one.bytes])")
        check("arrows", sorted(set(map(tuple, arrows))),
              [(0, 1, "1: messages of rank 0", 1 << 20), (1, 0, "0: messages of rank 1", 1 << 20)])
        names = self.browser.run("return [...document.querySelectorAll('#names .name span')].map(one => "
                                 "[one.textContent, one.scrollWidth <= one.clientWidth])")
        check("rows are told apart", [len(names), len({name for name, _ in names}), all(fits for _, fits in names)],
              [8, 8, True])
        self.quiet()
        drawn = self.browser.run(COLOURS)
        self.browser.run("const { painter, state } = report.timeline; painter.drawMessages = () => {}; painter.draw(state)")
        check("arrows are drawn", self.browser.run(COLOURS) < drawn, True)

    def large(self):
        """100,000 tasks: it draws; how fast is only reported."""
        self.report("large", "tasks=100000", "workers=8", "groups=8", "slices=8", "transfers=1")
        check("tasks", self.browser.run("return report.trace.tasks.count >= 100000"), True)
        loaded = self.browser.run("return performance.getEntriesByType('navigation')[0].loadEventEnd")
        check("drawn", self.browser.run(COLOURS) > 20, True)
        frames = self.browser.run(FRAMES)
        times = sorted(frame[0] for frame in frames)
        check("drawn at every zoom", min(frame[1] for frame in frames) > 5, True)
        check("the range asked for", [frame[4:] for frame in frames], [frame[2:4] for frame in frames])
        check("still drawn", self.browser.run(COLOURS) > 5, True)
        check("workers of groups: pieces of idle time", all(drawn == said for drawn, said in self.browser.run(PIECES)), True)
        check("for other workers", self.browser.run("return report.trace.idle.share[3] > 0"), True)
        colours = self.browser.run("return [...document.querySelectorAll('#legend [data-group]')].map(one => one.style.background)")
        check("a colour for each group", [len(colours), len(set(colours))], [8, 8])
        said = json.loads(self.perf("async", self.path("large"), "--json"))
        rows = self.browser.run("return [...document.querySelectorAll('#staleness tbody tr')].map(row => "
                                "[...row.cells].map(cell => +cell.dataset.value))")
        check("groups", rows, [[one[key] for key in ("group", "exchanges", "share", "mean", "expected", "max")]
                               for one in said["groups"]])
        check("exchanges", self.browser.run("return document.querySelectorAll('#staleness rect').length >= 2"), True)
        size = os.path.getsize(self.path("large.html"))
        print(f"100,000 tasks: {size / 1e6:.1f} MB, loaded in {loaded / 1e3:.2f} s, "
              f"a frame in {times[30]:.1f} ms (median), {times[57]:.1f} ms (95 %)")
        check("a few MB", size < 10e6, True)

    def picture(self, path, trace=None, metrics=None):
        """A few iterations in the middle of a run, one task selected."""
        if trace:
            self.perf("report", trace, "--html", self.path("picture.html"), "--metrics", metrics)
            self.open(self.path("picture.html"))
        else:
            self.report("picture", "tasks=3000", "workers=6", "groups=2", "slices=8", metrics=self.metrics())
        self.browser.run("""
            const { timeline, trace } = report, { wall, tasks, iterations } = trace;
            const length = 2.5e9 * (iterations.median || wall / 2.5e9), from = Math.max(0, wall / 2 - length / 2);
            timeline.show(from, from + length);
            let chosen = 0;
            for (let i = 0; i < tasks.count; ++i)
              if (tasks.start[i] > from + length / 3 && tasks.end[i] < from + length * 2 / 3
                  && tasks.end[i] - tasks.start[i] > tasks.end[chosen] - tasks.start[chosen]) chosen = i;
            timeline.select(chosen);""")
        self.drawn()
        with open(path, "wb") as file:
            file.write(self.browser.screenshot())


def main():
    if absent := missing():
        print(f"skipped: {', '.join(absent)} not found")
        return 77
    omni_perf, make_trace = sys.argv[1:3]
    folder = tempfile.mkdtemp(prefix="omni-report-")
    try:
        with Browser(1280, 1020) as browser:
            test = Test(browser, omni_perf, make_trace, folder)
            test.small_trace()
            test.above_the_roof()
            test.words()
            test.little()
            test.ranks()
            test.large()
            if len(sys.argv) > 3:
                test.picture(*sys.argv[3:])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("the report says what the trace says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
