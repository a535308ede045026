// These tests check which numbers of groups a search tries, and which one it takes.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduling/pilots/tuning/search.hpp"

namespace omni {
namespace {

const Setting kGiven{1, 0.9, 0.02};

// Every trial ends with the loss that a function of the setting returns; NaN: it diverges.
class GroupRunner : public TrialRunner {
 public:
  GroupRunner(std::map<int, double> seconds, std::function<double(const Setting&)> loss)
      : seconds_(std::move(seconds)), loss_(std::move(loss)) {}
  Result<StepSweep> sweep(double, double, std::size_t) override { return StepSweep{}; }
  Result<TrialResult> challenge(const Setting& setting, std::uint64_t) override {
    tried[setting.groups].insert(std::lround(1e4 * setting.learning_rate));
    const double loss = loss_(setting);
    return std::isfinite(loss) ? TrialResult{TrialEnd::learns, std::vector<double>(8, loss)}
                               : TrialResult{};
  }
  Result<TrialResult> defend(std::uint64_t) override { return TrialResult{}; }
  void promote() override {}
  bool can_afford(std::uint64_t) const override { return true; }
  double seconds_of(int groups) const override { return seconds_.at(groups); }
  void decided(const std::string&) override {}

  std::map<int, std::set<long>> tried;  // by groups: ten thousand times the rates

 private:
  std::map<int, double> seconds_;
  std::function<double(const Setting&)> loss_;
};

Setting found(GroupRunner& runner, std::vector<int> groups, const Setting& given = kGiven) {
  const auto result =
      search(given, {.length = 20, .chance = 2.3, .more_groups = std::move(groups)}, runner);
  EXPECT_TRUE(result);
  return result->setting;
}

TEST(SearchGroups, much_faster_ones_win_a_tie) {
  const auto alike = [](const Setting&) { return 0.5; };
  GroupRunner fast({{1, 4}, {8, 1}}, alike), little({{1, 1.4}, {8, 1}}, alike);
  EXPECT_EQ(found(fast, {8}).groups, 8);
  EXPECT_EQ(found(fast, {8}).learning_rate, kGiven.learning_rate);
  EXPECT_EQ(found(little, {8}).groups, 1);
}

TEST(SearchGroups, faster_ones_that_are_a_little_worse_do_not_win) {
  GroupRunner runner({{1, 4}, {8, 1}}, [](const Setting& setting) {
    return setting.groups > 1 ? 0.505 : 0.5;  // the losses have no error
  });
  EXPECT_EQ(found(runner, {8}).groups, 1);
}

// A smaller step loses what the groups gain, which a short trial does not show.
TEST(SearchGroups, faster_ones_with_a_smaller_step_do_not_win_a_tie) {
  GroupRunner runner({{1, 4}, {8, 1}}, [](const Setting& setting) {
    return setting.groups > 1 && setting.learning_rate > 0.01 ? NAN : 0.5;
  });
  EXPECT_EQ(found(runner, {8}).groups, 1);
  EXPECT_EQ(runner.tried[8].size(), 3u);
}

TEST(SearchGroups, fewer_ones_that_diverge_are_tried_with_smaller_steps) {
  GroupRunner runner({{1, 4}, {4, 1.2}, {8, 1}}, [](const Setting& setting) {
    return setting.groups == 4 ? NAN : setting.groups == 8 ? 0.4 : 0.5;
  });
  EXPECT_EQ(found(runner, {8, 4}).groups, 8);
  EXPECT_EQ(runner.tried[4].size(), 3u);
}

TEST(SearchGroups, more_of_them_are_tried_with_smaller_steps_until_one_wins) {
  GroupRunner runner({{1, 4}, {8, 1}}, [](const Setting& setting) {
    if (setting.groups == 1) return setting.learning_rate == kGiven.learning_rate ? 0.5 : 0.6;
    return setting.learning_rate > 0.01 ? NAN : 0.4;
  });
  const Setting best = found(runner, {8});
  EXPECT_EQ(best.groups, 8);
  EXPECT_EQ(runner.tried[8].count(200), 1u);
  EXPECT_EQ(runner.tried[8].count(63), 1u);
}

// After eight groups have won against one, those between are tried if they are not much slower.
TEST(SearchGroups, fewer_than_the_winner_are_tried_once_and_only_if_they_are_nearly_as_fast) {
  const auto loss = [](const Setting& setting) {
    if (setting.learning_rate != kGiven.learning_rate) return 0.7;
    return setting.groups == 8 ? 0.4 : 0.5;
  };
  GroupRunner runner({{1, 4}, {2, 2}, {4, 1.2}, {8, 1}}, loss);
  EXPECT_EQ(found(runner, {8, 4, 2}).groups, 8);
  EXPECT_EQ(runner.tried[4], std::set<long>{200});
  EXPECT_EQ(runner.tried[2], std::set<long>{});
}

// Stale gradients may do harm later in a training, so a search comes back to fewer groups.
TEST(SearchGroups, all_are_tried_where_the_most_are_in_use) {
  GroupRunner runner({{1, 4}, {2, 2}, {8, 1}},
                     [](const Setting& setting) { return setting.groups == 1 ? 0.3 : 0.5; });
  EXPECT_EQ(found(runner, {2, 1}, {8, 0.9, 0.02}).groups, 1);
}

}  // namespace
}  // namespace omni
