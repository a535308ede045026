// Growing finds the number of groups per device while training, as Crossbow's tuner does. It adds
// one group to each device as long as that clearly raises the samples per second.
#pragma once

#include "scheduling/training/trainer.hpp"

namespace omni {

// GroupGrowth is the rule by which Growing changes the number of groups.
struct GroupGrowth {
  int most = 1;            // largest number of groups per device
  double threshold = 0.1;  // share by which the throughput must grow
  int groups = 1;          // current number per device
  double best = 0;         // samples per second with one group less; 0: not measured
  bool settled = false;    // the number does not change any more

  // Takes the samples per second with the current number of groups, and decides the next number.
  void note(double samples_per_second);
};

class Growing : public Pilot {
 public:
  // The ComputeGroups of the training have the largest number of groups that may be used. At least
  // `least` of them train.
  Growing(Workers workers, int least)
      : devices_(workers.gpus > 0 ? workers.gpus : workers.all), least_(least) {}

  std::string_view name() const override { return "growing"; }
  std::uint64_t next_rest() const override { return next_; }
  Status begin(Trainer& training, std::span<const double> saved) override;
  Status rested(Trainer& training) override;
  std::vector<double> numbers() const override {
    return {static_cast<double>(devices_), growth_.best, growth_.settled ? 1.0 : 0.0};
  }

  // The groups make kWarmUp updates each before a measurement, and kMeasured during it, on average.
  static constexpr std::uint64_t kWarmUp = 10, kMeasured = 30;

 private:
  void try_next(Trainer& training);
  int in_all(Trainer& training) const {  // groups on all devices together
    return std::min(growth_.groups * devices_, training.groups().most());
  }

  int devices_;  // of all ranks, each of which counts as having as many as the one with the fewest
  int least_;
  GroupGrowth growth_;
  std::uint64_t next_ = UINT64_MAX;  // iteration in which the warm-up or the measurement ends
  struct Measurement {
    double begun;           // seconds of the training at the beginning
    std::uint64_t samples;  // samples of the training at the beginning
  };
  std::optional<Measurement> measured_{};  // none: the groups still warm up
};

}  // namespace omni
