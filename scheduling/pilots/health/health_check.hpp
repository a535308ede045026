// HealthCheck warns the user when a net cannot learn, has not learned for long, or forgets, and
// says what to do. It inspects the net when the losses are suspicious, and after 1024, 2048, 4096
// ... iterations (on GPUs from 4096 on). The inspection shows why the net does not learn.
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

enum class FindingKind {
  one_class,    // all training samples have the same label
  same_data,    // all samples are the same
  small_steps,  // the learning rate is too low
  same_output,  // a layer has the same output for all samples
  no_gradient,  // a layer's gradient is zero or too small
  at_chance,    // the loss stays that of a net that has learned nothing about samples
  risen         // the loss has risen and stays high
};

struct Finding {
  FindingKind kind;
  int layer = -1;     // its index; -1: the finding is not about one layer
  bool sure = false;  // the net cannot learn any more
  std::string where{}, what{}, remedy{};

  Error error() const { return {ErrorKind::diverged, where, what, remedy}; }
};

// Learning has the settings that determine how far the solver moves the parameters for a gradient.
struct Learning {
  double rate = 0, momentum = 0;
  bool adam = false;
  double epsilon = 0;                // of Adam
  std::uint64_t iterations = 10000;  // in which a layer should change
};

// LossIs classifies the loss by its height.
enum class LossIs {
  at_chance,  // at the level of chance, or risen to where little is left of what was learned
  lower,      // below chance
  low         // so low that small gradients are normal, or chance is not known
};

// Returns the first reason found why the net does not learn, if there is one.
std::optional<Finding> diagnose(const Inspection& inspection, const Learning& learning,
                                LossIs loss);

// Inspects the net and returns the layer that gives the same output for all samples, if there is
// one. No task may be under way.
Result<std::optional<Finding>> find_dead_layer(Trainer& training);

struct HealthOptions {
  bool strict = false;  // a training that does not learn ends with an error
  // `first` is the iteration of the first inspection for a loss at chance. `usual` is that of the
  // first routine inspection. On GPUs both come later (kLaterOnGpus).
  std::uint64_t first = 200;
  std::uint64_t usual = 1024;
  // A net is stuck after `stuck` losses at chance, and at least two epochs.
  std::uint64_t stuck = 1000;
  // The user is warned after `early` losses at chance and `early_samples` samples, and at least six
  // epochs.
  std::uint64_t early = 100, early_samples = 3200;
};

// Returns the share of each class among the samples whose labels the net's loss counts. Of a large
// data set only some are read.
std::vector<double> class_shares(const Dataset& data, const Net& net);

// Returns the loss at chance: the lowest loss of a net with the same output for every sample. If
// all data have one class it is 0, so log(classes) stands for it. It is infinite for kinds of loss
// for which it is not known.
double loss_at_chance(const Net& net, const Dataset& data);

class HealthCheck : public Pilot {
 public:
  explicit HealthCheck(HealthOptions options) : options_(options) {}

  std::string_view name() const override { return "health"; }
  Status begin(Trainer& training, std::span<const double> saved) override;
  Advice judge(const StepReport& report) override;
  Status rested(Trainer& training) override;
  Status end(Trainer& training) override;  // an error: a strict training that does not learn
  std::vector<double> numbers() const override;

  const std::optional<Finding>& failure() const { return failure_; }
  int inspections() const { return inspections_; }

 private:
  Status take(std::span<const double> saved);
  Status inspect_now();
  Learning learning() const;
  // With only one class the loss at chance is 0, so a net near it is not reported.
  bool is_at_chance() const { return !one_class_ && level_->at_chance() > 0; }
  LossIs loss() const;
  // Stuck tells for how long the loss has been at chance.
  enum Stuck {
    not_long,
    long_enough_to_warn,  // see HealthOptions::early
    surely                // see HealthOptions::stuck
  };
  Stuck stuck() const;
  bool is_risen() const { return level_->risen() >= kRisen; }
  // Returns true if the learning rate is 0 for long, and not only in the last updates, as with
  // policy=poly.
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
  Trainer* training_ = nullptr;  // null: before begin()
  SolverOptions solver_;
  std::uint64_t epoch_ = 1;  // mini-batches
  std::optional<LossLevel> level_;
  // These are numbers of losses at chance after which the net is stuck, or the user is warned.
  std::uint64_t stuck_ = 0, early_ = 0;
  // `next_` is the iteration of the next inspection for a loss at chance. `next_usual_` is that of
  // the next routine inspection.
  std::uint64_t next_ = 0, next_usual_ = 0;
  Stuck seen_stuck_ = not_long;  // the least since and at the last inspection
  std::optional<Finding> one_class_, current_, failure_;
  std::map<FindingKind, int> warned_;  // the layer of each finding that the user was warned of
  bool inspects_ = false;              // the net is inspected as soon as groups rest
  bool had_finding_ = false;           // current_ was set before a resume; end() inspects again
  int inspections_ = 0;
  float most_rate_ = 0;      // the highest learning rate so far
  std::uint64_t batch_ = 1;  // samples of a mini-batch
  std::uint64_t idle_ = 0;   // samples since the learning rate became 0
  StepReport last_;
};

}  // namespace omni
