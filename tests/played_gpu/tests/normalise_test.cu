// These tests check batch normalisation on a GPU: two launches each way, and totals of many blocks.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <vector>

#include "codelets/normalise/batchnorm.hpp"
#include "codelets/normalise/batchnorm_whole.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/device_context.hpp"
#include "tests/played_gpu/device.hpp"
#include "tests/played_gpu/tests/device_array.hpp"

namespace omni {
namespace {

using test::DeviceArray;

std::vector<float> drawn(std::int64_t count, unsigned seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<float>(seed >> 8) / (1 << 24) + 0.5f;
  }
  return values;
}

// Returns how many kernels the GPU's implementation launches, on as many arrays as it may have.
template <class Args>
long launches(const Codelet<Args>& codelet, const Args& args, std::int64_t values) {
  std::deque<DeviceArray> arrays;
  std::vector<void*> pointers;
  for (unsigned i = 0; i < 11; ++i)
    pointers.push_back(arrays.emplace_back(drawn(values, i)).begin());
  const auto& implementation = codelet.implementations().back();
  EXPECT_EQ(implementation.role, Role::gpu);
  const long before = played::devices()[0]->launches();
  implementation.kernel(args, Buffers(pointers), DeviceContext::current());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return played::devices()[0]->launches() - before;
}

TEST(NormaliseOnGpu, takes_two_launches_each_way) {
  constexpr std::int64_t kRows = 500;
  constexpr int kColumns = 24;
  for (const bool adds : {false, true})
    EXPECT_EQ(
        launches(batchnorm_forward, {.rows = kRows, .c = kColumns, .momentum = 0.9f, .adds = adds},
                 kRows * kColumns),
        2);
  using Backward = BatchnormWholeBackwardArgs;
  const auto backward = [&](Backward::DiffSrc diff_src, bool of_sum) {
    return launches(batchnorm_backward,
                    {.rows = kRows, .c = kColumns, .diff_src = diff_src, .of_sum = of_sum},
                    kRows * kColumns);
  };
  EXPECT_EQ(backward(Backward::DiffSrc::apart, false), 2);
  EXPECT_EQ(backward(Backward::DiffSrc::in_place, false), 2);
  EXPECT_EQ(backward(Backward::DiffSrc::in_place, true), 2);
  EXPECT_EQ(backward(Backward::DiffSrc::none, false), 1);
}

// Up to 48 blocks compute at once here. The totals of groups of 32 blocks are added up first.
TEST(NormaliseOnGpu, many_blocks_make_the_same_totals_every_time) {
  for (const auto& [rows, c] : {std::pair(6000, 40), std::pair(6000, 41), std::pair(90'000, 2),
                                std::pair(700, 130), std::pair(1, 5), std::pair(300, 5000)}) {
    SCOPED_TRACE(rows);
    const auto src = drawn(std::int64_t{rows} * c, 7);
    std::vector<double> expected(static_cast<std::size_t>(2 * c));
    reference::batchnorm_partial<double>({.rows = rows, .c = c},
                                         std::vector<double>(src.begin(), src.end()).data(),
                                         expected.data());
    const DeviceArray from(src), to(expected.size());
    const std::array<void*, 2> pointers{from.begin(), to.begin()};
    std::vector<float> first;
    for (int i = 0; i < 3; ++i) {
      gpu::batchnorm_partial({.rows = rows, .c = c}, Buffers(pointers), DeviceContext::current());
      const auto values = to.values(nullptr);
      if (i == 0) first = values;
      EXPECT_EQ(values, first);
    }
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(first[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << i;
  }
}

}  // namespace
}  // namespace omni
