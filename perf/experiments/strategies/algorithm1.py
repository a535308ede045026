"""Runs Omnivore's Algorithm 1 with the constants of its authors' program. Grid searches from checkpoints decide momentum
and rate; the number of groups is halved while momentum 0 is best. omni-run trains; the simulated time counts trials, too."""

import os
import shutil

from store import DIVERGED, NEVER, summary

RATES, MOMENTA, LATER = (0.0001, 0.001, 0.01, 0.1), (0.0, 0.3, 0.6, 0.9), 0.6
# More groups must be FASTER times as fast. The mean of the last SCORED losses is a trial's score. Each group makes at
# least EACH updates in a trial.
FASTER, SCORED, EACH = 1.1, 10, 5


class Algorithm1:
    def __init__(self, run, folder, words):
        self.run, self.folder, self.words = run, folder, words
        self.now, self.at, self.clock = os.path.join(folder, "now"), 0, 0.0  # checkpoint, its updates and clock
        self.seconds, self.trials, self.lines, self.chosen, self.code = 0.0, 0.0, [], [], 0

    def piece(self, updates, groups, momentum, rate, *words):
        """Goes on from the checkpoint. Returns the folder, metrics, simulated seconds, and whether it diverged."""
        out = os.path.join(self.folder, "piece")
        shutil.rmtree(out, ignore_errors=True)
        if os.path.exists(self.now):
            shutil.copytree(self.now, out)
        several = ["--groups", str(groups), "--guard", "off", "--momentum-compensation", "off"] if groups > 1 else []
        code, lines = self.run([*self.words, "--max-batches", str(self.at + updates), "--momentum", str(momentum),
                                "--learning-rate", str(rate), "--resume", "auto", *several, *words], out)
        times = [line["simulated_time"] for line in lines if "loss_average" in line] or [0.0]
        # With the same groups the virtual clock goes on, otherwise it starts anew.
        begin = self.clock if times[0] >= self.clock else 0.0
        return out, lines, times[-1] - begin, code == DIVERGED

    def trial(self, updates, groups, momentum, rate):
        """Returns the mean of the last losses, and the seconds of an update."""
        updates = max(updates, EACH * groups)
        _, lines, seconds, diverged = self.piece(updates, groups, momentum, rate, "--no-test")
        self.seconds, self.trials = self.seconds + seconds, self.trials + seconds
        losses = [line["loss"] for line in lines if "loss_average" in line][-SCORED:]
        return NEVER if diverged or None in losses or not losses else sum(losses) / len(losses), seconds / updates

    def train(self, updates, groups, momentum, rate):
        out, lines, seconds, diverged = self.piece(updates, groups, momentum, rate, "--test-every", "0")
        lines = [line for line in lines if "simulated_time" in line]
        shift = self.seconds - (lines[-1]["simulated_time"] - seconds) if lines else 0.0
        self.clock = lines[-1]["simulated_time"] if lines else self.clock
        self.lines += [line | {"simulated_time": line["simulated_time"] + shift} for line in lines]
        self.seconds, self.at, self.code = self.seconds + seconds, self.at + updates, DIVERGED if diverged else 0
        shutil.rmtree(self.now, ignore_errors=True)
        if not diverged:
            os.rename(out, self.now)

    def search(self, updates, groups, momenta, rates, last, tie):
        """Returns the best (momentum, rate); None: all trials diverged."""
        scores = {}
        for rate in sorted(rates):
            for momentum in momenta:
                worse = any(score == NEVER and rate >= other[1] and momentum >= other[0]
                            for other, score in scores.items())
                beyond = last and (rate > last[1] or (rate == last[1] and momentum > last[0]) or
                                   (rate < last[1] and momentum < last[0]))
                if not worse and not beyond:
                    scores[momentum, rate] = self.trial(updates, groups, momentum, rate)[0]
        best = min(scores.values(), default=NEVER)
        equal = [setting for setting, score in scores.items() if score <= tie * best and score < NEVER]
        return max(equal, key=lambda setting: setting[::-1], default=None)

    def fewest_saturating(self, updates, most, momentum, rate):
        groups, before = 1, NEVER
        while True:
            seconds = self.trial(updates, groups, momentum, rate)[1]
            if seconds * FASTER > before:
                return groups // 2
            if 2 * groups > most:
                return groups
            groups, before = 2 * groups, seconds

    def compute(self, most, updates, cold, epoch, trial):
        last = self.search(trial, 1, (0.9,), RATES, None, 1.0) or (0.9, RATES[0])
        self.train(cold, 1, *last)
        groups = self.fewest_saturating(trial, most, *last)
        while self.at < updates and self.code == 0:
            while True:
                found = self.search(trial, groups, MOMENTA, (last[1], last[1] / 10), last, 1.01)
                if groups == 1 or (found and found[0] > 0):  # the authors' program goes on to half a group, and ends
                    break
                groups, last = groups // 2, (LATER, found[1] if found else last[1])
            last = found or (0.0, last[1] / 10)
            self.chosen.append((groups, *last))
            self.train(min(epoch, updates - self.at), groups, *last)
        result = summary(self.code, self.lines)
        return result | {"chosen": self.chosen, "trials": self.trials, "tests": result["tests"][-1:]}


def algorithm1(store, net, machine, most, updates, cold, epoch, trial, words):
    """Returns the key of the result, and the function that computes it."""
    key = ["algorithm 1", store.training(net, machine, *words)[0], most, updates, cold, epoch, trial]

    def compute(folder):
        whole = Algorithm1(lambda more, out: store.run(net, machine, more, out), folder, [str(word) for word in words])
        return whole.compute(most, updates, cold, epoch, trial)
    return str(key), compute
