// Watches over a training: tells the user when a net cannot learn, has not learned for long, or
// forgets, and what to do. Losses are on the host anyway; when they give reason to, and after 1024,
// 2048, 4096 ... iterations, the net is inspected: from the results follows why it does not learn.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/result.hpp"
#include "scheduling/pilots/health/inspection.hpp"
#include "scheduling/pilots/health/loss_level.hpp"
#include "scheduling/training/step_report.hpp"

namespace omni {

enum class Ailment {
  one_class,
  same_data,
  small_steps,
  same_output,
  no_gradient,
  at_chance,
  risen
};

struct Finding {
  Ailment kind;
  int layer = -1;     // -1: not of one layer
  bool sure = false;  // the net cannot learn any more
  std::string where{}, what{}, remedy{};

  Error error() const { return {ErrorKind::diverged, where, what, remedy}; }
};

// How the parameters follow the gradient.
struct Learning {
  double rate = 0, momentum = 0;
  bool adam = false;
  double epsilon = 0;                // of Adam
  std::uint64_t iterations = 10000;  // that count
};

// State of the training: at chance or risen; below chance; or so low that small gradients are
// normal.
enum class LossIs { at_chance, lower, low };

// The first cause found.
std::optional<Finding> diagnose(const Inspection& inspection, const Learning& learning,
                                LossIs loss);

struct HealthOptions {
  SolverOptions solver{};      // of the training
  bool strict = false;         // a training that is sick ends
  std::uint64_t first = 200;   // iteration of the first inspection for a loss at chance
  std::uint64_t usual = 1024;  // iteration of the first routine inspection
  std::uint64_t stuck = 1000;  // losses at chance, and two epochs, after which a net is stuck
  // Likewise, and samples, and six epochs, after which the user is told.
  std::uint64_t early = 100, early_samples = 3200;
  std::function<void(const std::string&)> warn;
};

// The share of each class among the samples.
std::vector<double> class_shares(const Dataset& data, int classes);

class HealthCheck {
 public:
  // `data`: that train.
  HealthCheck(const Net& net, const Dataset& data, HealthOptions options);

  // Call for every update. True: inspect the net when no task is under way.
  bool note(const StepReport& report);
  Status inspect(Net& net, DataFeed& feed, std::uint64_t seed, std::uint64_t first_sample);
  void end();  // nothing more is trained
  // The error with which a strict training ends.
  const std::optional<Finding>& failure() const { return failure_; }

  int inspections() const { return inspections_; }

  // For checkpoints; invalid lists are ignored.
  std::vector<double> numbers() const;
  void take(std::span<const double> numbers);

 private:
  Learning learning() const;
  // Where there is one class, the best loss is 0, and a net comes near it.
  bool is_at_chance() const { return !one_class_ && level_.at_chance() > 0; }
  LossIs loss() const;
  // For how long the loss has been at chance.
  enum Stuck { not_long, told_early, surely };
  Stuck stuck() const;
  bool is_risen() const { return level_.risen() >= kRisen; }
  // The rate is 0, and not only for the last updates, as with policy=poly.
  bool is_idle() const { return idle_ >= kIdle * batch_; }
  Finding idle() const;
  Finding at_chance() const;
  Finding risen() const;
  void tell(const Finding& finding);
  void fail(const Finding& finding) {
    if (options_.strict && !failure_) failure_ = finding;
  }

  static constexpr std::uint64_t kRisen = 256, kRisenSurely = 1024;  // losses
  static constexpr std::uint64_t kIdle = 8;                          // mini-batches

  HealthOptions options_;
  SolverOptions solver_;
  std::uint64_t epoch_;  // mini-batches
  LossLevel level_;
  std::uint64_t stuck_, early_;      // losses
  std::uint64_t next_, next_usual_;  // iteration of the next inspection
  Stuck seen_stuck_ = not_long;      // at the last inspection
  std::optional<Finding> one_class_, current_, failure_;
  std::map<Ailment, int> told_;  // the layer
  int inspections_ = 0;
  float most_rate_ = 0;
  std::uint64_t batch_, idle_ = 0;  // samples: of a mini-batch; at a rate of 0, of late
  StepReport last_;
};

}  // namespace omni
