"""What `omni-run plan --nodes` foretells for ranks, by strategy, against what they take: in memory, and between hosts
whose links have a rate. Each rank has one worker, and with several groups one group. Medians of rounds, in which
forecasts and trainings alternate. By hand on a quiet machine, as root for the rates:

usage: forecast.py OMNI_RUN NET BATCH [RANKS [ROUNDS [RATE...]]]
       forecast.py build/bin/omni-run caffenet 64 2 3 1gbit 100mbit
"""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from hosts import Hosts

SETTLING, MEASURED = 32, 64  # iterations; whole meetings of two ranks
WAYS = {  # the strategy of a row of `plan`, and how it is trained
    "sync": ("sync", ["--strategy", "sync"]),
    "async, merged": ("async", ["--strategy", "async", "--guard", "off"]),
    "async, replicated": ("hogbatch", ["--strategy", "async", "--guard", "off", "--fc", "replicated"]),
    "sma": ("sma", ["--strategy", "sma"]),
    "local": ("local", ["--strategy", "local"]),
    "elastic": ("elastic", ["--strategy", "elastic"]),
}


def output(command, environment):
    return subprocess.run([str(each) for each in command], check=True, capture_output=True, text=True,
                          env={**os.environ, **environment}).stdout


class Place:
    """Where ranks run: on this host, or on several that links of a rate connect."""

    def __init__(self, program, net, batch, folder, rate):
        self.program, self.folder, self.rate = program, folder, rate
        self.common = ["--net", net, "--batch", batch, "--workers", 1, "--gpus", "none", "--models",
                       os.path.join(folder, "models")]

    def run(self, ranks, *words):
        mpiexec = next(filter(shutil.which, ("mpiexec.mpich", "mpiexec.hydra", "mpiexec")))
        with contextlib.ExitStack() as stack:
            launcher, environment = [mpiexec, "-iface", "lo", "-n", ranks], {}
            if ranks == 1:
                launcher = []
            elif self.rate:
                launcher = stack.enter_context(Hosts(ranks, self.folder, self.rate)).mpiexec(mpiexec)
                environment = Hosts.environment
            return output([*launcher, self.program, *words, *self.common], environment)

    def measured(self, ranks, words):
        """Seconds of an update, the mean: the ends of single ones wait for the scheduler's tick."""
        metrics = os.path.join(self.folder, "metrics")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(metrics)
        groups = [] if "sync" in words else ["--groups", ranks]
        self.run(ranks, "-q", "--no-test", "--display", 1, "--metrics", metrics, "--learning-rate", 1e-5,
                 "--max-batches", SETTLING + MEASURED + 1, *words, *groups)
        with open(metrics, encoding="utf-8") as file:
            times = [json.loads(line)["time"] for line in file][SETTLING:]
        return (times[-1] - times[0]) / (len(times) - 1)

    def foretold(self, ranks):
        """The link, and {(nodes, strategy): seconds of an update}, with a group on each node or one"""
        told = json.loads(self.run(2, "plan", "--json", "--most-groups", 1, "--nodes",
                                   ",".join(map(str, range(1, ranks + 1)))))
        return told["link"], {(row["nodes"], strategy): row["predicted_seconds"] for row in told["nodes"]
                              for strategy in row["strategies"].split(", ")
                              if row["groups"] == (1 if strategy == "sync" else row["nodes"])}


def main(program, net, batch, ranks="2", rounds="3", *rates):
    print("| link | Mbit/s | ranks | strategy | foretold, ms | measured, ms | foretold / measured |\n"
          "|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        places = [Place(os.path.abspath(program), net, batch, folder, rate) for rate in (None, *rates)]
        cases = [(1, "sync"), *((count, way) for count in range(2, int(ranks) + 1) for way in WAYS)]
        places[0].measured(1, WAYS["sync"][1])  # calibrates
        for place in places:
            told = [(place.foretold(int(ranks)), [place.measured(count, WAYS[way][1]) for count, way in cases])
                    for _ in range(int(rounds))]
            rate = statistics.median(link["bytes_per_second"] for (link, _), _ in told)
            for number, (count, way) in enumerate(cases):
                foretold = statistics.median(seconds[count, WAYS[way][0]] for (_, seconds), _ in told)
                measured = statistics.median(seconds[number] for _, seconds in told)
                print(f"| {place.rate or 'memory'} | {8e-6 * rate:.0f} | {count} | {way} | {1e3 * foretold:.2f} | "
                      f"{1e3 * measured:.2f} | {foretold / measured:.2f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
