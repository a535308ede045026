"""Repeats Omnivore (Hadjis et al. 2016): time per update and number of updates by compute groups; its optimizer beside
ours."""

import statistics

from algorithm1 import algorithm1
from store import NEVER, accuracy, devices_of, loss_at, name_of, number, reached, seconds_per_update, table

# LOGS has the seconds of an update, by groups, in the published logs of 18 workers whose computing was emulated. PENALTIES
# are those of figures 4 and 8.
LOGS = {1: 1.2095, 2: 0.6005, 4: 0.2990, 8: 0.1516, 16: 0.0773}
PENALTIES = {"0.9": {1: 2, 2: 2, 4: 2, 8: 3, 16: 16}, "tuned": {1: 1, 2: 1, 4: 2, 8: 2, 16: 3}}


def several(groups, compensation="off"):
    return ["--groups", groups, "--guard", "off", "--momentum-compensation", compensation] if groups > 1 else []


def groups(plan, store):
    """Time per update times updates, by the number of groups"""
    counts = {machine: [count for count in plan["groups"] if count <= devices_of(machine)] for machine in plan["machines"]}

    def by_groups(values, one):
        return [number(values[count] / one) if count in values else "" for count in plan["groups"]]
    cases, rows = [(net, machine) for net in plan["timed_nets"] for machine in plan["machines"]], []
    for net, machine in cases:
        times = dict(zip(counts[machine], map(seconds_per_update, store.many([store.training(
            net, machine, "--max-batches", plan["timed"], "--batch", plan["batch"], "--no-test", *several(count))
            for count in counts[machine]]))))
        rows.append([net, machine, number(times[1]), *by_groups(times, times[1])])
    rows.append(["**published**: CaffeNet", "18 workers", number(LOGS[1]), *by_groups(LOGS, LOGS[1])])
    text = "Time per update, relative to one group:\n\n" + table(["net", "machine", "one group, s", *plan["groups"]], rows)

    def words(updates, seed):
        return ["--max-batches", updates, "--batch", plan["batch"], "--no-test", "--seed", seed]
    rows, plots, cold, window = [], {}, plan["iterations"] // 10, plan["iterations"] // 10
    for net in plan["nets"]:
        cases = [(machine, mode, count) for machine in plan["machines"] for mode in ("theory", "off")
                 for count in counts[machine]]
        results = {case: store.many([store.training(
            net, case[0], *words(plan["iterations"], seed), *several(case[2], case[1]), begin=words(cold, seed))
            for seed in plan["seeds"]]) for case in cases}
        one = results[plan["machines"][0], "off", 1]
        loss, lines = statistics.median(loss_at(result, plan["share"], window) for result in one), {}
        for machine in plan["machines"]:
            for mode, momentum in (("theory", "compensated"), ("off", "momentum 0.9")):
                updates, seconds = {}, {}
                for count in counts[machine]:
                    each = results[machine, mode, count]
                    updates[count] = statistics.median(reached(result, loss, window)[0] for result in each)
                    seconds[count] = updates[count] * statistics.median(map(seconds_per_update, each))
                for what, values in (("updates", updates), ("time", seconds)):
                    rows.append([net, f"{machine}, {momentum}", f"{loss:.3f}", what, *by_groups(values, values[1])])
                lines[f"{machine}, {momentum}"] = [(count, [seconds[count] / seconds[1] if seconds[count] < NEVER else None])
                                                   for count in seconds]
        plots[f"groups-{name_of(net)}"] = (f"{name_of(net)}: simulated time to the loss", "compute groups",
                                           "relative to one group", lines)
    rows += [["**published**: CIFAR", f"33 nodes, {name}", "", "updates", *by_groups(values, values[1])]
             for name, values in PENALTIES.items()]
    return (text + "\n\nUpdates to the loss, and simulated time to it, relative to one group:\n\n" +
            table(["net", "machine, momentum", "loss", "", *plan["groups"]], rows)), plots


groups.plan = {"nets": ["small-lenet"], "machines": ["9-nodes", "33-nodes"], "groups": [1, 2, 4, 8, 16, 32],
               "seeds": [1, 2, 3], "iterations": 1000, "batch": 32, "share": 0.6,
               "timed_nets": ["small-lenet", "lenet", "cifar10-quick"], "timed": 64}
