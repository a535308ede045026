// These tests check that implementations that seem slow are tried, and that trying them costs
// little.
#include "scheduling/policy/exploration.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace omni {
namespace {

const Exploration::Model kModel{1, 2};

// Tasks holds the believed and the true time of each implementation. StarPU replaces a wrong belief
// after ten tasks.
struct Tasks {
  std::vector<double> believed, truth;
  std::vector<int> runs{}, first{};
  double seconds = 0;

  void run_by(Exploration& looks, int count, const Exploration::Model& model = kModel) {
    runs.assign(truth.size(), 0);
    first.assign(truth.size(), count);
    std::vector<int> wrong(truth.size());
    for (int task = 0; task < count; ++task) {
      std::vector<Choice> known;
      for (unsigned i = 0; i < believed.size(); ++i) known.push_back({i, believed[i]});
      const auto [choice, paid] = looks.choose(model, known);
      const std::size_t chosen = choice.implementation;
      if (++runs[chosen] == 1) first[chosen] = task;
      seconds += truth[chosen];
      if (paid) looks.took(model, choice, truth[chosen]);
      if (believed[chosen] != truth[chosen] && ++wrong[chosen] == 10)
        believed[chosen] = truth[chosen];
    }
  }
};

TEST(Exploration, one_that_seems_little_slower_is_tried_now_and_then) {
  Exploration looks;
  Tasks tasks{{1, 2}, {1, 2}};
  tasks.run_by(looks, 10'000);
  EXPECT_EQ(tasks.runs[1], 25);
  EXPECT_LE(tasks.seconds, 1.01 * 10'000);
}

TEST(Exploration, one_that_was_poisoned_by_a_hundred_comes_back) {
  Exploration looks;
  Tasks tasks{{1, 50}, {1, 0.5}};
  tasks.run_by(looks, 20'000);
  EXPECT_GE(tasks.runs[1], 14'000) << "the first after " << tasks.first[1];
  EXPECT_EQ(tasks.believed[1], 0.5);
}

TEST(Exploration, it_comes_back_beside_others_that_are_slow) {
  Exploration looks;
  Tasks tasks{{1, 50, 100, 1000}, {1, 0.5, 100, 1000}};
  tasks.run_by(looks, 40'000);
  EXPECT_GE(tasks.runs[1], 20'000) << "the first after " << tasks.first[1];
}

TEST(Exploration, those_that_are_slow_cost_a_hundredth) {
  for (const std::vector<double>& lengths :
       {std::vector<double>{1, 100}, {1, 5, 100, 1000}, {1, 1e9}}) {
    Exploration looks;
    Tasks tasks{lengths, lengths};
    constexpr int kTasks = 400'000;
    tasks.run_by(looks, kTasks);
    EXPECT_LE(tasks.seconds, 1.011 * kTasks) << lengths.size();
    if (lengths[1] < 1e9) {
      EXPECT_GE(tasks.seconds, 1.005 * kTasks) << "was it tried at all?";
    }
  }
}

TEST(Exploration, other_tasks_save_nothing_for_a_long_one) {
  Exploration looks;
  Tasks others{{1, 100}, {1, 100}};
  others.run_by(looks, 9'000);
  Tasks tasks{{1, 100}, {1, 100}};
  tasks.run_by(looks, 9'000, {1, 3});
  EXPECT_EQ(tasks.runs[1], 0);
}

}  // namespace
}  // namespace omni
