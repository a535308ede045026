// Operands are the buffers of one task, with start values and with guard zones around them. The
// tests of implementations use them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codelets/dense/gemm.hpp"
#include "runtime/rng.hpp"
#include "runtime/tasks/codelet.hpp"
#include "tests/support/gpu_copy.hpp"

namespace omni::gradcheck {

// The next functions give start values.

using Fill = std::function<float(Draws&)>;

inline Fill uniform(float low, float high) {
  return [=](Draws& draws) { return draws.uniform(low, high); };
}

// Returns values from [margin, 1] with a random sign. None is near zero, where relu has its kink.
inline Fill away_from_zero(float margin) {
  return [=](Draws& draws) {
    const float size = draws.uniform(margin, 1.0f);
    return (draws.bits() & 1u) != 0 ? size : -size;
  };
}

// Returns whole numbers in [0, bound), for labels, indices and masks.
inline Fill below(std::uint32_t bound) {
  return [=](Draws& draws) { return static_cast<float>(draws.below(bound)); };
}

inline std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

inline std::vector<double> random_values(std::size_t count, std::uint64_t seed,
                                         const Fill& fill = uniform(-1, 1)) {
  Draws draws(Philox(seed, RandomStream::synthetic), 0);
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<double>(fill(draws));
  return values;
}

// While a Deterministic lives, the policy is that of --deterministic, so that a GPU's results
// repeat bit for bit, and of --precision.
class Deterministic {
 public:
  explicit Deterministic(Precision precision = Precision::fp32) {
    ImplementationPolicy policy = before_;
    policy.deterministic = true;
    policy.precision = precision;
    set_implementation_policy(policy);
  }
  ~Deterministic() { set_implementation_policy(before_); }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;

 private:
  ImplementationPolicy before_ = implementation_policy();
};

// Runs `check` in each precision. In tf32 and bf16, rounding leaves the start values unchanged, so
// products are as exact as in fp32. CPU cores do not know tf32.
template <class Check>
void in_every_precision(Check check) {
  for (const auto& [name, precision] :
       {std::pair("fp32", Precision::fp32), std::pair("tf32", Precision::tf32),
        std::pair("bf16", Precision::bf16)}) {
    if (precision == Precision::tf32 && !gpu::present()) continue;
    SCOPED_TRACE(name);
    const Deterministic policy(precision);
    check();
  }
}

// An operand is a buffer of a task. Operands are in the order of the codelet's accesses.

struct Operand {
  AccessMode mode;
  std::size_t count;
  Fill fill = uniform(-1, 1);
  DataType type = DataType::f32;
};

inline Operand input(std::size_t count, Fill fill = uniform(-1, 1), DataType type = DataType::f32) {
  return {AccessMode::read, count, std::move(fill), type};
}
// The buffer begins with NaN, so a value that the kernel does not write is noticed.
inline Operand output(std::size_t count, DataType type = DataType::f32) {
  return {AccessMode::write, count, nullptr, type};
}
inline Operand in_place(std::size_t count, Fill fill = uniform(-1, 1)) {
  return {AccessMode::read_write, count, std::move(fill)};
}
// The buffer begins with values other than zero, so overwriting instead of adding is noticed.
inline Operand accumulated(std::size_t count) { return {AccessMode::accumulate, count}; }

// The block is aligned to 64 bytes, as StarPU's buffers are. All bytes around the data are 0xFF,
// which is also a NaN. So a write outside breaks the pattern, and a read outside poisons the
// result.
class GuardedBlock {
 public:
  explicit GuardedBlock(std::size_t bytes)
      : bytes_(bytes), lines_(2 * kGuardLines + (bytes + sizeof(Line) - 1) / sizeof(Line)) {
    std::memset(lines_.data(), 0xFF, lines_.size() * sizeof(Line));
  }
  std::span<std::byte> with_guards() {
    return {reinterpret_cast<std::byte*>(lines_.data()), lines_.size() * sizeof(Line)};
  }
  void* data() { return lines_.data() + kGuardLines; }
  const void* data() const { return lines_.data() + kGuardLines; }

