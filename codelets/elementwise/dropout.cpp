#include "codelets/elementwise/dropout.hpp"

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

constexpr int kDropoutLanes = 16;          // counters that are drawn together
constexpr int kGroup = 4 * kDropoutLanes;  // elements that these counters decide

constexpr auto drop_vector = []<class T>(T, const DropoutArgs& args, const Buffers& buffers,
                                         DeviceContext&) {
  T* values = buffers.get<T>(0);
  const Philox philox(args.seed, RandomStream::dropout);
  const DropoutRule rule(args.probability);
  for (int i = 0; i < args.n; ++i, values += args.per_sample)
    for (std::int64_t first = 0; first < args.per_sample; first += kGroup) {
      const std::uint64_t counter = dropout_counter(args.layer, first / 4);
      const std::uint64_t sample = args.first_sample + static_cast<std::uint64_t>(i);
      std::uint32_t bits[kGroup];
      for (unsigned lane = 0; lane < kDropoutLanes; ++lane) {
        const auto block = philox(sample, counter + lane);
        for (unsigned word = 0; word < 4; ++word) bits[word * kDropoutLanes + lane] = block[word];
      }
      const auto apply = [&](auto count) {
        for (int k = 0; k < count; ++k)
          values[first + k] = bits[k] >= rule.threshold ? values[first + k] * rule.scale : 0.0f;
      };
      if (args.per_sample - first >= kGroup)
        apply(std::integral_constant<int, kGroup>{});
      else
        apply(static_cast<int>(args.per_sample - first));
    }
};

// Returns the cost. Four elements need ten rounds of Philox, each of about ten operations.
Cost cost(const DropoutArgs& args) {
  const double count = static_cast<double>(args.n) * static_cast<double>(args.per_sample);
  return {.flops = 26 * count, .bytes = count * 2 * sizeof(float)};
}

// Forward and backward are the same operation, but have different names in traces.
CodeletDefinition<DropoutArgs> dropout_definition(const char* name) {
  return {.name = name,
          .color = 0x5B8E7D,
          .implementations = OMNI_IMPLEMENTATIONS(dropout, by_values<drop_vector>, 0),
          .cost = cost,
          .footprint = footprint_by<&DropoutArgs::n, &DropoutArgs::per_sample>};
}

}  // namespace

Codelet<DropoutArgs> dropout_forward(dropout_definition("dropout_forward"));
Codelet<DropoutArgs> dropout_backward(dropout_definition("dropout_backward"));

}  // namespace omni
