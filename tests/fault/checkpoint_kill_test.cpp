// This test kills, at any time, a process that does nothing but save checkpoints.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "tests/support/checkpoint_directory.hpp"

namespace omni::test {
namespace {

using CheckpointKillTest = CheckpointDirectoryTest;

// Saves checkpoints until it is killed, and writes each step to the pipe after its save has
// returned.
[[noreturn]] void save_until_killed(const std::filesystem::path& folder, std::uint64_t step,
                                    int pipe) {
  auto store = CheckpointStore::open(folder, kOptions);
  if (!store) ::_exit(1);
  for (;; ++step) {
    SampleCheckpoint sample(step, 1 << 16);
    if (!store->save(sample.snapshot())) ::_exit(2);
    if (::write(pipe, &step, sizeof step) != sizeof step) ::_exit(3);
  }
}

TEST_F(CheckpointKillTest, WhateverWasSavedIsFoundAfterwards) {
  std::mt19937 random(3);
  std::uint64_t acknowledged = 0;
  int mid_save = 0;
  for (int round = 0; round < 20; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) save_until_killed(folder_.path(), acknowledged + 1, ends[1]);
    ::close(ends[1]);
    std::uint64_t step = 0;
    ASSERT_EQ(::read(ends[0], &step, sizeof step), static_cast<ssize_t>(sizeof step));
    // In every second round the kill waits until a save begins. In the other rounds it comes at any
    // time.
    const bool inside_a_save = round % 2 == 0;
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (inside_a_save && !std::filesystem::exists(folder_ / ".unfinished") &&
           std::chrono::steady_clock::now() < patience)
      std::this_thread::yield();
    std::this_thread::sleep_for(
        std::chrono::microseconds(random() % (inside_a_save ? 100 : 10000)));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child stopped by itself: " << WEXITSTATUS(status);
    do {
      acknowledged = step;
    } while (::read(ends[0], &step, sizeof step) == static_cast<ssize_t>(sizeof step));
    ::close(ends[0]);

    const auto found = latest();
    ASSERT_GE(found, static_cast<std::int64_t>(acknowledged));
    ASSERT_LE(found, static_cast<std::int64_t>(acknowledged) + 1);
    mid_save +=
        std::ranges::any_of(names(), [](const auto& name) { return name.starts_with("."); });
    EXPECT_LE(names().size(), 2u + 1 + 2) << "lock, keep + 1, and hidden leftovers";
    EXPECT_EQ(said_.text(), "") << "no fallback was needed";
    acknowledged = static_cast<std::uint64_t>(found);
  }
  EXPECT_GE(mid_save, 3) << "the kills must hit saves to prove something";

  auto store = open();
  save(store, acknowledged + 1);
  EXPECT_EQ(names().size(), 3u);
}

}  // namespace
}  // namespace omni::test
