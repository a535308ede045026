// Finds the number of compute groups, the momentum and the learning rate of a training by short
// trials (the optimizer of Omnivore, Hadjis et al., algorithm 1). Knows nothing of how a trial
// trains.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/result.hpp"
#include "scheduling/optimizer/refused_rate.hpp"

namespace omni {

struct Setting {
  int groups = 1;
  double momentum = 0;  // in total: asynchrony gives some of it (groups/momentum.hpp)
  double learning_rate = 0;
};
std::string describe(const Setting& setting);
// What a gradient moves the parameters by in the long run, as a rate without momentum.
double step_of(const Setting& setting);

struct Trial {
  int number = 0;  // from 1, in this start of the program
  Setting setting;
  std::uint64_t iterations = 0;  // done
  double seconds = 0;
  std::vector<double> losses;   // that are compared, of the same images in every trial
  std::optional<double> score;  // their mean; none: it diverged
  bool chosen = false;
  std::string reason;  // why it was chosen, or why not
};

struct TrialRunner {
  // Every trial trains from the same starting point, on the same data. Errors other than divergence
  // end the search.
  std::function<Result<Trial>(const Setting&)> run;
  // What the last trial has trained is the best so far.
  std::function<void()> keep;
  // Asked before every trial but those without which there would be no choice.
  std::function<bool()> can_afford_more;
  // By earlier searches. A training outgrows rates, it never grows into them.
  std::vector<RefusedRate> refused{};
};

// What the searches have in common: `trials` gets every trial in order, also when the search fails;
// the one that is chosen is the last that was kept. When all trials diverge, the rate is lowered
// until one does not; ErrorKind::diverged if that is in vain.

// Cold start: the learning rate for the momentum and the groups of `start`.
Result<Setting> search_rate(const Setting& start, const TrialRunner& runner,
                            std::vector<Trial>& trials);

// Momentum and rate around `last`. When asynchrony alone gives more than the best momentum: then
// with half the groups.
Result<Setting> search_setting(const Setting& last, const TrialRunner& runner,
                               std::vector<Trial>& trials);

// With more groups asynchrony alone would give more momentum than any that is tried: halved until
// it does not.
int groups_with_room(int most, double last_momentum);

// The next number of groups must be that much faster to be worth its staleness.
inline constexpr double kWorthMoreGroups = 1.1;

// The number of groups beyond which an iteration takes hardly less time.
struct Saturation {
  struct Timing {
    int groups;
    double seconds;  // per iteration
  };
  int groups = 1;
  std::vector<Timing> timings;  // ascending; beyond the first that is not worth it, none
};
Result<Saturation> smallest_saturating(int most, const std::function<Result<double>(int)>& seconds);

}  // namespace omni
