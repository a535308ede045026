"""Repeats figures 3, 4 and 8 of Asynchrony begets momentum (Mitliagkas et al. 2016): the best momentum and rate by compute
groups."""

from omnivore import several
from store import NEVER, loss_at, name_of, number, reached, table

FIGURES = {  # the published best explicit momentum, by groups
    "CaffeNet, ImageNet (figure 3)": {1: 0.6, 2: 0.6, 4: 0.6, 8: 0.6, 16: 0.3, 32: 0},
    "CIFAR (figure 3)": {1: 0.7, 2: 0.6, 4: 0.2, 8: 0.1},
    "CIFAR, 33 nodes (figure 8)": {1: 0.675, 2: 0.45, 4: 0.225, 8: 0, 16: -0.675}}
UPDATES = {  # the published relative numbers of updates to a loss, by groups: CIFAR, 33 nodes (figures 4 and 8)
    "momentum 0.9": {1: 2, 2: 2, 4: 2, 8: 3, 16: 16}, "best from 0 on": {1: 1, 2: 1, 4: 2, 8: 2, 16: 6},
    "best": {1: 1, 2: 1, 4: 2, 8: 2, 16: 3}}


def momentum(plan, store):
    """The best momentum and rate, by the number of groups"""
    rows, plots, counts, window = [], {}, plan["groups"], plan["iterations"] // 10
    start, end = plan["start"], plan["start"] + plan["iterations"]
    for net in plan["nets"]:
        settings = [(count, momentum, rate) for count in counts for momentum in plan["momenta"] for rate in plan["rates"]]
        words = ["--no-test", "--batch", plan["batch"], "--seed", plan["seed"]]

        def training(momentum, rate, more):
            return store.training(
                net, plan["machines"][0], "--max-batches", end, "--momentum", momentum, "--learning-rate", rate, *words,
                *more, begin=["--max-batches", start, "--momentum", 0.9, *words])
        results = dict(zip(settings, store.many([training(momentum, rate, several(count))
                                                 for count, momentum, rate in settings])))
        share = (start + plan["share"] * plan["iterations"]) / end
        loss = min(loss_at(results[each], share, window) for each in settings if each[0] == counts[0])
        needed = {each: reached(results[each], loss, window)[0] - start for each in settings}

        def best(count, momenta):
            return min((each for each in settings if each[0] == count and each[1] in momenta),
                       key=lambda each: (needed[each], loss_at(results[each], 1, window)))
        ways = {"momentum 0.9": [max(plan["momenta"])], "best from 0 on": [each for each in plan["momenta"] if each >= 0],
                "best": plan["momenta"]}
        found = {way: [best(count, momenta) for count in counts] for way, momenta in ways.items()}
        shares = {each: needed[each] / needed[found["best"][0]] for each in settings}
        most, rate = found["momentum 0.9"][0][1:]
        usual = [reached(result, loss, window)[0] - start for result in store.many(
            [training(most, rate, ["--groups", count] if count > 1 else []) for count in counts])]
        lines = {}
        for way, each_count in found.items():
            for what, at in (("momentum", 1), ("rate", 2)):
                rows.append([net, f"{way}: {what}", *[f"{each[at]:g}" for each in each_count]])
            rows.append([net, f"{way}: updates", *[number(shares[each]) for each in each_count]])
            if way == "best":
                rows += [[net, "as it comes: updates", *[number(each / needed[found[way][0]]) for each in usual]],
                         [net, "as it comes / best", *[number(each / needed[one]) for each, one in zip(usual, each_count)]]]
            lines[way] = [(each[0], [shares[each] if shares[each] < NEVER else None]) for each in each_count]
        for way, values in UPDATES.items():
            lines[f"published: {way}"] = [(count, [value]) for count, value in values.items()]
        plots[f"momentum-{name_of(net)}"] = (f"{name_of(net)}: updates to the loss", "compute groups", "relative", lines)
    theirs = [(name, "best: momentum", values) for name, values in FIGURES.items()]
    theirs += [("CIFAR, 33 nodes", f"{way}: updates", values) for way, values in UPDATES.items()]
    rows += [[f"**published**: {name}", what, *[f"{values[count]:g}" if count in values else "" for count in counts]]
             for name, what, values in theirs]
    return table(["net", "groups", *counts], rows), plots


momentum.plan = {"nets": ["small-lenet", "normalised"], "machines": ["33-nodes"], "groups": [1, 2, 4, 8, 16],
                 "momenta": [-0.45, 0, 0.45, 0.675, 0.9], "rates": [0.06, 0.02, 0.006], "seed": 1, "start": 100,
                 "iterations": 900, "batch": 32, "share": 0.6}
momentum.differences = """\
* Published are other nets on real nodes, at one rate, and coarse counts of updates. Ours take the best of three rates for
  each number of groups. The momenta are those of figure 8; figure 3 has 0, 0.3, 0.6, 0.9 for ImageNet.
* All start from the same parameters, trained in one group with momentum 0.9. The loss is the lowest that one group has
  after the given share of the updates. There is one seed, so the setting that gets there first may be lucky.
* "As it comes" is `--groups N` with nothing else: the guard finds the rate, up to the best one of one group with momentum 0.9,
  and the momentum is compensated."""
