"""Computes what is reported from the blocks of every round: medians, the paired ratio to the better peer and
its spread, the share of the machine's peak, and the table."""

from statistics import median

MEBI = 2**20
BUSY = 0.05  # share of the CPUs' time that others use; above it, figures are not worth much


def training_flops(facts):
    """Returns the flops of an iteration: forward, gradient of the data, gradient of the weights. The first layer
    with weights needs no gradient of its data. Only products count: convolutions and connected layers."""
    products = [layer["forward_flops_per_image"] for layer in facts["layers"] if layer["parameters"] > 0]
    return facts["batch"] * (3 * sum(products) - products[0]) if products else 0


def summarise(blocks, batch, flops, peak):
    """Returns the figures of a contender. `blocks` has one {"seconds": [...], ...} per round."""
    rounds = [median(block["seconds"]) for block in blocks]
    seconds = median(rounds)
    others = [block["others"] for block in blocks if block["others"] is not None]
    return {"images_per_second": batch / seconds,
            "median_seconds": seconds,
            "seconds": rounds,
            "block_seconds": [block["seconds"] for block in blocks],
            "peak_memory_bytes": int(median(block["peak_memory_bytes"] for block in blocks)),
            "fraction_of_peak": flops / seconds / peak if peak else None,
            "cpu_share_of_others": median(others) if others else None}


def paired(ours, theirs):
    """Returns how many times as fast as the other we are: the median over the rounds, and all rounds."""
    ratios = [their / our for our, their in zip(ours["seconds"], theirs["seconds"])]
    return median(ratios), ratios


def compare(contenders, name="omnivore"):
    """Adds `ratio` and `ratios` to every peer; returns the better peer's, by its median over all rounds,
    so that the choice of the mode is not made anew in every round."""
    peers = {each: told for each, told in contenders.items() if each != name}
    for told in peers.values():
        told["ratio"], told["ratios"] = paired(contenders[name], told)
    if not peers:
        return {"better_peer": None, "ratio": None, "ratio_spread": None}
    better = min(peers, key=lambda each: peers[each]["median_seconds"])
    ratios = peers[better]["ratios"]
    return {"better_peer": better, "ratio": peers[better]["ratio"],
            "ratio_spread": [min(ratios), max(ratios)]}


def counted(number, noun):
    return f"{number} {noun}" + ("" if number == 1 else "s")


def seconds_text(seconds):
    return f"{1e3 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def table(result):
    lines = [f"{'':<22} {'images/s':>9} {'from':>9} {'to':>9} {'iteration':>10} {'peak MiB':>9} "
             f"{'of peak':>8} {'omnivore is':>12}"]
    for name, told in result["contenders"].items():
        rates = [result["batch"] / each for each in told["seconds"]]
        share = told["fraction_of_peak"]
        lines.append(f"{name:<22} {told['images_per_second']:>9.1f} {min(rates):>9.1f} {max(rates):>9.1f} "
                     f"{seconds_text(told['median_seconds']):>10} "
                     f"{told['peak_memory_bytes'] / MEBI:>9.0f} "
                     f"{'' if share is None else format(share, '.0%'):>8} "
                     f"{format(told['ratio'], '.2f') + ' x' if 'ratio' in told else '':>12}")
    if result["ratio"] is not None:
        low, high = result["ratio_spread"]
        lines.append(f"omnivore is {result['ratio']:.2f} times as fast as {result['better_peer']} "
                     f"({low:.2f} to {high:.2f} in {counted(result['rounds'], 'round')})")
    return "\n".join(line.rstrip() for line in lines)


def warnings(result):
    said = list(result["not_measured"])
    if not result["placement_settled"]:
        said.append("omnivore's choice of implementations had not settled: calibrate longer, in a kept "
                    "--models folder")
    shares = [told["cpu_share_of_others"] for told in result["contenders"].values()]
    busy = max((each for each in shares if each is not None), default=0)
    if busy > BUSY:
        said.append(f"others used {busy:.0%} of these CPUs: repeat on a quiet machine before you quote this")
    if result["rounds"] < 3:
        said.append(f"{counted(result['rounds'], 'round')} without a spread worth the name: --rounds 5")
    return said
