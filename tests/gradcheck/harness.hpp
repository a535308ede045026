// What every operation is held to: all its implementations agree with the double-precision
// reference on awkward shapes, write exactly what they own, and the reference backward is the
// gradient of the reference forward. Plain memory, no StarPU: a failing kernel is debugged as a
// function call.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codelets/dense/bf16.hpp"
#include "runtime/rng.hpp"
#include "runtime/tasks/codelet.hpp"
#include "tests/support/gpu_copy.hpp"

namespace omni::gradcheck {

// ---- values ----

using Fill = std::function<float(Draws&)>;

inline Fill uniform(float low, float high) {
  return [=](Draws& draws) { return draws.uniform(low, high); };
}

// +-[margin, 1]: no value near zero, where a relu-like function has its kink.
inline Fill away_from_zero(float margin) {
  return [=](Draws& draws) {
    const float size = draws.uniform(margin, 1.0f);
    return (draws.bits() & 1u) != 0 ? size : -size;
  };
}

// Whole numbers in [0, bound), for labels, indices and masks.
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

// ---- the policy under which implementations run ----

// That of --deterministic, so that a GPU's results repeat bit for bit, and --precision.
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

// All start values are then such that rounding leaves them as they are: no product is less exact.
template <class Check>
void in_fp32_and_bf16(Check check) {
  for (const auto& [name, precision] :
       {std::pair("fp32", Precision::fp32), std::pair("bf16", Precision::bf16)}) {
    SCOPED_TRACE(name);
    const Deterministic policy(precision);
    check();
  }
}

// ---- operands: the buffers of one task, in the order of the codelet's accesses ----

struct Operand {
  AccessMode mode;
  std::size_t count;
  Fill fill = uniform(-1, 1);
  DataType type = DataType::f32;
};

inline Operand input(std::size_t count, Fill fill = uniform(-1, 1), DataType type = DataType::f32) {
  return {AccessMode::read, count, std::move(fill), type};
}
// Poisoned with NaN, so that what a kernel forgets to write is seen.
inline Operand output(std::size_t count, DataType type = DataType::f32) {
  return {AccessMode::write, count, nullptr, type};
}
inline Operand in_place(std::size_t count, Fill fill = uniform(-1, 1)) {
  return {AccessMode::read_write, count, std::move(fill)};
}
// Starts from values that are not zero, so that overwriting instead of adding is seen.
inline Operand accumulated(std::size_t count) { return {AccessMode::accumulate, count}; }

// ---- memory with guard zones ----

// 64-byte aligned as StarPU's buffers are; all bytes around the data are 0xFF, which is also a NaN:
// a write outside breaks the pattern, a read outside poisons the result.
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

// The operand's start values as float or double (Real); integers stay what they are. Rounded to
// float first, or to the precision that is tested, so that all start from the same numbers.
template <class Real>
GuardedBlock make_block(const Operand& operand, std::uint64_t seed, std::size_t index) {
  const auto fill = [&]<class T>(T) {
    GuardedBlock block(operand.count * sizeof(T));
    if (operand.mode == AccessMode::write) return block;
    Draws draws(Philox(seed, RandomStream::synthetic), index);
    T* values = static_cast<T*>(block.data());
    const bool rounded =
        operand.type == DataType::bf16 || implementation_policy().precision == Precision::bf16;
    for (std::size_t i = 0; i < operand.count; ++i) {
      const float value = operand.fill(draws);
      values[i] = static_cast<T>(rounded ? round_to_bf16(value) : value);
    }
    return block;
  };
  switch (operand.type) {
    case DataType::i32:
      return fill(std::int32_t{});
    case DataType::u8:
      return fill(std::uint8_t{});
    case DataType::bf16:
      if constexpr (std::is_same_v<Real, float>) return fill(Bf16{});
      break;
    case DataType::f32:
      break;
  }
  return fill(Real{});
}

// Runs a kernel on fresh operands and returns them, after checking that it wrote only what it owns.
template <class Real, class Run>
std::vector<GuardedBlock> run_on(const std::vector<Operand>& operands, std::uint64_t seed,
                                 Run&& run, bool on_gpu = false) {
  std::vector<GuardedBlock> blocks;
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < operands.size(); ++i)
    blocks.push_back(make_block<Real>(operands[i], seed, i));
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
    EXPECT_TRUE(operands[i].mode != AccessMode::read ||
                blocks[i].same_data(make_block<Real>(operands[i], seed, i)))
        << "wrote to read-only buffer " << i;
  }
  return blocks;
}

// ---- comparisons ----

