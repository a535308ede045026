// Hogbatch is the strategy in which every group adds its change to the shared model as soon as the
// change is complete. Groups of cores take small mini-batches, groups of GPUs large ones. Adaptive
// sizes balance the numbers of updates. The authors' program copies a GPU's whole model over the
// shared one. In this implementation no update is lost.
#pragma once

#include "scheduling/strategies/registry.hpp"

namespace omni {

// BatchRule is the rule by which the mini-batches of a kind of groups adapt; see Hogbatch::Kind.
struct BatchRule {
  double factor = 2;  // alpha
  double weight = 1;  // beta: the weight of an update of the groups with the smallest mini-batches

  // Returns the next mini-batch size. `own` is the number of updates of the kind; `least` and
  // `most` are the fewest and most updates of other kinds. A kind with fewer updates than all
  // others gets smaller mini-batches. One with more than all others gets larger ones. Sizes stay
  // within the bounds.
  std::uint64_t next(std::uint64_t batch, double own, double least, double most,
                     const GroupBatch& bounds, std::uint64_t unit) const;
};

class Hogbatch final : public Async {
 public:
  // `batches` has the sizes of each group. The learning rate of a mini-batch is the given rate
  // times (its size / the largest size) to the power `rate_power`.
  Hogbatch(ComputeGroups& groups, const SolverOptions& solver, bool in_order,
           std::vector<GroupBatch> batches, double rate_power, std::optional<BatchRule> rule);

  std::string name() const override { return rule_ ? "adaptive" : "hogbatch"; }
  bool in_order() const override { return one_after_another_; }
  std::uint64_t next_batch(int group) override;
  UpdateRule rule(const MiniBatch& batch, float learning_rate) const override;
  void end(const GroupUpdate& update) override;
  std::vector<StrategyFigure> figures(int group) const override;

 protected:
  std::vector<double> numbers() const override;
  void take(std::span<const double> numbers) override;

 private:
  // A Kind has the groups whose mini-batches have the same initial size and bounds. The paper calls
  // it a worker.
  struct Kind {
    GroupBatch bounds;
    std::uint64_t unit = 1;  // samples that the groups' nets compute at once
    std::uint64_t batch = 0;
    double updates = 0;
  };
  Kind& kind(int group) { return kinds_[kind_of_[group]]; }
  const Kind& kind(int group) const { return kinds_[kind_of_[group]]; }

  bool one_after_another_;
  double rate_power_, largest_ = 1;  // largest_: most samples that a mini-batch may have
  std::optional<BatchRule> rule_;
  std::vector<std::size_t> kind_of_;  // by group
  std::vector<Kind> kinds_;
};

}  // namespace omni
