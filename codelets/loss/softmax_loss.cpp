#include "codelets/loss/softmax_loss.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

Cost softmax_cost(const SoftmaxArgs& args) {
  const double count = static_cast<double>(args.n) * args.inputs;
  return {.flops = 20 * count, .bytes = 8 * count};  // the exponential is about 16 of them
}

Cost cross_entropy_cost(const CrossEntropyArgs& args) {
  const double count = static_cast<double>(args.n) * args.inputs;
  return {.flops = 20 * count, .bytes = (args.gradient ? 12 : 8) * count};
}

std::uint64_t cross_entropy_footprint(const CrossEntropyArgs& args) {
  return footprint_of(args.n, args.inputs, args.groups, args.smoothing > 0, args.gradient);
}

}  // namespace

Codelet<SoftmaxArgs> softmax_forward({
    .name = "softmax_forward",
    .color = 0xd62728,
    .implementations = {reference_implementation<reference::softmax_forward<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::softmax_forward)},
    .cost = softmax_cost,
    .footprint = footprint_by<&SoftmaxArgs::n, &SoftmaxArgs::inputs, &SoftmaxArgs::groups>,
});

Codelet<CrossEntropyArgs> cross_entropy({
    .name = "cross_entropy",
    .color = 0xd62728,
    .implementations = {reference_implementation<reference::cross_entropy<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::cross_entropy)},
    .cost = cross_entropy_cost,
    .footprint = cross_entropy_footprint,
});

void submit_cross_entropy(CrossEntropyArgs args, const Tensor& logits, const Tensor& probabilities,
                          const Tensor& labels, const Tensor& metrics, const Tensor* diff,
                          TaskTag tag) {
  args.gradient = diff != nullptr;
  cross_entropy.submit(
      args, {read(logits), read(probabilities), read(labels), write(metrics), if_any(write, diff)},
      tag);
}

}  // namespace omni