groups.differences = """\
* The loss is the mean of a tenth of the updates, as one group on the first machine has it after the given share of them.
* Published are CaffeNet on 18 workers whose computing was emulated, without a saturated server of merged layers, and a
  net for CIFAR on real nodes. Ours are smaller nets, so messages weigh more, and merged layers saturate sooner.
* The published penalties are small integers, relative to the best momentum with one group; here both kinds are relative to
  one group with momentum 0.9. "Compensated" is the theory's momentum, "tuned" the best of a grid."""


def rivals(plan, store):
    """Automatic search beside sync, async, Algorithm 1 and a grid"""
    updates, window, rows = plan["iterations"], plan["iterations"] // 10, []
    for net in plan["nets"]:
        for machine in plan["machines"]:
            most = devices_of(machine)
            words = ["--max-batches", updates, "--batch", plan["batch"], "--test-every", 0]

            def training(count, momentum, factor, seed, *more):
                rate = factor * plan["rate"]
                return store.training(net, machine, *words, "--seed", seed, *(more or [
                    "--momentum", momentum, "--learning-rate", rate, *several(count)]))
            grid = [(count, momentum, factor) for count in sorted({1, max(1, most // 4), most})
                    for momentum in plan["momenta"] for factor in plan["factors"]]
            tried = dict(zip(grid, store.many([training(*setting, plan["seeds"][0]) for setting in grid])))
            ways = {"sync 0.9": (1, 0.9, 1), "async 0.9": (most, 0.9, 1)}
            results = {way: store.many([training(*setting, seed) for seed in plan["seeds"]])
                       for way, setting in ways.items()}
            loss = statistics.median(loss_at(result, plan["share"], window) for result in results["sync 0.9"])
            best = min(grid, key=lambda setting: reached(tried[setting], loss, window)[1])
            results["Algorithm 1"] = store.many([algorithm1(
                store, net, machine, most, updates, updates // 8, updates // 4, plan["trial"],
                ["--batch", plan["batch"], "--seed", seed]) for seed in plan["seeds"]])
            results["best of the grid"] = store.many([training(*best, seed) for seed in plan["seeds"]])
            results["--auto"] = store.many([training(1, 0, 1, seed, "--auto", "--learning-rate", plan["rate"])
                                            for seed in plan["seeds"]])
            seconds = {way: [reached(result, loss, window)[1] for result in each] for way, each in results.items()}
            middle = {way: statistics.median(each) for way, each in seconds.items()}
            chosen = results["Algorithm 1"][0]["chosen"]
            settings = {"best of the grid": "{} groups, momentum {}, {} of the rate".format(*best),
                        "Algorithm 1": "; ".join("{}, {:g}, {:g}".format(*each) for each in chosen)}
            for way, each in results.items():
                final = statistics.median(map(accuracy, each))
                rows.append([net, machine, f"{loss:.3f}", way, ", ".join(map(number, seconds[way])), number(middle[way]),
                             number(middle[way] / middle["--auto"]) if middle["--auto"] < NEVER else "",
                             number(100 * final, ".1f") if final else "diverged",
                             settings.get(way, "")])
    rows += [["**published**", "", "", f"MXNet, {way}", "", "", ratio, "", ""]
             for way, ratio in (("sync", 4.5), ("async", 11))]
    return table(["net", "machine", "loss", "way", "simulated s, by seed", "median", "median / `--auto`'s", "accuracy, %",
                  "settings"], rows), {}


rivals.plan = {"nets": ["small-lenet", "normalised", "lenet", "small-resnet"], "machines": ["9-nodes", "33-nodes"],
               "seeds": [1, 2, 3], "iterations": 1400, "batch": 32, "rate": 0.02, "momenta": [0, 0.9], "factors": [1, 0.3],
               "share": 0.6, "trial": 40}
rivals.differences = """\
* The loss is the mean of a tenth of the updates, as sync has it after the given share of them.
* Published are the ratios of one figure: Omnivore against MXNet, another program, on a real cluster. Over all clusters and
  nets Omnivore was 1.9 to 12 times as fast as the fastest other system. Here all ways run on one engine.
* With less than 400 updates `--auto` makes no trials: it trains in one group, as sync does, and cools down at the end.
* Simulated seconds include all trials of Algorithm 1 and of `--auto`; those of the grid do not include its other settings.
* Settings of Algorithm 1: groups, momentum, rate of each epoch, seed 1. Its grid is the authors': rates 0.1 to 0.0001 in one
  group, then momenta 0, 0.3, 0.6, 0.9 at the last rate and a tenth of it. Its trials are 40 updates here, or 5 of each
  group; there they are minutes, and epochs an hour."""
