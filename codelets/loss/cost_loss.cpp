#include "codelets/loss/cost_loss.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

Cost work(const CostLossArgs& args) {
  const double count = static_cast<double>(args.n) * args.inputs;
  return {.flops = 4 * count, .bytes = (args.gradient ? 8 : 4) * count};
}

}  // namespace

Codelet<CostLossArgs> cost_loss({
    .name = "cost_loss",
    .color = 0xd62728,
    .implementations = {reference_implementation<reference::cost_loss<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::cost_loss)},
    .cost = work,
    .footprint = footprint_by<&CostLossArgs::n, &CostLossArgs::inputs, &CostLossArgs::distance,
                              &CostLossArgs::gradient>,
});

void submit_cost_loss(CostLossArgs args, const Tensor& src, const Tensor& labels,
                      const Tensor& metrics, const Tensor* diff, TaskTag tag) {
  args.gradient = diff != nullptr;
  cost_loss.submit(args, {read(src), read(labels), write(metrics), if_any(write, diff)}, tag);
}

}  // namespace omni
