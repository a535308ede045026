#include "scheduling/optimizer/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "scheduling/groups/momentum.hpp"

namespace omni {
namespace {

constexpr double kRateStep = 10;
// A larger step is preferred while the losses are this close, for every doubling: short trials
// flatter small steps, and the more so the smaller they are. Chance makes losses close, too, but
// not in the cold start, when they fall fast.
constexpr double kBuffer = 0.03, kStandardErrors = 2;
// In the cold start a rate above the net's own is taken for better only when it brings at least so
// much of what the tenfold rate brought last (in factors of the loss): in a few iterations too
// large a rate may get further, too, only not for long.
constexpr double kStillBrings = 0.5;
constexpr double kMomenta[] = {0, 0.3, 0.6, 0.9};
constexpr double kMomentumAfterHalving = 0.6;
constexpr int kMostCuts = 6;  // of the rate, while every trial diverges

enum class Phase { cold, steady };

// Of the mean difference between losses of the same images.
double standard_error(const std::vector<double>& one, const std::vector<double>& other) {
  const std::size_t count = std::min(one.size(), other.size());
  if (count < 2) return 0;
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double difference = one[i] - other[i];
    sum += difference;
    squares += difference * difference;
  }
  const auto n = static_cast<double>(count);
  return std::sqrt(std::max(0.0, (squares - sum * sum / n) / (n - 1) / n));
}

// Trials with one number of groups, and the best of them.
class Grid {
 public:
  Grid(int groups, Phase phase, const TrialRunner& runner, std::vector<Trial>& trials)
      : groups_(groups), phase_(phase), runner_(runner), trials_(trials), first_(trials.size()) {}

  // From the last setting on towards smaller steps, the rate first: it makes the most difference,
  // and there may not be enough budget for everything. More of both is what training has outgrown,
  // less of both would only be slow.
  Status search(const std::vector<double>& momenta, double last_momentum, double last_rate) {
    const auto last = std::ranges::lower_bound(momenta, last_momentum);
    const double lower_rate = last_rate / kRateStep;
    OMNI_CHECK(visit(*last, last_rate));
    OMNI_CHECK(visit(*last, lower_rate));
    OMNI_CHECK(descend({momenta.begin(), last}, last_rate, first_));
    OMNI_CHECK(descend({last + 1, momenta.end()}, lower_rate, {}));
    double rate = lower_rate;
    for (int cut = 0; !best_ && cut < kMostCuts; ++cut) {
      rate /= kRateStep;
      for (const double momentum : momenta) OMNI_CHECK(visit(momentum, rate));
    }
    return best_ ? extend() : Status();
  }

  std::optional<std::size_t> best() const { return best_; }

  // Says of every trial why it is (not) the choice.
  void explain(bool chosen) {
    if (!best_) chosen = false;
    for (std::size_t i = first_; i < trials_.size(); ++i) {
      Trial& trial = trials_[i];
      if (!trial.score)
        trial.reason = "diverged";
      else if (i != *best_)
        trial.reason = *trial.score >= *trials_[*best_].score ? "a higher loss"
                       : step_of(trial.setting) < step_of(trials_[*best_].setting)
                           ? "hardly lower, with a smaller step"
                           : "hardly lower, with a larger step";
      else if (!chosen)
        trial.reason = "asynchrony alone gives more momentum: too many groups";
      else if (*trial.score <= *lowest().score)
        trial.reason = "the lowest loss";
      else
        trial.reason = step_of(lowest().setting) < step_of(trial.setting)
                           ? "hardly above the lowest loss, with a larger step"
                           : "above the lowest loss, with a rate that is safer";
    }
    if (chosen) trials_[*best_].chosen = true;
  }

 private:
  std::span<const Trial> mine() const { return std::span(trials_).subspan(first_); }

  const Trial& lowest() const {
    return *std::ranges::min_element(
        mine(), {}, [](const Trial& trial) { return trial.score.value_or(INFINITY); });
  }

