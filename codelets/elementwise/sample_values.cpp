#include "codelets/elementwise/sample_values.hpp"

#include <algorithm>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void sample_cpu(const SampleArgs& args, const Buffers& buffers, DeviceContext&) {
  const float* values = buffers.get(0);
  for (std::int64_t i = 0; i < args.count; ++i) args.to[i] = values[i * args.apart];
}

Codelet<SampleArgs> sample_values({
    .name = "sample_values",
    .color = 0xB5B5B5,
    .implementations = {{"cpu", sample_cpu}},
    .cost =
        [](const SampleArgs& args) {
          return Cost{.bytes = 2.0 * sizeof(float) * static_cast<double>(args.count)};
        },
    .footprint = [](const SampleArgs& args) { return footprint_of(args.count, args.apart); },
    .when_done = [](const SampleArgs& args) { args.report->count_down(); },
});

}  // namespace

std::size_t sample_size(const Tensor& tensor, std::size_t most) {
  return std::min(tensor.count_of(0), most);
}

void submit_sample(const Tensor& tensor, std::span<float> to, UpdateReport& report, TaskTag tag) {
  const auto count = static_cast<std::int64_t>(to.size());
  sample_values.submit({.count = count,
                        .apart = static_cast<std::int64_t>(tensor.count_of(0)) / count,
                        .to = to.data(),
                        .report = &report},
                       {read({tensor, 0})}, tag);
}

}  // namespace omni
