// search() finds the learning rate, the momentum and the number of compute groups by trials, after
// the optimizer of Omnivore (Hadjis et al.). One setting is the champion, at first the given one.
// Challengers are other settings, which train from the same parameters on the same images. A
// challenger becomes the champion if it is clearly better, and in some ties. A TrialRunner does the
// training, of which the search knows nothing.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/result.hpp"
#include "scheduling/pilots/tuning/comparison.hpp"
#include "scheduling/pilots/tuning/step_range.hpp"

namespace omni {

struct Setting {
  int groups = 1;
  double momentum = 0;  // total, of which asynchrony adds a part (groups/momentum.hpp)
  double learning_rate = 0;

  bool operator==(const Setting&) const = default;
};
std::string describe(const Setting& setting);
// Returns how far a gradient moves the parameters in all, as a multiple of the gradient. It is the
// same for all numbers of groups, as compensation keeps it (groups/momentum.hpp).
double step_of(const Setting& setting);
// Returns the setting with this step and the same momentum.
Setting with_step(Setting setting, double step);

// Sweeps have this momentum. It is low, so that the loss follows the step with little delay.
inline constexpr double kSweepMomentum = 0.5;

struct Trial {
  int number = 0;  // from 1, counted in this process
  Setting setting;
  std::uint64_t iterations = 0;  // with those of the cooldown, and what the probes cost
  double seconds = 0;
  TrialResult result{};
  bool chosen = false;
  std::string reason{};  // why it was chosen, or why not
};

class TrialRunner {
 public:
  virtual ~TrialRunner() = default;
  // Trains from the start of the search with momentum kSweepMomentum. The step is multiplied by
  // `factor` after every iteration. The sweep ends when the training diverges, or after `most`
  // iterations.
  virtual Result<StepSweep> sweep(double first_step, double factor, std::size_t most) = 0;
  virtual void swept(const StepSweep& /*sweep*/, const StepRange& /*range*/) {}
  // Trains a challenger from the start of the search for `iterations` iterations. If the last
  // challenger had the same setting, its trial continues up to that number. Errors other than
  // divergence end the search.
  virtual Result<TrialResult> challenge(const Setting& setting, std::uint64_t iterations) = 0;
  // Continues the champion's trial up to `iterations` iterations.
  virtual Result<TrialResult> defend(std::uint64_t iterations) = 0;
  virtual void promote() = 0;  // makes the last challenger the champion
  // True: the budget allows one more trial of `iterations` iterations.
  virtual bool can_afford(std::uint64_t iterations) const = 0;
  // Returns the seconds of an iteration with this number of groups. Only ratios are used.
  virtual double seconds_of(int /*groups*/) const { return 1; }
  // The search calls decided() with the reason why the last challenger was chosen, or not.
  virtual void decided(const std::string& reason) = 0;
};

// A step is near the failing one if it is larger than 1 / kEdge of it. In a trial such steps often
// seem better than they are in the long run.
inline constexpr double kEdge = 8;

struct SearchPlan {
  std::uint64_t length = 0;        // iterations of a trial at first
  bool cold = false;               // a sweep comes first, as the best step may be far away
  double chance = INFINITY;        // loss at chance; infinite: not known
  std::map<int, double> failed{};  // by groups: this and larger steps have failed before
  double failing_step = INFINITY;  // at which an earlier sweep diverged; infinite: not known
  // A smaller step must be better by this share of the loss. Early in a training the advantage of a
  // smaller step often does not last.
  double worth_smaller = kWorth;
  std::vector<int> more_groups{};  // numbers of groups that are worth a trial, the largest first
};

struct Found {
  Setting setting;                  // the champion's, if it learns
  TrialEnd end = TrialEnd::learns;  // of the champion
  bool learns = true;               // the champion's loss is clearly below chance
  std::vector<Setting> diverged{};  // settings whose trials diverged
  // A cold search sets `fails` to the step at which the sweep diverged. If it did not diverge,
  // `fails` is the step that would have followed the last one.
  std::optional<double> fails{};
};

// Returns ErrorKind::diverged when every trial diverges, although the rate is lowered.
Result<Found> search(const Setting& given, const SearchPlan& plan, TrialRunner& runner);

}  // namespace omni
