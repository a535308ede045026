// Watches over a training: tells the user when a net cannot learn, has not learned for long, or
// forgets, and what to do. Losses are on the host anyway; when they give reason to, and after 1024,
// 2048, 4096 ... iterations, the net is inspected: from the results follows why it does not learn.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scheduling/pilots/health/inspection.hpp"
#include "scheduling/pilots/health/loss_level.hpp"
#include "scheduling/training/trainer.hpp"

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
  bool strict = false;         // a training that is sick ends
  std::uint64_t first = 200;   // iteration of the first inspection for a loss at chance
  std::uint64_t usual = 1024;  // iteration of the first routine inspection
  std::uint64_t stuck = 1000;  // losses at chance, and two epochs, after which a net is stuck
  // Likewise, and samples, and six epochs, after which the user is told.
  std::uint64_t early = 100, early_samples = 3200;
};

// The share of each class among the samples.
std::vector<double> class_shares(const Dataset& data, int classes);

class HealthCheck : public Pilot {
 public:
  explicit HealthCheck(HealthOptions options) : options_(options) {}

  std::string_view name() const override { return "health"; }
  Status begin(Trainer& training, std::span<const double> saved) override;
  Advice judge(const StepReport& report) override;
  Status rested(Trainer& training) override;
  Status end(Trainer& training) override;  // a strict training that is sick has failed
  std::vector<double> numbers() const override;

  const std::optional<Finding>& failure() const { return failure_; }
  int inspections() const { return inspections_; }

 private:
  Status take(std::span<const double> saved);
  Status inspect_now(Trainer& training);
  Learning learning() const;
  // Where there is one class, the best loss is 0, and a net comes near it.
  bool is_at_chance() const { return !one_class_ && level_->at_chance() > 0; }
  LossIs loss() const;
  // For how long the loss has been at chance.
  enum Stuck { not_long, told_early, surely };
  Stuck stuck() const;
  bool is_risen() const { return level_->risen() >= kRisen; }
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
  Trainer* training_ = nullptr;  // once it has begun
  SolverOptions solver_;
  std::uint64_t epoch_ = 1;  // mini-batches
  std::optional<LossLevel> level_;
  std::uint64_t stuck_ = 0, early_ = 0;      // losses
  std::uint64_t next_ = 0, next_usual_ = 0;  // iteration of the next inspection
  Stuck seen_stuck_ = not_long;              // at the last inspection
  std::optional<Finding> one_class_, current_, failure_;
  std::map<Ailment, int> told_;  // the layer
  bool inspects_ = false;        // when groups rest
  int inspections_ = 0;
  float most_rate_ = 0;
  std::uint64_t batch_ = 1, idle_ = 0;  // samples: of a mini-batch; at a rate of 0, of late
  StepReport last_;
};

}  // namespace omni