// |value - expected| / |expected| over the whole buffer; NaN when anything is NaN.
template <class A, class B>
double relative_error(std::span<const A> value, std::span<const B> expected) {
  double distance = 0, length = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double b = static_cast<double>(expected[i]), gap = static_cast<double>(value[i]) - b;
    distance += gap * gap;
    length += b * b;
  }
  return std::sqrt(distance) / std::max(std::sqrt(length), 1e-3);
}

// The values of a buffer that was run on as float.
inline std::vector<float> floats_of(const Operand& operand, const GuardedBlock& block) {
  const auto copy = [&]<class T>(T) {
    const auto* values = static_cast<const T*>(block.data());
    return std::vector<float>(values, values + operand.count);
  };
  return operand.type == DataType::bf16 ? copy(Bf16{}) : copy(float{});
}

template <class Args>
struct Case {
  const char* what;
  Args args;
};

// Every shape with and without bias.
template <class Args, class Shape>
std::vector<Case<Args>> with_and_without_bias(const std::vector<Case<Shape>>& shapes) {
  std::vector<Case<Args>> cases;
  for (const Case<Shape>& each : shapes)
    for (const bool has_bias : {true, false}) {
      Args args{.shape = each.args};
      args.has_bias = has_bias;
      cases.push_back({each.what, args});
    }
  return cases;
}

// Calls one implementation on the memory of a task, in the order of the accesses; on a GPU, on
// copies of it.
template <class Args, class... T>
void run_on_values(const Implementation<Args>& implementation, const Args& args,
                   std::vector<T>&... values) {
  const std::array<std::span<std::byte>, sizeof...(T)> memory{
      std::as_writable_bytes(std::span(values))...};
  std::array<void*, sizeof...(T)> pointers;
  std::deque<gpu::Copy> copies;
  for (std::size_t i = 0; i < memory.size(); ++i)
    pointers[i] =
        implementation.role == Role::gpu ? copies.emplace_back(memory[i]).data() : memory[i].data();
  implementation.kernel(args, Buffers(pointers), DeviceContext::current());
  for (gpu::Copy& copy : copies) copy.back();
}

// All of a codelet's but that of a GPU where there is none.
template <class Args>
std::vector<Implementation<Args>> implementations_here(const Codelet<Args>& codelet) {
  std::vector<Implementation<Args>> here = codelet.implementations();
  if (!gpu::present()) std::erase_if(here, [](const auto& each) { return each.role == Role::gpu; });
  return here;
}

template <class Args>
struct Operation {
  std::function<std::vector<Operand>(const Args&)> operands;
  // The reference template on the same buffers, where every f32 is a double.
  std::function<void(const Args&, const Buffers&)> reference;
  // How many products one result sums up: the tolerance grows with the square root, to at most
  // 1e-4.
  std::function<double(const Args&)> terms = [](const Args&) { return 1.0; };
  double tolerance = 2e-6;
  bool repeats = true;          // bit for bit
  bool rounded_on_gpu = false;  // what it gives, in bf16: by 2^-9 at most, but before it is added
                                // or activated
  std::string_view rounds_sums = {};  // the implementation that in bf16 rounds sums of its factors
};

// One implementation on one case against the double reference, twice: the second run meets warm
// caches and must repeat the first bit for bit, unless the operation says otherwise.
template <class Args>
void check_implementation(const Implementation<Args>& implementation, const Args& args,
                          const Operation<Args>& operation, const std::vector<Operand>& operands,
                          std::uint64_t seed) {
  const auto expected = run_on<double>(
      operands, seed, [&](const Buffers& buffers) { operation.reference(args, buffers); });
  const double tolerance =
      std::min(1e-4, operation.tolerance * std::sqrt(std::max(1.0, operation.terms(args))));
  const auto run = [&](const Buffers& buffers) {
    implementation.kernel(args, buffers, DeviceContext::current());
  };
  const bool on_gpu = implementation.role == Role::gpu;
  const bool bf16 = implementation_policy().precision == Precision::bf16;
  const bool rounds_sums =
      bf16 && bf16_in_vain() == nullptr && implementation.name == operation.rounds_sums;
  const bool rounds = bf16 && on_gpu && operation.rounded_on_gpu;
  const auto actual = run_on<float>(operands, seed, run, on_gpu);
  const auto again = run_on<float>(operands, seed, run, on_gpu);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = operands[i];
    if (operand.mode == AccessMode::read) continue;
    EXPECT_TRUE(!operation.repeats || actual[i].same_data(again[i]))
        << "a second run differs in buffer " << i;
    if (operand.type != DataType::f32 && operand.type != DataType::bf16) {
      EXPECT_TRUE(actual[i].same_data(expected[i])) << "in buffer " << i;
      continue;
    }
    const std::vector<float> values = floats_of(operand, actual[i]);
    const double allowed = rounds || operand.type == DataType::bf16 ? 0x1p-8
                           : rounds_sums                            ? 0x1p-5
                                                                    : tolerance;
    EXPECT_LE(
        relative_error(std::span(values),
                       std::span(static_cast<const double*>(expected[i].data()), operand.count)),
        allowed)
        << "in buffer " << i;
  }
}

