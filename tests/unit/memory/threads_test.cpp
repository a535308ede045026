// These tests check that an exception in a thread reaches the thread that waits for it, or ends the
// process with an exit code.
#include "runtime/threads.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <new>
#include <stdexcept>

#include "apps/command_line.hpp"
#include "tests/support/run_program.hpp"

namespace omni {
namespace {

// Limits the user's processes to one, so that no thread can be started. Root gives up its
// privileges first.
void take_no_more_threads() {
  if (geteuid() == 0 && setuid(54321) != 0) std::exit(77);
  const rlimit limit{1, 1};
  setrlimit(RLIMIT_NPROC, &limit);
}

TEST(Threads, RunTogether) {
  std::atomic<int> sum{0};
  run_together(4, [&](int i) { sum += 1 << (4 * i); });
  EXPECT_EQ(sum, 0x1111);
  run_together(0, [&](int) { sum = 0; });
  EXPECT_EQ(sum, 0x1111);
}

TEST(Threads, WhatOneThrowsReachesTheCaller) {
  std::atomic<int> begun{0};
  const auto work = [&](int i) {
    ++begun;
    if (i == 1) throw std::bad_alloc();
  };
  EXPECT_THROW(run_together(3, work), std::bad_alloc);
  EXPECT_EQ(begun, 3);
}

TEST(Threads, ThatCannotBeStartedAreErrors) {
  const auto refused = [] {
    take_no_more_threads();
    bool begun = false;
    try {
      run_together(3, [&](int) { begun = true; });
    } catch (const std::runtime_error& problem) {
      return !begun && std::string(problem.what()).find("ulimit -u") != std::string::npos;
    }
    return false;
  };
  EXPECT_EQ(test::in_a_copy(refused), 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Threads, WithoutMemoryForTheirStacksAreOutOfMemory) {
  const auto refused = [] {
    std::ifstream sizes("/proc/self/statm");
    rlim_t pages = 0;
    sizes >> pages;
    const rlim_t space = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (4 << 20);
    const rlimit limit{space, space};
    setrlimit(RLIMIT_AS, &limit);
    try {
      run_together(32, [](int) {});  // the C library keeps some stacks
    } catch (const std::bad_alloc&) {
      return true;
    }
    return false;
  };
  EXPECT_EQ(test::in_a_copy(refused), 0);
}
#endif

class UncaughtExceptions : public testing::Test {
 protected:
  UncaughtExceptions() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(UncaughtExceptions, EndTheProcessAsInMain) {
  const auto thrown = [](auto exception) {
    end_in_order_on_exceptions();
    for (int i = 0; i < 2; ++i) start_thread([exception] { throw exception; });
    while (true) pause();
  };
  EXPECT_EXIT(thrown(std::bad_alloc()), testing::ExitedWithCode(4), "^error: out of memory\n$");
  EXPECT_EXIT(thrown(std::runtime_error("a\x1b[2Jb")), testing::ExitedWithCode(1),
              testing::StrEq("error: a?[2Jb\n"));
  EXPECT_EXIT(thrown(std::runtime_error(std::string(10'000, 'x'))), testing::ExitedWithCode(1),
              testing::StrEq("error: " + std::string(1992, 'x') + "\n"));
}

TEST_F(UncaughtExceptions, AlsoOutOfFunctionsThatThrowNothing) {
  const std::function<void()> throws = [] { throw std::bad_alloc(); };
  const auto thrown = [&]() noexcept {
    end_in_order_on_exceptions();
    throws();
  };
  EXPECT_EXIT(thrown(), testing::ExitedWithCode(4), testing::StrEq("error: out of memory\n"));
}

}  // namespace
}  // namespace omni