  // How much lower the loss of one of them must be before it outweighs the other's larger step.
  double margin(const Trial& one, const Trial& other) const {
    if (phase_ == Phase::cold) return 0;
    const double doublings = std::log2(step_of(other.setting) / step_of(one.setting));
    return std::max(kBuffer * std::max(1.0, doublings) * std::min(*one.score, *other.score),
                    kStandardErrors * standard_error(one.losses, other.losses));
  }
  bool clearly_lower(const Trial& trial, const Trial& than) const {
    return *trial.score + margin(trial, than) < *than.score;
  }

  bool needless(double momentum, double rate) const {
    return (best_ && !runner_.can_afford_more()) || is_refused(runner_.refused, groups_, rate) ||
           std::ranges::any_of(mine(), [&](const Trial& trial) {
             return !trial.score && trial.setting.momentum <= momentum &&
                    trial.setting.learning_rate <= rate;
           });
  }

  // Momenta from the largest down, for as long as less of it is better than the one before.
  Status descend(std::span<const double> momenta, double rate, std::optional<std::size_t> before) {
    for (std::size_t left = momenta.size(); left > 0; --left) {
      const std::size_t next = trials_.size();
      OMNI_CHECK(visit(momenta[left - 1], rate));
      if (trials_.size() == next) return {};
      if (before && trials_[next].score && trials_[*before].score &&
          !clearly_lower(trials_[next], trials_[*before]))
        return {};
      before = next;
    }
    return {};
  }

  // `beyond` the grid a larger step has to be better, not just as good: where nothing is learnt,
  // every rate is as good as the others.
  bool is_better(const Trial& trial, bool beyond) const {
    if (!trial.score) return false;
    if (!best_) return true;
    const Trial& best = trials_[*best_];
    const bool larger = trial.setting.learning_rate != best.setting.learning_rate
                            ? trial.setting.learning_rate > best.setting.learning_rate
                            : trial.setting.momentum > best.setting.momentum;
    if (larger && !beyond) return !clearly_lower(lowest(), trial);
    return clearly_lower(trial, best) && !(larger && phase_ == Phase::cold && brings_little(trial));
  }

  // Compared with what the best rate brought over the next smaller one.
  bool brings_little(const Trial& trial) const {
    const Trial& best = trials_[*best_];
    const Trial* smaller = nullptr;
    for (const Trial& each : mine())
      if (each.score && each.setting.learning_rate < best.setting.learning_rate &&
          (!smaller || each.setting.learning_rate > smaller->setting.learning_rate))
        smaller = &each;
    return smaller && std::log(*best.score / *trial.score) <
                          kStillBrings * std::log(*smaller->score / *best.score);
  }

  Status visit(double momentum, double rate, bool beyond = false) {
    if (needless(momentum, rate)) return {};
    OMNI_TRY(Trial trial, runner_.run({groups_, momentum, rate}));
    const bool better = is_better(trial, beyond);
    trials_.push_back(std::move(trial));
    if (better) {
      best_ = trials_.size() - 1;
      runner_.keep();
    }
    return {};
  }

  // The best of a grid may lie on its boundary: then the best of all lies beyond.
  Status extend() {
    for (const double factor : {1 / kRateStep, kRateStep}) {
      std::optional<std::size_t> before;
      while (before != best_ && on_boundary(factor > 1)) {
        before = best_;
        const Setting best = trials_[*best_].setting;
        OMNI_CHECK(visit(best.momentum, best.learning_rate * factor, true));
      }
    }
    return {};
  }

  bool on_boundary(bool upper) const {
    const Setting& best = trials_[*best_].setting;
    return std::ranges::none_of(mine(), [&](const Trial& trial) {
      const Setting& other = trial.setting;
      if (!upper) return other.learning_rate < best.learning_rate;
      // With a larger momentum steps would have been larger, too.
      return other.learning_rate > best.learning_rate ||
             (other.learning_rate == best.learning_rate && other.momentum > best.momentum);
    });
  }

