#include "codelets/loss/sse_loss.hpp"

namespace omni {
namespace {

void sse_vector(const SseLossArgs& args, const Buffers& buffers, DeviceContext&) {
  const float* x = buffers.get(0);
  const auto* labels = buffers.get<std::int32_t>(1);
  float* d = args.gradient ? buffers.get(3) : nullptr;
  LabelMetrics sums;
  for (int image = 0; image < args.n; ++image, x += args.inputs) {
    if (labels[image] == kNoLabel) {
      if (d != nullptr) d = std::fill_n(d, args.inputs, 0.0f);
      continue;
    }
    const int label = checked_label(labels[image], args.inputs, image);
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int i = 0; i < args.inputs; ++i) {
      const float error = x[i] - (i == label ? 1.0f : 0.0f);
      squares += error * error;
    }
    sums.loss += static_cast<double>(args.scale * squares) / 2;
    sums.count(label_rank(x, args.inputs, label));
    if (d == nullptr) continue;
    for (int i = 0; i < args.inputs; ++i) d[i] = args.scale * x[i];
    d[label] = args.scale * (x[label] - 1);
    d += args.inputs;
  }
  sums.store(buffers.get(2));
}

void sse_reference(const SseLossArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::sse_loss(args, buffers.get(0), buffers.get<std::int32_t>(1), buffers.get(2),
                      args.gradient ? buffers.get(3) : nullptr);
}

Cost sse_cost(const SseLossArgs& args) {
  const double count = static_cast<double>(args.n) * args.inputs;
  return {.flops = 4 * count, .bytes = (args.gradient ? 8 : 4) * count};
}

std::uint64_t sse_footprint(const SseLossArgs& args) {
  return footprint_of(args.n, args.inputs, args.gradient);
}

}  // namespace

Codelet<SseLossArgs> sse_loss({
    .name = "sse_loss",
    .color = 0xd62728,
    .implementations = {{"vector", sse_vector},
                        {"reference", sse_reference, nullptr, Role::reference}},
    .cost = sse_cost,
    .footprint = sse_footprint,
});

void submit_sse_loss(SseLossArgs args, const Tensor& src, const Tensor& labels,
                     const Tensor& metrics, const Tensor* diff, TaskTag tag) {
  args.gradient = diff != nullptr;
  if (diff != nullptr)
    sse_loss.submit(args, {read(src), read(labels), write(metrics), write(*diff)}, tag);
  else
    sse_loss.submit(args, {read(src), read(labels), write(metrics)}, tag);
}

}  // namespace omni
