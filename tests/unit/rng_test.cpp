#include "runtime/rng.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace omni {
namespace {

// Returns the seed that gives the stream the key (0, 0), for which test vectors are published.
std::uint64_t seed_for_zero_key(RandomStream stream) {
  return std::uint64_t{static_cast<std::uint32_t>(stream) * 0x85EBCA6Bu} << 32;
}

TEST(Philox, MatchesThePublishedVectors) {
  const Philox philox(seed_for_zero_key(RandomStream::dropout), RandomStream::dropout);
  EXPECT_EQ(philox(0, 0), (Philox::Block{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  const std::uint64_t ones = ~std::uint64_t{0};
  const Philox inverted(seed_for_zero_key(RandomStream::dropout) ^ ones, RandomStream::dropout);
  EXPECT_EQ(inverted(ones, ones),
            (Philox::Block{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
}

TEST(Philox, StreamsDiffer) {
  std::set<std::uint32_t> first;
  for (const RandomStream stream :
       {RandomStream::init, RandomStream::shuffle, RandomStream::augment, RandomStream::dropout,
        RandomStream::synthetic})
    first.insert(Philox(1, stream)(0, 0)[0]);
  EXPECT_EQ(first.size(), 5u);
}

TEST(Draws, BelowIsUniformAndBounded) {
  Draws draws(Philox(3, RandomStream::init), 0);
  std::array<int, 6> counts{};
  for (int i = 0; i < 60000; ++i) ++counts[draws.below(6)];
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 10000.0) * (count - 10000.0) / 10000.0;
  EXPECT_LT(chi_square, 20.5);  // 5 degrees of freedom, p = 0.001
}

TEST(Draws, NormalHasUnitVariance) {
  Draws draws(Philox(4, RandomStream::init), 0);
  double sum = 0, squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const auto value = static_cast<double>(draws.normal());
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.015);
  EXPECT_NEAR(squares / kDraws, 1, 0.02);
}

}  // namespace
}  // namespace omni
