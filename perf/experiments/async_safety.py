#!/usr/bin/env python3
"""Tells whether several groups train where one does: prints a Markdown table of the final test
accuracy of nets, by the number of groups, free and in turn, with and without --guard."""

import argparse
import json
import pathlib
import subprocess
import tempfile

HEAD = """[net]
height=28
width=28
channels=1
momentum=0.9
decay=0.0005
"""


def conv(filters, size, activation, more=""):
    return (f"[convolutional]\nfilters={filters}\nsize={size}\nstride=1\npad=1\n"
            f"activation={activation}\n{more}")


def connected(output, activation):
    return f"[connected]\noutput={output}\nactivation={activation}\n"


POOL = "[maxpool]\nsize=2\nstride=2\npadding=0\n"
END = connected(10, "linear") + "[softmax]\n"
NORM = "batch_normalize=1\n"
BLOCK = (conv(16, 3, "relu", NORM) + conv(16, 3, "linear", NORM) +
         "[shortcut]\nfrom=-3\nactivation=relu\n")

# These are the mini-batch, the learning rate and the layers of each net.
OWN_NETS = {
    "conv3": (32, 0.02, (conv(16, 3, "relu") + POOL) * 2 + conv(32, 3, "relu") + POOL + END),
    "sigmoid": (32, 0.05, conv(16, 5, "logistic") + POOL + conv(32, 5, "logistic") + POOL +
                connected(64, "logistic") + END),
    "tanh": (64, 0.02, (conv(16, 3, "tanh") * 2 + POOL) * 2 + connected(64, "tanh") * 2 + END),
    "norm": (64, 0.1, conv(16, 3, "leaky", NORM) + POOL + conv(32, 3, "leaky", NORM) + POOL +
             conv(32, 3, "leaky", NORM) + END),
    "dropout": (64, 0.03, conv(16, 5, "relu") + POOL + conv(32, 5, "relu") + POOL +
                connected(128, "relu") + "[dropout]\nprobability=0.5\n" + END),
    "residual": (64, 0.02, conv(16, 3, "relu", NORM) + POOL + BLOCK * 3 + POOL + END),
}


def write_net(name, folder):
    if name not in OWN_NETS:
        return name
    batch, rate, layers = OWN_NETS[name]
    path = folder / f"{name}.cfg"
    path.write_text(f"{HEAD}batch={batch}\nlearning_rate={rate}\n{layers}")
    return str(path)


def train(args, net, data, seed, more):
    command = [args.omni_run, "--net", net, "--data", data, "--max-batches", str(args.iterations),
               "--seed", str(seed), "--display", "100000", "--json", *args.more.split(), *more]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        return "diverged" if run.returncode == 6 else f"exit {run.returncode}"
    summary = json.loads(run.stdout[run.stdout.index("{"):])
    times = run.stderr.count("back to the parameters")
    back = f" ({times})" if times else ""
    return f"{100 * summary['test_accuracy']:.1f}{back}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--omni-run", default="build/bin/omni-run")
    parser.add_argument("--nets", default="lenet,conv3,sigmoid,tanh,norm,dropout,residual")
    parser.add_argument("--data", default="synthetic:6400,fashion-mnist")
    parser.add_argument("--groups", default="2,3,6,12,32")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--modes", default="free,reproducible")
    parser.add_argument("--guards", default="off,on")
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--more", default="", help="words of omni-run for all trainings: '--batch 8'")
    args = parser.parse_args()
    counts = args.groups.split(",")
    print("| net | data | seed | one group | updates | guard |" +
          "".join(f" {groups} |" for groups in counts))
    print("|" + "---|" * (6 + len(counts)), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in args.nets.split(","):
            net = write_net(name, pathlib.Path(folder))
            for data in args.data.split(","):
                for seed in args.seeds.split(","):
                    one = train(args, net, data, seed, [])
                    for mode in args.modes.split(","):
                        for guard in args.guards.split(","):
                            row = [train(args, net, data, seed, ["--groups", groups, "--async",
                                                                 mode, "--guard", guard])
                                   for groups in counts]
                            cells = [name, data, seed, one, mode, guard, *row]
                            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
