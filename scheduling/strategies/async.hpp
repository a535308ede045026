// Asynchronous groups: each applies its gradient to the shared model as soon as it is complete. One
// group is plain synchronous training.
#pragma once

#include <deque>
#include <optional>

#include "scheduling/strategies/strategy.hpp"

namespace omni {

// How several groups share the master copies.
enum class Asynchrony {
  reproducible,  // in order: with turns, every gradient is exactly groups - 1 updates old
  free,          // as they arrive
};

class Async : public Strategy {
 public:
  Async(ComputeGroups& groups, const SolverOptions& solver, Asynchrony asynchrony,
        Momentum momentum);

  std::string name() const override { return "async"; }
  bool in_order() const override { return in_order_; }
  UpdateRule rule(const MiniBatch&, float learning_rate) const override {
    return {learning_rate, momentum_};
  }
  void begin(const GroupUpdate& update) override;
  ExchangeArgs step(const GroupUpdate& update, std::size_t param) override;

 protected:
  // Ages: updates of the first replicated parameter by others since each group read it.
  std::vector<double> numbers() const override;
  void take(std::span<const double> ages) override;

 private:
  bool in_order_;
  Momentum momentum_;
  std::optional<std::size_t> watched_;         // see ComputeGroups::watched()
  std::deque<UpdateCount> versions_;           // by parameter
  std::vector<std::deque<SeenVersion>> seen_;  // by group and parameter
};

// The momentum is the solver's, compensated for the groups' asynchrony.
MakeStrategy async(Asynchrony asynchrony = Asynchrony::free,
                   Compensation compensation = Compensation::off);

}  // namespace omni
