"""Repeats heterogeneous Hogbatch (Ma and Rusu 2020), on both of its servers, and its sequel Adaptive SGD on four unequal
GPUs."""

import json
import subprocess

from crossbow import compared, learners, words_of
from store import NEVER, machine_of, mean, net_of, number, table

# These are the published shares of updates that cores made, read off figures.
SHARES = {("covtype-mlp", "48-threads-slow-gpu"): {"hogbatch": 0.99, "adaptive": 0.78},
          ("w8a-mlp", "48-threads-slow-gpu"): {"hogbatch": 0.98, "adaptive": 0.77},
          ("covtype-mlp", "48-threads-fast-gpu"): {"hogbatch": 0.96, "adaptive": 0.52},
          ("w8a-mlp", "48-threads-fast-gpu"): {"hogbatch": 0.98, "adaptive": 0.55}}
# This is the published use of cores and of the GPU, in percent.
USE = {("covtype-mlp", "48-threads-slow-gpu"): {"GPU alone": "4, 97", "cores alone": "75, 0", "hogbatch": "80, 82 to 97",
                                                "adaptive": "70, 50"}}


def flops_of(store, net):
    """Returns the flops of a sample, forward and backward."""
    def compute(_):
        told = subprocess.run([store.program, "-q", "--json", "--dry-run", "--net", net_of(net)[0]], capture_output=True,
                              text=True, check=True)
        return 3 * sum(layer["forward_flops_per_image"] for layer in json.loads(told.stdout)["layers"])
    return store.many([(f"flops of {net}", compute)])[0]


def rate_of(device, flops, batch):
    """Returns the samples per second of a device."""
    seconds = flops * (batch + device.get("half_size", 0)) / device["flops_per_second"] + device.get("overhead", 0)
    return device.get("count", 1) * batch / seconds


def loss_by(result, end):
    """Returns the mean loss of the last quarter of `end` seconds; NEVER: the training did not come so far."""
    part = [block for block in result["curve"] if 0.75 * end <= block[1] <= 1.05 * end]
    return mean(part) if 0.9 * end <= result["seconds"] and result["exit"] == 0 else NEVER


def hogbatch(plan, store):
    """Cores and a GPU together"""
    large, rows = plan["large"], []
    for net, machine in [(net, machine) for net in plan["nets"] for machine in plan["machines"]]:
        flops, images = flops_of(store, net), int(net_of(net)[1].split(":")[1])
        gpu, cpu = machine_of(machine)["devices"]
        cores, fast, slow = cpu["count"], rate_of(gpu, flops, large), rate_of(cpu, flops, 1)
        seconds = plan["gpu_updates"] * large / fast
        # A training ends with its samples. Cores would take one by one those that are too few for the GPU's mini-batch.
        ways = {  # only these devices, words, samples per second
            "GPU alone": ("gpu", ["--strategy", "sync"], fast),
            "cores alone": ("cpu", ["--strategy", "hogbatch", "--group-batches", f"{cores}x1"], slow),
            "hogbatch": ("", ["--strategy", "hogbatch", "--group-batches", f"{large},{cores}x1"], fast + slow),
            "adaptive": ("", ["--strategy", "adaptive", "--group-batches",
                              f"{large}:{max(1, large // 16)}-{large},{cores}x1:1-64"], fast + rate_of(cpu, flops, 64))}
        for way, (only, words, most) in ways.items():
            results = store.many([store.training(
                net, machine + (f"@{only}" if only else ""), "--epochs", seconds * most / images, "--no-test", "--batch",
                large if only == "gpu" else 16, "--seed", plan["seed"], "--learning-rate", rate, "--momentum", 0, *words)
                for rate in plan["rates"]])
            result, rate = min(zip(results, plan["rates"]), key=lambda each: loss_by(each[0], seconds))
            kinds = {only: [sum(each) for each in zip(*result["kinds"].values())]} if only else {
                name: result["kinds"].get(key, [0, 0]) for key, name in (("0.0", "gpu"), ("1.0", "cpu"))}
            updates = {kind: kinds.get(kind, [0, 0])[0] for kind in ("cpu", "gpu")}
            use = [kinds.get(device["kind"], [0, 0])[1] * flops / result["seconds"] /
                   device["flops_per_second"] / device.get("count", 1) for device in (cpu, gpu)]
            losses = [loss_by(result, part * seconds) for part in (0.5, 1)]
            epochs = sum(block[2] for block in result["curve"]) / images
            share = updates["cpu"] / sum(updates.values())
            rows.append([net, machine, way, f"{rate:g}", *map(number, losses), number(epochs), f"{share:.2f}",
                         SHARES.get((net, machine), {}).get(way, ""), ", ".join(f"{100 * each:.0f}" for each in use),
                         USE.get((net, machine), {}).get(way, "")])
    return table(["net", "machine", "way", "best rate", "loss at half the time", "at the end", "epochs",
                  "updates by cores", "**published**", "use of cores, GPU, %",
                  "**published**"], rows), {}


