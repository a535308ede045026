#include "codelets/loss/logistic_loss.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

Cost logistic_cost(const LogisticLossArgs& args) {
  const double count = static_cast<double>(args.n) * args.inputs;
  // An exponential is about 16 operations; the gradient needs it once more.
  return {.flops = (args.gradient ? 40 : 20) * count, .bytes = (args.gradient ? 8 : 4) * count};
}

}  // namespace

Codelet<LogisticLossArgs> logistic_loss({
    .name = "logistic_loss",
    .color = 0xd62728,
    .implementations = {reference_implementation<reference::logistic_loss<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::logistic_loss)},
    .cost = logistic_cost,
    .footprint =
        footprint_by<&LogisticLossArgs::n, &LogisticLossArgs::inputs, &LogisticLossArgs::gradient>,
});

void submit_logistic_loss(LogisticLossArgs args, const Tensor& src, const Tensor& labels,
                          const Tensor& metrics, const Tensor* diff, TaskTag tag) {
  args.gradient = diff != nullptr;
  logistic_loss.submit(args, {read(src), read(labels), write(metrics), if_any(write, diff)}, tag);
}

}  // namespace omni