  int groups_;
  Phase phase_;
  const TrialRunner& runner_;
  std::vector<Trial>& trials_;
  std::size_t first_;  // trial of this grid
  std::optional<std::size_t> best_;
};

bool leaves_room(const Setting& setting) {
  return setting.groups == 1 ||
         compensate(setting.momentum, implicit_of_groups(setting.groups)).explicit_part > 0;
}

// Where compensation ends, less momentum is the same: what there is then stands for all of it.
std::vector<double> momenta_around(const Setting& setting) {
  std::vector<double> momenta(std::begin(kMomenta), std::end(kMomenta));
  momenta.push_back(setting.momentum);
  for (double& momentum : momenta) {
    const Momentum given = compensate(momentum, implicit_of_groups(setting.groups));
    if (!is_kept(given)) momentum = given.total();
  }
  std::ranges::sort(momenta);
  momenta.erase(std::unique(momenta.begin(), momenta.end()), momenta.end());
  return momenta;
}

Error all_diverged(const std::vector<Trial>& trials) {
  const auto lowest = std::ranges::min_element(
      trials, {}, [](const Trial& trial) { return trial.setting.learning_rate; });
  return {ErrorKind::diverged, "--auto",
          fmt::format("all {} trials diverged, down to the learning rate {:.3g}", trials.size(),
                      lowest->setting.learning_rate),
          "check the data, or lower --learning-rate, or add --burn-in"};
}

}  // namespace

std::string describe(const Setting& setting) {
  return fmt::format("{} group{}, momentum {:.3g}, rate {:.3g}", setting.groups,
                     setting.groups == 1 ? "" : "s", setting.momentum, setting.learning_rate);
}

double step_of(const Setting& setting) { return setting.learning_rate / (1 - setting.momentum); }

Result<Setting> search_rate(const Setting& start, const TrialRunner& runner,
                            std::vector<Trial>& trials) {
  Grid grid(start.groups, Phase::cold, runner, trials);
  OMNI_CHECK(grid.search({start.momentum}, start.momentum, start.learning_rate));
  grid.explain(true);
  if (!grid.best()) return all_diverged(trials);
  return trials[*grid.best()].setting;
}

Result<Setting> search_setting(const Setting& last, const TrialRunner& runner,
                               std::vector<Trial>& trials) {
  Setting around = last;
  around.groups = groups_with_room(around.groups, around.momentum);
  std::optional<std::size_t> best;
  while (true) {
    Grid grid(around.groups, Phase::steady, runner, trials);
    OMNI_CHECK(grid.search(momenta_around(around), around.momentum, around.learning_rate));
    const bool settled = grid.best() && leaves_room(trials[*grid.best()].setting);
    grid.explain(settled);
    if (grid.best()) best = grid.best();
    if (settled) return trials[*best].setting;
    if (around.groups == 1) break;
    if (grid.best() && !runner.can_afford_more()) {
      trials[*best].reason = "the best, and no trials were left for fewer groups";
      trials[*best].chosen = true;
      return trials[*best].setting;
    }
    around.groups /= 2;
    around.momentum = kMomentumAfterHalving;
    if (grid.best()) {
      around.momentum = std::max(around.momentum, trials[*best].setting.momentum);
      around.learning_rate = trials[*best].setting.learning_rate;
    }
  }
  if (!best) return all_diverged(trials);
  trials[*best].chosen = true;
  trials[*best].reason = "all trials with fewer groups diverged";
  return trials[*best].setting;
}

int groups_with_room(int most, double last_momentum) {
  const double highest = std::max(last_momentum, *std::ranges::max_element(kMomenta));
  while (most > 1 && !leaves_room({most, highest, 0})) most /= 2;
  return most;
}

Result<Saturation> smallest_saturating(int most,
                                       const std::function<Result<double>(int)>& seconds) {
  Saturation saturation;
  OMNI_TRY(double best, seconds(1));
  saturation.timings.push_back({1, best});
  while (saturation.groups < most) {
    const int groups = std::min(2 * saturation.groups, most);
    OMNI_TRY(const double time, seconds(groups));
    saturation.timings.push_back({groups, time});
    if (time > best / kWorthMoreGroups) break;
    saturation.groups = groups;
    best = time;
  }
  return saturation;
}

}  // namespace omni