hogbatch.plan = {"nets": ["covtype-mlp", "w8a-mlp"], "machines": ["48-threads-fast-gpu", "48-threads-slow-gpu"],
                 "seed": 1, "rates": [0.1, 0.01, 0.001], "large": 8192, "gpu_updates": 6}
hogbatch.differences = """\
* Published are real data and hours. Here the vectors are computed, and the time is that of a few mini-batches of the GPU.
* Published use is busy time as tools report it. Ours is the share of a device's highest rate, which mini-batches of one
  sample do not reach; simulated devices are always busy here.
* Losses are means of a quarter of the time. "Epochs" is the share of the data that was used until the end.
* The authors' GPU overwrites the shared model; here every change is added. Their mini-batches all have one rate; here it
  goes by the root of their size (`--batch-rate`).
* In so few mini-batches the loss does not fall below that of guessing, 0.69. So the rows compare shares and use of devices;
  of losses they only say which way harms least."""


def adaptive(plan, store):
    """Adaptive SGD on four unequal GPUs"""
    rows, machine = [], plan["machines"][0]
    count = len(machine_of(machine)["devices"])
    ways = {"Adaptive SGD (`elastic`)": (["--strategy", "elastic", "--groups", count], plan["batch"], 0.40, 0.42),
            "one mini-batch (`sync`)": (["--strategy", "sync"], count * plan["batch"], 0.345, 0.39),
            "Crossbow (`sma`)": (["--strategy", "sma", "--groups", count], plan["batch"], 0.33, 0.405)}
    for net in plan["nets"]:
        one = plan | {"nets": [net]}
        found, target = compared(one, store, {way: (machine, batch, words) for way, (words, batch, *_) in ways.items()})
        for way, (words, batch, *theirs) in ways.items():
            rate, accuracy, epochs, seconds = found[way]
            [result] = store.many([store.training(net, machine, *words_of(one, batch, rate, *words))])
            rows.append([net, way, f"{rate:g}", number(epochs, ".2f"), number(seconds), f"{100 * target:.1f}",
                         f"{100 * accuracy:.1f}", ", ".join(map(str, result["sizes"])), *theirs])
    return table(["net", "way", "best rate", "epochs", "simulated s", "to an accuracy of, %", "accuracy at the end, %",
                  "last mini-batches", "**published**: Amazon-670k", "**published**: Delicious-200k"], rows), {}


adaptive.plan = learners.plan | {"nets": ["perceptron", "normalised"], "machines": ["1,0.9,0.8,0.7-gpus"]}
adaptive.differences = """\
* Published is the accuracy (top 1) of four V100 on sparse data with hundreds of thousands of classes. Ours are dense
  images in ten classes, and the speeds of the four GPUs are made up. Only the order of the ways can be compared.
* Published "one mini-batch" is gradient descent by the authors' own program.
* `elastic` leaves out the published [perturbation](../user/groups-and-strategies.md#elastic) of weights. Trees up to 9decd316 had it,
  and momentum of models and of the average at once."""
