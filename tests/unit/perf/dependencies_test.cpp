// These tests check that joins, a short form of many dependencies, stand for exactly the same pairs
// of tasks.
#include "perf/trace/dependencies.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "perf/analysis/bounds.hpp"
#include "perf/analysis/critical_path.hpp"
#include "tests/support/hand_trace.hpp"

namespace omni::test {
namespace {

using trace::AccessMode;
using Tasks = std::set<std::uint32_t>;

// Returns the tasks that each task depends on, found by comparing all pairs of tasks.
std::vector<Tasks> all_pairs(const perf::Trace& trace) {
  struct History {
    Tasks before, writers, readers;
    bool commuting = false;
  };
  std::vector<History> histories(trace.data.size());
  std::vector<Tasks> result;
  for (std::uint32_t task = 0; task < trace.tasks.size(); ++task) {
    Tasks waits;
    for (const trace::Access& access : trace.accesses_of(trace.tasks[task])) {
      History& data = histories[access.data];
      const Tasks last = data.readers.empty() ? data.writers : data.readers;
      if (access.mode == AccessMode::read) {
        waits.insert(data.writers.begin(), data.writers.end());
        data.readers.insert(task);
      } else if (access.mode == AccessMode::add && data.commuting && data.readers.empty()) {
        waits.insert(data.before.begin(), data.before.end());
        data.writers.insert(task);
      } else {
        waits.insert(last.begin(), last.end());
        data = {last, {task}, {}, access.mode == AccessMode::add};
      }
    }
    waits.erase(task);
    result.push_back(waits);
  }
  return result;
}

// Returns a random trace with up to `longest` accesses of one kind in a row. Some tasks access the
// same data in several ways.
perf::Trace random_trace(unsigned seed, unsigned longest) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  HandTrace hand(4);
  for (int i = 0; i < 600;) {
    const unsigned mode = below(4);
    const std::string data = std::to_string(below(2));
    for (unsigned left = below(4) == 0 ? longest : 1; left > 0; --left, ++i) {
      const trace::Nanoseconds start = 100 * i + below(90), end = start + below(300);
      HandTask task{.worker = i % 4, .times = times(start, start, start, end)};
      (mode == 0   ? task.reads
       : mode == 1 ? task.writes
       : mode == 2 ? task.updates
                   : task.adds) = {data};
      if (below(20) == 0) task.adds = {data};
      if (below(20) == 0) task.reads = {data, "other"};
      hand.task(task);
    }
  }
  return hand.read();
}

TEST(Dependencies, JoinsHoldWhatThePairsWould) {
  bool joined = false;
  for (unsigned seed = 0; seed < 30; ++seed) {
    const perf::Trace trace = random_trace(seed, 60);
    const perf::Dependencies dependencies(trace);
    const std::vector<Tasks> expected = all_pairs(trace);
    joined = joined || dependencies.join_count() > 0;
    std::vector<double> length;
    for (std::uint32_t task = 0; task < trace.tasks.size(); ++task) {
      const auto found = dependencies.of(task);
      ASSERT_EQ(Tasks(found.begin(), found.end()), expected[task]) << seed << " task " << task;
      ASSERT_EQ(found.size(), expected[task].size());
      for (const std::uint32_t join : dependencies.joins(task))
        for (const std::uint32_t member : dependencies.members(join)) {
          const auto with = dependencies.joins_with(member);
          ASSERT_TRUE(std::find(with.begin(), with.end(), join) != with.end());
        }
      double longest = 0;
      for (const std::uint32_t other : expected[task]) longest = std::max(longest, length[other]);
      length.push_back(longest + static_cast<double>(trace.tasks[task].length()));
    }
    double path = 0;
    for (const std::uint32_t task : longest_path(trace, dependencies))
      path += static_cast<double>(trace.tasks[task].length());
    EXPECT_EQ(path, *std::max_element(length.begin(), length.end())) << seed;
  }
  EXPECT_TRUE(joined);
}

// 100 tasks add and 100 tasks read. These are too many arrows, so each reading task shows only the
// adding task that ended last.
TEST(Dependencies, OfVeryManyTheLastIsShown) {
  HandTrace hand(1);
  for (int i = 0; i < 201; ++i) {
    HandTask task{.times = times(0, 0, 10 * i, 10 * i + (i == 40 ? 900 : 5))};
    (i < 100 ? task.adds : i < 200 ? task.reads : task.writes) = {"sum"};
    hand.task(task);
  }
  const perf::Trace trace = hand.read();
  const perf::Dependencies dependencies(trace);
  EXPECT_EQ(dependencies.of(150), (std::vector<std::uint32_t>{40}));
  EXPECT_EQ(dependencies.of(200).size(), 100u);  // of one task all are shown
  ASSERT_EQ(dependencies.joins(150).size(), 1u);
  EXPECT_EQ(dependencies.members(dependencies.joins(150)[0]).size(), 100u);
  EXPECT_EQ(longest_path(trace, dependencies)[0], 40u);
}

}  // namespace
}  // namespace omni::test