  bool guards_intact() const {
    const auto* first = reinterpret_cast<const std::byte*>(lines_.data());
    const auto* begin = static_cast<const std::byte*>(data());
    const auto* last = first + lines_.size() * sizeof(Line);
    const auto untouched = [](std::byte each) { return each == std::byte{0xFF}; };
    return std::all_of(first, begin, untouched) && std::all_of(begin + bytes_, last, untouched);
  }
  bool same_data(const GuardedBlock& other) const {
    return bytes_ == other.bytes_ && std::memcmp(data(), other.data(), bytes_) == 0;
  }

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  static constexpr std::size_t kGuardLines = 16;
  std::size_t bytes_;
  std::vector<Line> lines_;

 public:
  static constexpr std::size_t kGuardBytes = kGuardLines * sizeof(Line);
};

// Returns the operand's start values as float or double (Real). Integers stay integers. The values
// are first rounded to float, or, if the operand or the tested precision is not fp32, to bf16. So
// all blocks begin with equal numbers.
template <class Real>
GuardedBlock make_block(const Operand& operand, std::uint64_t seed, std::size_t index) {
  const auto fill = [&]<class T>(T) {
    GuardedBlock block(operand.count * sizeof(T));
    if (operand.mode == AccessMode::write) return block;
    Draws draws(Philox(seed, RandomStream::synthetic), index);
    T* values = static_cast<T*>(block.data());
    const bool rounded =
        operand.type == DataType::bf16 || implementation_policy().precision != Precision::fp32;
    for (std::size_t i = 0; i < operand.count; ++i) {
      const float value = operand.fill(draws);
      values[i] = static_cast<T>(rounded ? round_to_bf16(value) : value);
    }
    return block;
  };
  switch (operand.type) {
    case DataType::i32: return fill(std::int32_t{});
    case DataType::u8: return fill(std::uint8_t{});
    case DataType::bf16:
      if constexpr (std::is_same_v<Real, float>) return fill(Bf16{});
      break;
    case DataType::f32: break;
  }
  return fill(Real{});
}

template <class Real>
std::vector<GuardedBlock> start_blocks(const std::vector<Operand>& operands, std::uint64_t seed) {
  std::vector<GuardedBlock> blocks;
  for (std::size_t i = 0; i < operands.size(); ++i)
    blocks.push_back(make_block<Real>(operands[i], seed, i));
  return blocks;
}

// Runs a kernel on a copy of `start` and returns the copy, after checking that the kernel wrote
// only its outputs.
template <class Run>
std::vector<GuardedBlock> run_from(const std::vector<GuardedBlock>& start,
                                   const std::vector<Operand>& operands, Run&& run,
                                   bool on_gpu = false) {
  std::vector<GuardedBlock> blocks = start;
  std::vector<void*> pointers;
  std::deque<gpu::Copy> copies;
  for (GuardedBlock& block : blocks)
    pointers.push_back(on_gpu ? copies.emplace_back(block.with_guards()).data() +
                                    GuardedBlock::kGuardBytes
                              : block.data());
  const bool in_bf16 = std::ranges::count(operands, DataType::bf16, &Operand::type) > 0;
  run(Buffers(pointers, in_bf16));
  for (gpu::Copy& copy : copies) copy.back();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    EXPECT_TRUE(blocks[i].guards_intact()) << "wrote outside buffer " << i;
    EXPECT_TRUE(operands[i].mode != AccessMode::read || blocks[i].same_data(start[i]))
        << "wrote to read-only buffer " << i;
  }
  return blocks;
}

template <class Real, class Run>
std::vector<GuardedBlock> run_on(const std::vector<Operand>& operands, std::uint64_t seed,
                                 Run&& run, bool on_gpu = false) {
  return run_from(start_blocks<Real>(operands, seed), operands, run, on_gpu);
}

}  // namespace omni::gradcheck
