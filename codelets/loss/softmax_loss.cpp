#include "codelets/loss/softmax_loss.hpp"

#include "codelets/definition.hpp"

namespace omni {
namespace {

Cost cross_entropy_cost(const CrossEntropyArgs& args) {
  return args.gradient ? cost_per_value<20, 12>(args) : cost_per_value<20, 8>(args);
}

std::uint64_t cross_entropy_footprint(const CrossEntropyArgs& args) {
  return footprint_of(args.n, args.inputs, args.groups, args.smoothing > 0, args.gradient);
}

}  // namespace

Codelet<SoftmaxArgs> softmax_forward({
    .name = "softmax_forward",
    .color = 0xd62728,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(softmax_forward)},
    .cost = cost_per_value<20, 8>,  // an exponential is about 16 operations
    .footprint = footprint_by<&SoftmaxArgs::n, &SoftmaxArgs::inputs, &SoftmaxArgs::groups>,
});

Codelet<CrossEntropyArgs> cross_entropy({
    .name = "cross_entropy",
    .color = 0xd62728,
    .implementations = {OMNI_PLAIN_IMPLEMENTATIONS(cross_entropy)},
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
