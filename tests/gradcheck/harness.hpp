// The harness checks every operation. All implementations must agree with the double-precision
// reference on unusual shapes, and write exactly their own outputs. The reference's backward pass
// must be the gradient of its forward pass. StarPU is not used, so a kernel that fails can be
// debugged as a function call.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/tasks/codelet.hpp"
#include "tests/gradcheck/operands.hpp"

namespace omni::gradcheck {

// The next functions compare values.

// Returns |value - expected| / |expected| over the whole buffer, or NaN if any value is NaN. The
// divisor is at least 1e-3.
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

// Returns the values of a buffer as floats.
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

// Returns each shape as two cases, with and without a bias.
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

// Returns cases of gradients of weights: added to, with and without a bias, and overwritten.
template <class Args, class Shape>
std::vector<Case<Args>> weights_gradients(const std::vector<Case<Shape>>& shapes) {
  auto cases = with_and_without_bias<Args>(shapes);
  for (const Case<Shape>& each : shapes)
    cases.push_back({each.what, {.shape = each.args, .adds = false}});
  return cases;
}
template <class Args>
Operand gradient_operand(const Args& args) {
  const auto count = static_cast<std::size_t>(args.shape.weights_count());
  return args.adds ? accumulated(count) : output(count);
}

// Calls one implementation with these values in the order of the accesses. For a GPU, the values
// are copied there and back.
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

// Returns all implementations of the codelet, on a machine without a GPU only those for CPUs.
template <class Args>
std::vector<Implementation<Args>> implementations_here(const Codelet<Args>& codelet) {
  std::vector<Implementation<Args>> here = codelet.implementations();
  if (!gpu::present()) std::erase_if(here, [](const auto& each) { return each.role == Role::gpu; });
  return here;
}

template <class Args>
struct Operation {
  std::function<std::vector<Operand>(const Args&)> operands;
  // This is the reference kernel. It gets the same buffers, with a double for every f32.
  std::function<void(const Args&, const Buffers&)> reference;
  // Returns how many products one result sums up. The tolerance grows with the square root of this
  // number, to at most 1e-4.
  std::function<double(const Args&)> terms = [](const Args&) { return 1.0; };
  double tolerance = 2e-6;
  bool repeats = true;  // bit for bit
  bool rounded_on_gpu =
      false;  // with bf16, GPUs round results by 2^-9, before they add or activate
  std::string_view rounds_sums = {};  // the implementation that in bf16 rounds sums of its factors
};

// Compares one implementation on one case with the double reference, twice. The second run meets
// warm caches and must repeat the first bit for bit, unless the operation says otherwise.
template <class Args>
void check_implementation(const Implementation<Args>& implementation, const Args& args,
                          const Operation<Args>& operation, const std::vector<Operand>& operands,
                          const std::vector<GuardedBlock>& start,
                          const std::vector<GuardedBlock>& expected) {
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
  const auto actual = run_from(start, operands, run, on_gpu);
  const auto again = run_from(start, operands, run, on_gpu);
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
    // A GPU also rounds sums before a bias and an activation. The activation's slope is at most
    // 1.13.
    const double allowed = operand.type == DataType::bf16 ? (on_gpu ? 1.13 : 1) * 0x1p-8
                           : rounds                       ? 0x1p-8
                           : rounds_sums                  ? 0x1p-5
                                                          : tolerance;
    EXPECT_LE(
        relative_error(std::span(values),
                       std::span(static_cast<const double*>(expected[i].data()), operand.count)),
        allowed)
        << "in buffer " << i;
  }
}

// Returns what --gtest_random_seed adds to the seed of the start values. With few results it adds
// 0, because results near zero would have large relative errors.
inline std::uint64_t drawn_anew(const std::vector<Operand>& operands) {
  constexpr std::size_t kFew = 16;
  const bool few = std::ranges::any_of(operands, [](const Operand& each) {
    return each.mode != AccessMode::read && each.count < kFew;
  });
  return few ? 0 : static_cast<std::uint64_t>(GTEST_FLAG_GET(random_seed)) * 1'000'003;
}

// Checks every implementation on all cases that it supports, also with buffers in bf16 if it takes
// them. An implementation that no case reaches fails the test. CPU cores do not know tf32.
template <class Args>
void check_implementations(const std::string& of, std::vector<Implementation<Args>> implementations,
                           const std::vector<Case<Args>>& cases, const Operation<Args>& operation) {
  const Precision precision = implementation_policy().precision;
  if (precision == Precision::tf32)
    std::erase_if(implementations, [](const auto& each) { return each.role != Role::gpu; });
  std::vector<int> exercised(implementations.size());
  std::uint64_t number = footprint_of(std::hash<std::string>{}(of));
  for (const Case<Args>& each : cases) {
    ++number;
    const auto operands = operation.operands(each.args);
    const std::uint64_t seed = number + drawn_anew(operands);
    const auto by_reference = [&](const std::vector<Operand>& on) {
      return run_on<double>(
          on, seed, [&](const Buffers& buffers) { operation.reference(each.args, buffers); });
    };
    const auto expected = by_reference(operands), start = start_blocks<float>(operands, seed);
    for (std::size_t at = 0; at < exercised.size(); ++at) {
      const Implementation<Args>& implementation = implementations[at];
      if (implementation.supports != nullptr && !implementation.supports(each.args)) continue;
      SCOPED_TRACE(of + " (" + implementation.name + "), " + each.what);
      ++exercised[at];
      check_implementation(implementation, each.args, operation, operands, start, expected);
      // With all buffers in bf16 the precision makes no difference, so one check is enough.
      if (implementation.in_bf16.empty() || precision != Precision::fp32) continue;
      SCOPED_TRACE("on tensors in bf16");
      const Deterministic policy(Precision::bf16);
      auto rounded = operands;
      for (std::size_t i = 0; i < rounded.size(); ++i)
        if (implementation.in_bf16.has(i)) rounded[i].type = DataType::bf16;
      check_implementation(implementation, each.args, operation, rounded,
                           start_blocks<float>(rounded, seed), by_reference(rounded));
    }
  }
  for (std::size_t at = 0; at < exercised.size(); ++at)
    EXPECT_GT(exercised[at], 0) << of << ": no case reaches implementation "
                                << implementations[at].name;
}

// Checks the codelet's implementations. A GPU's implementation is left out on a machine without a
// GPU.
template <class Args>
void check_implementations(const Codelet<Args>& codelet, const std::vector<Case<Args>>& cases,
                           const Operation<Args>& operation) {
  check_implementations(codelet.name(), implementations_here(codelet), cases, operation);
}

// Compares `analytic` = d loss / d x with central differences of loss(), which must read x again in
// each call. Of many values only some are checked. x must be away from kinks by more than the step
// of 1e-5.
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

// A layer with weights reads these operands. The struct is also used for their gradients.
struct WeightedOperands {
  std::vector<double> src, weights, bias;
};

struct WeightedSizes {
  std::int64_t src, weights, bias, dst;
};

// The loss is <direction, dst>, so its gradient with respect to dst is `direction`. forward(from,
// dst) overwrites dst. backward(from, diff_dst, gradients) adds to gradients that begin at zero.
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
