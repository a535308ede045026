// Random numbers are counter-based (Philox4x32-10). A number depends only on key and counter. So it
// does not matter which worker asks, in which order, or whether the run was interrupted.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace omni {

// A RandomStream names a part of the program that draws. With the same seed and counter, each part
// draws other numbers.
enum class RandomStream : std::uint32_t {
  init = 1,
  shuffle,
  augment,
  dropout,
  synthetic,
  rate,
  crop,
  arrivals,
  hold_out,
  ensemble,
  sweep,
  tournament,
  parzen
};

class Philox {
 public:
  using Block = std::array<std::uint32_t, 4>;

  constexpr Philox(std::uint64_t seed, RandomStream stream)
      : key0_(static_cast<std::uint32_t>(seed)),
        key1_(static_cast<std::uint32_t>(seed >> 32) ^
              (static_cast<std::uint32_t>(stream) * 0x85EBCA6Bu)) {}

  constexpr Block operator()(std::uint64_t high, std::uint64_t low) const {
    Block x{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
            static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
    std::uint32_t k0 = key0_, k1 = key1_;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * x[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * x[2];
      x = {static_cast<std::uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<std::uint32_t>(p1),
           static_cast<std::uint32_t>(p0 >> 32) ^ x[3] ^ k1, static_cast<std::uint32_t>(p0)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return x;
  }

 private:
  std::uint32_t key0_, key1_;
};

// Maps bits to [0, 1), with all 24 bits that a float can hold.
constexpr float to_unit(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// Draws is a sequence of numbers from one Philox stream. `high`, often a sample's number, selects
// the sequence.
class Draws {
 public:
  constexpr Draws(const Philox& philox, std::uint64_t high) : philox_(philox), high_(high) {}

  constexpr std::uint32_t bits() {
    if (left_ == 0) {
      block_ = philox_(high_, next_++);
      left_ = 4;
    }
    const std::uint32_t value = block_[0];
    block_ = {block_[1], block_[2], block_[3], 0};  // without an index, a GPU keeps it in registers
    --left_;
    return value;
  }
  float uniform() { return to_unit(bits()); }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  // Draws a normal number by the method of Box and Muller. Each call takes two numbers of the
  // sequence and keeps nothing for the next call.
  float normal() {
    const float radius = std::sqrt(-2.0f * std::log(1.0f - uniform()));
    return radius * std::cos(2.0f * std::numbers::pi_v<float> * uniform());
  }
  // Draws a uniform integer in [0, bound), without modulo bias (Lemire's multiply-shift with
  // rejection).
  constexpr std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{bits()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint32_t threshold = (0u - bound) % bound;
      while (static_cast<std::uint32_t>(product) < threshold)
        product = std::uint64_t{bits()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  const Philox philox_;
  std::uint64_t high_, next_ = 0;
  Philox::Block block_{};
  unsigned left_ = 0;
};

}  // namespace omni
