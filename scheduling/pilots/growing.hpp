// Finds the number of groups per device while training (Crossbow's tuner): adds one group to each
// device while that clearly raises the samples per second. What is known is in the checkpoint.
#pragma once

#include "scheduling/training/trainer.hpp"

namespace omni {

// The rule.
struct GroupGrowth {
  int most = 1;            // groups per device
  double threshold = 0.1;  // by which the throughput must grow
  int groups = 1;          // per device, now
  double best = 0;         // throughput with one group less
  bool settled = false;

  // Takes a measurement with the current number of groups, and decides the next number.
  void note(double samples_per_second);
};

class Growing : public Pilot {
 public:
  // The groups of the training are the largest possible number; `least` or more of them train.
  Growing(Workers workers, int least)
      : devices_(workers.gpus > 0 ? workers.gpus : workers.all),
        growth_{.groups = (least + devices_ - 1) / devices_} {}

  std::string_view name() const override { return "growing"; }
  std::uint64_t next_rest() const override { return next_; }
  Status begin(Trainer& training, std::span<const double> saved) override;
  Status rested(Trainer& training) override;
  std::vector<double> numbers() const override {
    return {static_cast<double>(devices_), growth_.best, growth_.settled ? 1.0 : 0.0};
  }

  // Updates of each group: for warm-up, and measured.
  static constexpr std::uint64_t kWarmUp = 10, kMeasured = 30;

 private:
  void try_next(Trainer& training);
  int in_all(Trainer& training) const {  // groups
    return std::min(growth_.groups * devices_, training.groups().most());
  }

  int devices_;
  GroupGrowth growth_;
  std::uint64_t next_ = UINT64_MAX;  // iteration behind which warming up, or measuring, ends
  struct Measurement {
    double begun;  // seconds of the training
    std::uint64_t samples;
  };
  std::optional<Measurement> measured_{};  // none: groups warm up
};

}  // namespace omni
