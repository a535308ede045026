#include "codelets/loss/cost_loss.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void cost_vector(const CostLossArgs& args, const Buffers& buffers, DeviceContext&) {
  judge_images(args.n, args.inputs, static_cast<const float*>(buffers.get(0)),
               buffers.get<std::int32_t>(1), buffers.get(2),
               args.gradient ? buffers.get(3) : nullptr,
               [&](LabelMetrics& sums, int label, const float* x, float* d) {
                 sums.count(label_rank(x, args.inputs, label));
                 with_distance(args.distance, [&](auto f) {
                   float sum = 0;
#pragma omp simd reduction(+ : sum)
                   for (int i = 0; i < args.inputs; ++i)
                     sum += f(x[i] - (i == label ? 1.0f : 0.0f));
                   sums.loss += static_cast<double>(args.scale * sum);
                   if (d == nullptr) return;
                   for (int i = 0; i < args.inputs; ++i) d[i] = args.scale * f.gradient(x[i]);
                   d[label] = args.scale * f.gradient(x[label] - 1);
                 });
               });
}

Cost work(const CostLossArgs& args) {
  const double count = static_cast<double>(args.n) * args.inputs;
  return {.flops = 4 * count, .bytes = (args.gradient ? 8 : 4) * count};
}

std::uint64_t footprint(const CostLossArgs& args) {
  return footprint_of(args.n, args.inputs, args.distance, args.gradient);
}

}  // namespace

Codelet<CostLossArgs> cost_loss({
    .name = "cost_loss",
    .color = 0xd62728,
    .implementations = {{"vector", cost_vector},
                        reference_implementation<reference::cost_loss<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::cost_loss)},
    .cost = work,
    .footprint = footprint,
});

void submit_cost_loss(CostLossArgs args, const Tensor& src, const Tensor& labels,
                      const Tensor& metrics, const Tensor* diff, TaskTag tag) {
  args.gradient = diff != nullptr;
  cost_loss.submit(args, {read(src), read(labels), write(metrics), if_any(write, diff)}, tag);
}

}  // namespace omni
