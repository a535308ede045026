#include "codelets/loss/logistic_loss.hpp"

#include "codelets/definition.hpp"

namespace omni {
namespace {

Cost logistic_cost(const LogisticLossArgs& args) {
  // An exponential is about 16 operations; the gradient needs it once more.
  return args.gradient ? cost_per_value<40, 8>(args) : cost_per_value<20, 4>(args);
}

}  // namespace

Codelet<LogisticLossArgs> logistic_loss({
    .name = "logistic_loss",
    .color = 0xd62728,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(logistic_loss)},
    .cost = logistic_cost,
    .footprint =
        footprint_by<&LogisticLossArgs::n, &LogisticLossArgs::inputs, &LogisticLossArgs::gradient>,
});

}  // namespace omni
