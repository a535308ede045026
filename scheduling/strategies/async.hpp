// Async is the strategy in which groups apply their gradients to one shared model, as soon as these
// are complete or in a fixed order. With one group it is plain synchronous training.
#pragma once

#include <deque>
#include <optional>

#include "scheduling/strategies/strategy.hpp"

namespace omni {

// Asynchrony is the order in which several groups update the master copies of the parameters.
enum class Asynchrony {
  reproducible,  // in a fixed order; in turn, each gradient is exactly groups - 1 updates old
  free,          // as gradients arrive
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
  // Returns an age for each group: the updates that other groups made to the first replicated
  // parameter since the group read it.
  std::vector<double> numbers() const override;
  void take(std::span<const double> ages) override;

 private:
  bool in_order_;
  Momentum momentum_;
  std::optional<std::size_t> watched_;         // see ComputeGroups::watched()
  std::deque<UpdateCount> versions_;           // by parameter
  std::vector<std::deque<SeenVersion>> seen_;  // by group and parameter
};

// Makes the strategy with the solver's momentum, which Compensation::theory lowers for several
// groups.
MakeStrategy async(Asynchrony asynchrony = Asynchrony::free,
                   Compensation compensation = Compensation::off);

}  // namespace omni
