#include "codelets/loss/cost_loss.hpp"

#include "codelets/definition.hpp"

namespace omni {
namespace {

Cost work(const CostLossArgs& args) {
  return args.gradient ? cost_per_value<4, 8>(args) : cost_per_value<4, 4>(args);
}

}  // namespace

Codelet<CostLossArgs> cost_loss({
    .name = "cost_loss",
    .color = 0xd62728,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(cost_loss)},
    .cost = work,
    .footprint = footprint_by<&CostLossArgs::n, &CostLossArgs::inputs, &CostLossArgs::distance,
                              &CostLossArgs::gradient>,
});

}  // namespace omni
