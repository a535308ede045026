#include "codelets/loss/softmax_loss.hpp"

#include "codelets/loss/exp_of_negative.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void softmax_vector(const SoftmaxArgs& args, const Buffers& buffers, DeviceContext&) {
  const int size = args.inputs / args.groups;
  const float sharpness = 1 / args.temperature;
  const float* x = buffers.get(0);
  float* p = buffers.get(1);
  for (std::int64_t part = std::int64_t{args.n} * args.groups; part > 0; --part) {
    float top = x[0], sum = 0;
#pragma omp simd reduction(max : top)
    for (int i = 0; i < size; ++i) top = x[i] > top ? x[i] : top;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < size; ++i) {
      p[i] = exp_of_negative((x[i] - top) * sharpness);
      sum += p[i];
    }
    const float share = 1 / sum;
    for (int i = 0; i < size; ++i) p[i] *= share;
    x += size;
    p += size;
  }
}

void cross_entropy_vector(const CrossEntropyArgs& args, const Buffers& buffers, DeviceContext&) {
  const int size = args.inputs / args.groups;
  const float sharpness = 1 / args.temperature;
  const auto temperature = static_cast<double>(args.temperature);
  const Truth truth = smoothed_truth(args);
  const float *logits = buffers.get(0), *probabilities = buffers.get(1);
  judge_images(args.n, args.inputs, logits, buffers.get<std::int32_t>(2), buffers.get(3),
               args.gradient ? buffers.get(4) : nullptr,
               [&](LabelMetrics& sums, int label, const float* x, float* d) {
                 const float* p = probabilities + (x - logits);
                 const int first = label / size * size, last = first + size;
                 float top = x[first], before = 0, behind = 0;
#pragma omp simd reduction(max : top)
                 for (int i = first; i < last; ++i) top = x[i] > top ? x[i] : top;
#pragma omp simd reduction(+ : before)
                 for (int i = first; i < label; ++i)
                   before += exp_of_negative((x[i] - top) * sharpness);
#pragma omp simd reduction(+ : behind)
                 for (int i = label + 1; i < last; ++i)
                   behind += exp_of_negative((x[i] - top) * sharpness);
                 const auto own = static_cast<double>(x[label]);
                 const LabelOdds odds{
                     .own = static_cast<double>(exp_of_negative((x[label] - top) * sharpness)),
                     .rest = static_cast<double>(before) + static_cast<double>(behind),
                     .below = (static_cast<double>(top) - own) / temperature};
                 sums.loss += odds.loss();
                 if (truth.other > 0) {
                   double others_below = 0;  // the label
                   for (int i = first; i < last; ++i)
                     others_below += own - static_cast<double>(x[i]);
                   sums.loss += truth.other * others_below / temperature;
                 }
                 sums.count(label_rank(p, args.inputs, label));
                 if (d == nullptr) return;
                 if (args.groups > 1) std::fill_n(d, args.inputs, 0.0f);
                 const auto other = static_cast<float>(truth.other);
                 for (int i = first; i < last; ++i) d[i] = (p[i] - other) * sharpness;
                 d[label] = static_cast<float>(odds.error(truth.label)) * sharpness;
               });
}

Cost softmax_cost(const SoftmaxArgs& args) {
  const double count = static_cast<double>(args.n) * args.inputs;
  return {.flops = 20 * count, .bytes = 8 * count};  // the exponential is about 16 of them
}

Cost cross_entropy_cost(const CrossEntropyArgs& args) {
  const double count = static_cast<double>(args.n) * args.inputs;
  return {.flops = 20 * count, .bytes = (args.gradient ? 12 : 8) * count};
}

std::uint64_t softmax_footprint(const SoftmaxArgs& args) {
  return footprint_of(args.n, args.inputs, args.groups);
}

std::uint64_t cross_entropy_footprint(const CrossEntropyArgs& args) {
  return footprint_of(args.n, args.inputs, args.groups, args.smoothing > 0, args.gradient);
}

}  // namespace

Codelet<SoftmaxArgs> softmax_forward({
    .name = "softmax_forward",
    .color = 0xd62728,
    .implementations = {{"vector", softmax_vector},
                        reference_implementation<reference::softmax_forward<float>>(),
                        OMNI_GPU_IMPLEMENTATION(gpu::softmax_forward)},
    .cost = softmax_cost,
    .footprint = softmax_footprint,
});

Codelet<CrossEntropyArgs> cross_entropy({
    .name = "cross_entropy",
    .color = 0xd62728,
    .implementations = {{"vector", cross_entropy_vector},
                        reference_implementation<reference::cross_entropy<float>>(),
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
