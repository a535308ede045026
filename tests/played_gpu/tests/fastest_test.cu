// These tests check that fastest() finds the fastest of those ways that work.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include "codelets/cuda/fastest.hpp"
#include "tests/played_gpu/tests/device_array.hpp"

namespace omni {
namespace {

struct Sleeper {
  std::chrono::milliseconds time;
  bool works = true;
  int runs_until_it_fails = 1000;
};

class Fastest : public testing::Test {
 protected:
  // Returns the number of the fastest sleeper, or -1 if none works.
  int of(std::vector<Sleeper> sleepers) {
    std::vector<int> numbers;
    for (int i = 0; i < static_cast<int>(sleepers.size()); ++i) numbers.push_back(i);
    runs_.clear();
    return fastest(stream_, numbers,
                   [&](int number) {
                     Sleeper& its = sleepers[static_cast<std::size_t>(number)];
                     ++runs_[number];
                     if (!its.works || its.runs_until_it_fails-- == 0) {
                       cudaSetDevice(-1);  // leaves an error behind
                       return false;
                     }
                     check(cudaLaunchHostFunc(
                               stream_,
                               [](void* time) {
                                 std::this_thread::sleep_for(
                                     *static_cast<std::chrono::milliseconds*>(time));
                               },
                               &its.time),
                           "sleeping");
                     return true;
                   })
        .value_or(-1);
  }

  test::TestStream stream_;
  std::map<int, int> runs_;
};

using namespace std::chrono_literals;

TEST_F(Fastest, is_found_wherever_it_stands) {
  EXPECT_EQ(of({{0ms}, {40ms}}), 0);
  EXPECT_EQ(of({{40ms}, {0ms}, {40ms}}), 1);
  EXPECT_EQ(of({{40ms}, {0ms}}), 1);
}

TEST_F(Fastest, what_is_far_slower_is_not_measured_to_the_end) {
  of({{0ms}, {40ms}});
  EXPECT_LT(runs_[1], runs_[0]);
}

TEST_F(Fastest, what_does_not_run_is_left_out_and_leaves_no_error) {
  EXPECT_EQ(of({{0ms, false}, {20ms}, {0ms, true, 3}}), 1);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(runs_[0], 1);
  EXPECT_EQ(of({{0ms, false}, {0ms, false}}), -1);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(of({}), -1);
}

}  // namespace
}  // namespace omni
