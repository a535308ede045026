#include "codelets/loss/logistic_loss.hpp"

#include <array>
#include <cstddef>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

// Values whose logarithms are taken together: their product, at most 2^64, still is a float.
constexpr int kLossLanes = 16, kPerLane = 64;

// The sum of log(1 + e^-|x|): a logarithm of products, because a logarithm per value is what costs.
// A lane holds its product less one, which keeps addends that a one would swallow.
double log_sum(const float* x, int count) {
  double sum = 0;
  for (int block = 0; block < count; block += kLossLanes * kPerLane) {
    std::array<float, kLossLanes> product{};
    const int end = std::min(count, block + kLossLanes * kPerLane);
    for (int first = block; first < end; first += kLossLanes) {
      const int width = std::min(kLossLanes, end - first);
      const auto multiply = [&](int lane) {
        float& held = product[static_cast<std::size_t>(lane)];
        const float e = exp_of_negative(-std::abs(x[first + lane]));
        held += e + held * e;
      };
      if (width == kLossLanes)
        for (int lane = 0; lane < kLossLanes; ++lane) multiply(lane);
      else
        for (int lane = 0; lane < width; ++lane) multiply(lane);
    }
    for (const float held : product) sum += static_cast<double>(std::log1p(held));
  }
  return sum;
}

void logistic_vector(const LogisticLossArgs& args, const Buffers& buffers, DeviceContext&) {
  judge_images(args.n, args.inputs, static_cast<const float*>(buffers.get(0)),
               buffers.get<std::int32_t>(1), buffers.get(2),
               args.gradient ? buffers.get(3) : nullptr,
               [&](LabelMetrics& sums, int label, const float* x, float* d) {
                 float positive = 0;
#pragma omp simd reduction(+ : positive)
                 for (int i = 0; i < args.inputs; ++i)
                   positive += std::max(i == label ? -x[i] : x[i], 0.0f);
                 sums.loss += static_cast<double>(positive) + log_sum(x, args.inputs);
                 sums.count(label_rank(x, args.inputs, label));
                 if (d == nullptr) return;
                 for (int i = 0; i < args.inputs; ++i) d[i] = probability(x[i]);
                 d[label] = probability_less_one(x[label]);
               });
}

Cost logistic_cost(const LogisticLossArgs& args) {
  const double count = static_cast<double>(args.n) * args.inputs;
  // An exponential is about 16 operations; the gradient needs it once more.
  return {.flops = (args.gradient ? 40 : 20) * count, .bytes = (args.gradient ? 8 : 4) * count};
}

std::uint64_t logistic_footprint(const LogisticLossArgs& args) {
  return footprint_of(args.n, args.inputs, args.gradient);
}

}  // namespace

Codelet<LogisticLossArgs> logistic_loss({
    .name = "logistic_loss",
    .color = 0xd62728,
    .implementations = {{"vector", logistic_vector},
                        reference_implementation<reference::logistic_loss<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::logistic_loss)},
    .cost = logistic_cost,
    .footprint = logistic_footprint,
});

void submit_logistic_loss(LogisticLossArgs args, const Tensor& src, const Tensor& labels,
                          const Tensor& metrics, const Tensor* diff, TaskTag tag) {
  args.gradient = diff != nullptr;
  logistic_loss.submit(args, {read(src), read(labels), write(metrics), if_any(write, diff)}, tag);
}

}  // namespace omni
