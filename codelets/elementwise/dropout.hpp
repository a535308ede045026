// Dropout works in place, with inverted scaling: a value survives with probability 1 - p and is
// divided by 1 - p.
//
// The mask is a pure function of seed, layer, sample and element, and backward computes it again.
// So no mask is stored, and it depends neither on slices nor on workers. The bits of element e are
// word (e / 16) % 4 of the Philox block number e / 64 * 16 + e % 16. So 16 consecutive elements use
// the same word of 16 consecutive blocks, which suits vector units.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/rng.hpp"
#include "runtime/tasks/kernel.hpp"

namespace omni {

struct DropoutArgs {
  int n = 0;                    // samples of the slice
  std::int64_t per_sample = 0;  // elements
  float probability = 0.5f;     // that an element is dropped
  int layer = 0;                // index in the net
  std::uint64_t seed = 0;
  std::uint64_t first_sample = 0;  // counted over the whole training, so that masks never repeat
};

// DropoutRule decides which elements survive: those whose bits are at least the threshold. They are
// multiplied by `scale`.
struct DropoutRule {
  std::uint32_t threshold;
  float scale;
  // At p = 0 all elements survive unchanged. At p = 1 the scale is 0, because bits that are all 1
  // still reach the threshold.
  explicit DropoutRule(float probability)
      : threshold(static_cast<std::uint32_t>(std::clamp(probability * 0x1p32, 0.0, 0x1p32 - 1))),
        scale(probability < 1 ? 1 / (1 - std::max(probability, 0.0f)) : 0.0f) {}
};

constexpr std::uint64_t dropout_counter(int layer, std::int64_t block) {
  return std::uint64_t{static_cast<std::uint32_t>(layer)} << 32 | static_cast<std::uint32_t>(block);
}

namespace gpu {
KernelFunction<DropoutArgs> dropout;
}

namespace reference {

// Computes values *= mask / (1 - p). Backward does the same to gradients.
template <class T>
void dropout(const DropoutArgs& args, T* values) {
  const Philox philox(args.seed, RandomStream::dropout);
  const DropoutRule rule(args.probability);
  for (int i = 0; i < args.n; ++i)
    for (std::int64_t e = 0; e < args.per_sample; ++e) {
      const std::uint64_t sample = args.first_sample + static_cast<std::uint64_t>(i);
      const auto block = philox(sample, dropout_counter(args.layer, e / 64 * 16 + e % 16));
      const bool lives = block[e / 16 % 4] >= rule.threshold;
      const std::int64_t at = i * args.per_sample + e;
      values[at] = lives ? values[at] * static_cast<T>(rule.scale) : T{0};
    }
}

}  // namespace reference

extern Codelet<DropoutArgs> dropout_forward;   // {values RW}
extern Codelet<DropoutArgs> dropout_backward;  // {diff RW}, with the arguments of the forward

}  // namespace omni
