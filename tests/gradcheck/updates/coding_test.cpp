// These tests compare the codelets of coded messages with plain loops in double precision.
#include "codelets/elementwise/coding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

using Values = std::vector<float>;
using Message = std::vector<std::uint32_t>;  // its memory, in units that are aligned

constexpr Coding kBf16{.kind = Coding::Kind::bf16};
constexpr Coding top(double share) { return {.kind = Coding::Kind::top, .share = share}; }

CodingArgs args_of(const Coding& coding, std::size_t count) {
  CodingArgs args{.count = static_cast<std::int64_t>(count)};
  if (coding.kind == Coding::Kind::top)
    args.entries = static_cast<std::int64_t>(coding.entries(count));
  return args;
}

void run(const Codelet<CodingArgs>& codelet, const CodingArgs& args, std::vector<void*> memory) {
  codelet.entries().front().run(&args, Buffers(memory), DeviceContext::current());
}

Message encoded(const Coding& coding, Values& values, Values& kept, bool clears = true) {
  Message message(coding.bytes(values.size()) / sizeof(std::uint32_t) + 1);
  CodingArgs args = args_of(coding, values.size());
  args.clears = clears;
  run(encode_values, args, {values.data(), kept.data(), message.data()});
  return message;
}

Values decoded(const Coding& coding, Message message, std::size_t count) {
  Values values(count, 77);
  run(decode_values, args_of(coding, count), {message.data(), values.data()});
  return values;
}

Values random_values(std::size_t count, std::uint64_t seed) {
  Values values(count);
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  for (float& value : values) {
    const auto uniform = static_cast<float>(random()) / 0x1p31f - 1;
    value = uniform * uniform * uniform;  // of unlike magnitudes
  }
  return values;
}

// Returns the nearest of the numbers that bf16 has, the one with the even last bit in a tie.
double nearest_bf16(double value) {
  if (value == 0) return 0;
  const double unit = std::ldexp(1, std::ilogb(value) - 7);
  return std::nearbyint(value / unit) * unit;
}

// The plain loop of one message: what is sent of the values and of what was kept.
std::vector<double> plain(const Coding& coding, const std::vector<double>& wanted) {
  std::vector<double> sent(wanted.size());
  if (coding.kind == Coding::Kind::bf16) {
    std::ranges::transform(wanted, sent.begin(), nearest_bf16);
    return sent;
  }
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return std::abs(wanted[i]); });
  for (std::size_t i = 0; i < coding.entries(wanted.size()); ++i) sent[order[i]] = wanted[order[i]];
  return sent;
}

TEST(CodedMessages, are_those_of_a_plain_loop) {
  for (const Coding& coding : {kBf16, top(0.01), top(0.2)})
    for (const std::size_t count : {20001u, 1000u, 257u}) {
      if (!coding.codes(count)) continue;
      Values kept(count);
      for (int step = 0; step < 5; ++step) {
        Values values = random_values(count, 7 * count + step);
        std::vector<double> wanted(count);
        for (std::size_t i = 0; i < count; ++i)
          wanted[i] = static_cast<double>(kept[i] + values[i]);
        const std::vector<double> sent = plain(coding, wanted);
        const Values arrived = decoded(coding, encoded(coding, values, kept), count);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(static_cast<double>(arrived[i]), sent[i]) << count << ", " << step << ", " << i;
          ASSERT_EQ(static_cast<double>(kept[i]), wanted[i] - sent[i]);
          ASSERT_EQ(values[i], 0);
        }
      }
    }
}

// All that is put in arrives, or is kept.
TEST(CodedMessages, lose_nothing_in_the_long_run) {
  constexpr std::size_t kCount = 3000;
  for (const Coding& coding : {kBf16, top(0.05)}) {
    Values kept(kCount);
    std::vector<double> put(kCount), arrived(kCount);
    for (int step = 0; step < 200; ++step) {
      Values values = random_values(kCount, step);
      for (std::size_t i = 0; i < kCount; ++i) put[i] += static_cast<double>(values[i]);
      const Values own = decoded(coding, encoded(coding, values, kept), kCount);
      for (std::size_t i = 0; i < kCount; ++i) arrived[i] += static_cast<double>(own[i]);
    }
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_NEAR(arrived[i] + static_cast<double>(kept[i]), put[i], 2e-5) << i;
  }
}

TEST(CodedMessages, of_values_that_stay) {
  Values values = random_values(1000, 3), kept(1000);
  const Values before = values;
  encoded(kBf16, values, kept, false);
  EXPECT_EQ(values, before);
}

// Sender and receiver add the same message to what they know, so both know the same bits. The
// distance from the exact values shrinks with every message.
TEST(CodedMessages, of_changes_let_all_know_the_same) {
  constexpr std::size_t kCount = 2000;
  for (const Coding& coding : {kBf16, top(0.1)}) {
    const Values exact = random_values(kCount, 1);
    Values sender(kCount), receiver(kCount);
    double before = INFINITY;
    for (int step = 0; step < 10; ++step) {
      Message message(coding.bytes(kCount) / sizeof(std::uint32_t) + 1);
      Values source = exact;
      CodingArgs args = args_of(coding, kCount);
      run(encode_change, args, {source.data(), sender.data(), message.data()});
      args.adds = true;
      run(decode_values, args, {message.data(), receiver.data()});
      ASSERT_EQ(sender, receiver);
      double distance = 0;
      for (std::size_t i = 0; i < kCount; ++i)
        distance += std::abs(static_cast<double>(exact[i] - sender[i]));
      EXPECT_TRUE(distance < before || distance == 0) << step;
      before = distance;
    }
    EXPECT_LT(before, 1e-5);
  }
}

TEST(CodedMessages, take_the_first_of_equal_magnitudes) {
  Values values(1000, -1), kept(1000);
  values[999] = 2;
  const Coding coding = top(0.1);
  const Values arrived = decoded(coding, encoded(coding, values, kept), 1000);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(arrived[i], i < 99 ? -1 : i == 999 ? 2 : 0) << i;
}

TEST(CodedMessages, hold_values_that_are_no_numbers) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinite = INFINITY;
  for (const Coding& coding : {kBf16, top(0.1)}) {
    Values values(1000, 1), kept(1000);
    values[500] = kNan, values[600] = -kInfinite;
    const Values arrived = decoded(coding, encoded(coding, values, kept), 1000);
    EXPECT_TRUE(std::isnan(arrived[500]));
    EXPECT_EQ(arrived[600], -kInfinite);
  }
}

TEST(CodedMessages, are_no_larger_than_the_values) {
  EXPECT_EQ(kBf16.bytes(1000), 2000u);
  EXPECT_EQ(top(0.01).bytes(100'000), 8000u);
  EXPECT_EQ(top(0.01).bytes(1000), 8u * Coding::kLeastEntries);
  EXPECT_EQ(top(0.01).bytes(100), 400u);
  EXPECT_FALSE(top(0.01).codes(128));
  EXPECT_TRUE(top(0.01).codes(129));
  EXPECT_FALSE(top(0.5).codes(100'000));
  EXPECT_FALSE(Coding().codes(100'000));
}

}  // namespace
}  // namespace omni