// Every implementation that supports a case, also on those buffers in bf16 that it takes. An
// implementation that no case reaches is a failure; that of a GPU is left out where there is none.
template <class Args>
void check_implementations(const Codelet<Args>& codelet, const std::vector<Case<Args>>& cases,
                           const Operation<Args>& operation) {
  const std::vector<Implementation<Args>> implementations = implementations_here(codelet);
  std::vector<int> exercised(implementations.size());
  std::uint64_t seed = footprint_of(std::hash<std::string>{}(codelet.name()));
  for (const Case<Args>& each : cases) {
    ++seed;
    const auto operands = operation.operands(each.args);
    for (std::size_t at = 0; at < exercised.size(); ++at) {
      const Implementation<Args>& implementation = implementations[at];
      if (implementation.supports != nullptr && !implementation.supports(each.args)) continue;
      SCOPED_TRACE(codelet.name() + " (" + implementation.name + "), " + each.what);
      ++exercised[at];
      check_implementation(implementation, each.args, operation, operands, seed);
      if (implementation.in_bf16.empty()) continue;
      SCOPED_TRACE("on tensors in bf16");
      const Deterministic policy(Precision::bf16);
      auto rounded = operands;
      for (std::size_t i = 0; i < rounded.size(); ++i)
        if (implementation.in_bf16.has(i)) rounded[i].type = DataType::bf16;
      check_implementation(implementation, each.args, operation, rounded, seed);
    }
  }
  for (std::size_t at = 0; at < exercised.size(); ++at)
    EXPECT_GT(exercised[at], 0) << codelet.name() << ": no case reaches implementation "
                                << implementations[at].name;
}

// Compares `analytic` = d loss / d x with central differences of loss(), which must read x anew
// each time. Large x are sampled. Choose x away from kinks: a step is 1e-5.
inline void check_gradient(const char* what, std::vector<double>& x,
                           const std::vector<double>& analytic,
                           const std::function<double()>& loss) {
  constexpr std::size_t kMostSamples = 96;
  constexpr double kStep = 1e-5;
  ASSERT_EQ(x.size(), analytic.size()) << what;
  Draws draws(Philox(x.size(), RandomStream::shuffle), 0);
  std::vector<double> numeric, claimed;
  for (std::size_t i = 0; i < std::min(x.size(), kMostSamples); ++i) {
    const std::size_t at =
        x.size() <= kMostSamples ? i : draws.below(static_cast<std::uint32_t>(x.size()));
    const double start = x[at];
    x[at] = start + kStep;
    const double above = loss();
    x[at] = start - kStep;
    const double under = loss();
    x[at] = start;
    numeric.push_back((above - under) / (2 * kStep));
    claimed.push_back(analytic[at]);
  }
  EXPECT_LE(relative_error(std::span<const double>(claimed), std::span<const double>(numeric)),
            1e-6)
      << "gradient with respect to " << what;
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// What a layer's product reads, or the gradients with respect to that.
struct WeightedOperands {
  std::vector<double> src, weights, bias;
};

struct WeightedSizes {
  std::int64_t src, weights, bias, dst;
};

// loss = <direction, dst>, whose gradient with respect to dst is `direction`. forward(from, dst)
// overwrites dst, backward(from, diff_dst, gradients) adds to gradients of zero.
template <class Forward, class Backward>
void check_weighted_gradients(const WeightedSizes& sizes, Forward forward, Backward backward) {
  WeightedOperands from{random_values(size(sizes.src), 1), random_values(size(sizes.weights), 2),
                        random_values(size(sizes.bias), 3)};
  WeightedOperands gradients{std::vector<double>(from.src.size()),
                             std::vector<double>(from.weights.size()),
                             std::vector<double>(from.bias.size())};
  const auto direction = random_values(size(sizes.dst), 4);
  std::vector<double> dst(direction.size());
  const auto loss = [&] {
    forward(from, dst.data());
    return dot(direction, dst);
  };
  backward(from, direction.data(), gradients);
  check_gradient("src", from.src, gradients.src, loss);
  check_gradient("weights", from.weights, gradients.weights, loss);
  check_gradient("bias", from.bias, gradients.bias, loss);
}

}  // namespace omni::gradcheck
