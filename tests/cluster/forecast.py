"""What `omni-run plan --nodes` foretells for ranks that share a mini-batch, against what they take: in memory, and
between hosts whose links have a rate. Each rank has one worker. Medians of rounds, in which forecasts and trainings
alternate. By hand on a quiet machine, as root for the rates:

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

SETTLING, MEASURED = 30, 30  # iterations


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

    def measured(self, ranks):
        """Seconds of an iteration, the mean: the ends of single ones wait for the scheduler's tick."""
        metrics = os.path.join(self.folder, "metrics")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(metrics)
        self.run(ranks, "-q", "--no-test", "--display", 1, "--metrics", metrics, "--learning-rate", 1e-5,
                 "--max-batches", SETTLING + MEASURED)
        with open(metrics, encoding="utf-8") as file:
            times = [json.loads(line)["time"] for line in file][SETTLING:]
        return (times[-1] - times[0]) / (len(times) - 1)

    def foretold(self, ranks):
        """The link, and {nodes: seconds of an iteration}"""
        told = json.loads(self.run(2, "plan", "--json", "--fc", "replicated", "--most-groups", 1, "--nodes",
                                   ",".join(map(str, range(1, ranks + 1)))))
        return told["link"], {row["nodes"]: row["predicted_seconds"] for row in told["nodes"] if row["groups"] == 1}


def main(program, net, batch, ranks="2", rounds="3", *rates):
    print("| link | latency, us | Mbit/s | ranks | foretold, ms | measured, ms | foretold / measured |\n"
          "|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        places = [Place(os.path.abspath(program), net, batch, folder, rate) for rate in (None, *rates)]
        counts = range(1, int(ranks) + 1)
        places[0].measured(1)  # calibrates
        told = [[(place.foretold(int(ranks)), [place.measured(count) for count in counts]) for place in places]
                for _ in range(int(rounds))]
        for place, of_rounds in zip(places, zip(*told)):
            latency, rate = (statistics.median(link[key] for (link, _), _ in of_rounds)
                             for key in ("latency_seconds", "bytes_per_second"))
            for count in counts:
                foretold = statistics.median(seconds[count] for (_, seconds), _ in of_rounds)
                measured = statistics.median(seconds[count - 1] for _, seconds in of_rounds)
                print(f"| {place.rate or 'memory'} | {1e6 * latency:.0f} | {8e-6 * rate:.0f} | {count} | "
                      f"{1e3 * foretold:.2f} | {1e3 * measured:.2f} | {foretold / measured:.2f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
