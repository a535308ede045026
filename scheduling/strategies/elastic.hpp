// Elastic is the strategy that averages models after each mega-batch, a fixed number of samples.
// Groups with models of their own take mini-batches when they are free, until the mega-batch is
// used up. Then the models are averaged, weighted by their numbers of updates. Mini-batches become
// larger for fast groups and smaller for slow ones. Momentum is applied once: by the models, or by
// the average if it has momentum.
#pragma once

#include "scheduling/strategies/registry.hpp"

namespace omni {

struct ElasticOptions {
  std::uint64_t mega_batch = 0;  // samples
  double momentum = 0;           // of the average
};

// Returns the weight of each group's model in the average. It is proportional to the group's
// updates, or to its mini-batch size if all have the same number of updates. The weights add up to
// 1.
std::vector<double> merge_weights(std::span<const double> updates, std::span<const double> batches);
// BatchScaling is the rule by which the sizes of mini-batches change. A size grows by `step`
// samples for every update that a group is ahead of the mean, and shrinks for those behind. It
// changes by multiples of `unit`, the number of samples that a net computes at once.
struct BatchScaling {
  double least = 1, most = 1, step = 1, unit = 1;
  double next(double batch, double updates_ahead) const;
};

class Elastic final : public Strategy {
 public:
  Elastic(ComputeGroups& groups, const SolverOptions& solver, bool in_order,
          ElasticOptions options);

  std::string name() const override { return "elastic"; }
  bool in_order() const override { return one_after_another_; }
  std::uint64_t next_batch(int group) override {
    return static_cast<std::uint64_t>(members_[group].batch);
  }
  Sends sends(int) const override { return Sends::nothing; }  // models are only sent at rest
  UpdateRule rule(const MiniBatch& batch, float learning_rate) const override;
  ExchangeArgs step(const GroupUpdate& update, std::size_t param) override;
  ExchangeTensors stepped(const GroupUpdate& update, std::size_t param) override;
  void end(const GroupUpdate& update) override;
  std::uint64_t next_rest(std::uint64_t samples) const override {
    return (samples / options_.mega_batch + 1) * options_.mega_batch;
  }
  void meet_at_rest() override;
  bool conclude() override;
  std::vector<StrategyFigure> figures(int) const override { return {{"meetings", meetings_}}; }

 protected:
  std::vector<double> numbers() const override;
  void take(std::span<const double> numbers) override;

 private:
  struct Member {
    double batch = 0;    // samples
    double updates = 0;  // since the last meeting
    double steps = 0;    // in all
  };
  bool one_after_another_;
  ElasticOptions options_;
  BatchScaling scaling_;
  std::vector<Member> members_;  // by group
  double meetings_ = 0;
};

}  // namespace omni
