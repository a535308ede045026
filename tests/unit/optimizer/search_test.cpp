// The search of --auto on loss surfaces that are formulas: what it tries, what it chooses, and that
// none of the known defects of Omnivore's published optimizer is in it.
#include "scheduling/optimizer/search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace omni {
namespace {

using testing::HasSubstr;

// Answers trials from a formula, and remembers which of them was kept last.
class Surface {
 public:
  using Loss = std::function<std::optional<double>(const Setting&)>;  // none: it diverges
  explicit Surface(Loss loss) : loss_(std::move(loss)) {}

  TrialRunner runner() {
    return {.run = [this](const Setting& setting) -> Result<Trial> {
              tried = setting;
              Trial trial{.number = 0,
                          .setting = setting,
                          .iterations = 10,
                          .seconds = 1,
                          .losses = {},
                          .score = loss_(setting),
                          .chosen = false,
                          .reason = {}};
              if (trial.score) trial.losses = {*trial.score - noise, *trial.score + noise};
              noise = -noise;  // as if every trial had other luck
              return trial;
            },
            .keep = [this] { kept = tried; },
            .can_afford_more = [this] { return trials.size() < affordable; },
            .refused = refused};
  }
  Result<Setting> steady(const Setting& last) {
    const TrialRunner run = runner();
    Result<Setting> found = search_setting(last, run, trials);
    if (found) check(*found);
    return found;
  }
  Result<Setting> cold(const Setting& start) {
    const TrialRunner run = runner();
    Result<Setting> found = search_rate(start, run, trials);
    if (found) check(*found);
    return found;
  }
  bool has_tried(double momentum, double rate) const {
    return std::ranges::any_of(trials, [&](const Trial& trial) {
      return trial.setting.momentum == momentum &&
             std::fabs(trial.setting.learning_rate / rate - 1) < 1e-9;
    });
  }

  std::vector<Trial> trials;
  Setting tried, kept;
  double noise = 0;
  std::size_t affordable = 100;  // trials
  std::vector<RefusedRate> refused;

 private:
  // The winner is the one whose state was kept, exactly one is chosen, and each has a reason.
  void check(const Setting& found) const {
    EXPECT_EQ(describe(found), describe(kept));
    int chosen = 0;
    for (const Trial& trial : trials) {
      EXPECT_NE(trial.reason, "");
      if (!trial.chosen) continue;
      ++chosen;
      EXPECT_EQ(describe(trial.setting), describe(found));
    }
    EXPECT_EQ(chosen, 1);
  }
  Loss loss_;
};

// Lowest where momentum and rate (in factors of ten) are right.
Surface::Loss bowl(double momentum, double rate) {
  return [=](const Setting& at) {
    return 1 + std::pow(at.momentum - momentum, 2) +
           std::pow(std::log10(at.learning_rate / rate), 2);
  };
}

TEST(Search, finds_the_best_point_of_the_grid) {
  Surface surface(bowl(0.6, 0.01));
  const auto found = surface.steady({1, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "1 group, momentum 0.6, rate 0.01");
}

TEST(Search, spares_what_is_dominated) {
  Surface surface(bowl(0.6, 0.01));
  ASSERT_TRUE(surface.steady({1, 0.6, 0.01}));
  // More of both is what training has outgrown, less of both is only slow. Momentum 0.6 at a tenth
  // of the rate is needed to see that the rate is not on the boundary.
  EXPECT_FALSE(surface.has_tried(0.9, 0.01));
  EXPECT_FALSE(surface.has_tried(0.3, 0.001));
  EXPECT_FALSE(surface.has_tried(0, 0.001));
  EXPECT_LE(surface.trials.size(), 6u);
}

TEST(Search, what_diverges_spares_all_that_is_larger) {
  Surface surface([](const Setting& at) {
    return at.learning_rate > 5e-5 ? std::nullopt : std::optional(1.0);
  });
  const auto found = surface.steady({1, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_TRUE(surface.has_tried(0, 1e-4));
  EXPECT_FALSE(surface.has_tried(0.3, 1e-4));
  EXPECT_FALSE(surface.has_tried(0.9, 1e-4));
  EXPECT_EQ(describe(*found), "1 group, momentum 0.9, rate 1e-05");
}

TEST(Search, less_momentum_is_tried_only_as_long_as_it_helps) {
  Surface surface(bowl(0.9, 0.01));
  const auto found = surface.steady({1, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->momentum, 0.9);
  EXPECT_TRUE(surface.has_tried(0.6, 0.01));
  EXPECT_FALSE(surface.has_tried(0.3, 0.01));
  EXPECT_FALSE(surface.has_tried(0, 0.01));
}

TEST(Search, rates_that_were_refused_before_are_not_tried_again) {
  for (const double refused : {0.1, 1.0}) {
    Surface surface(bowl(0.9, 0.1));
    surface.refused = {{1, refused}};
    const auto found = surface.steady({1, 0.9, 0.01});
    ASSERT_TRUE(found);
    EXPECT_NEAR(found->learning_rate, refused / 10, 1e-9);
    for (const Trial& trial : surface.trials)
      EXPECT_LT(trial.setting.learning_rate, 0.99 * refused);
  }
}

TEST(Search, rates_that_were_refused_with_more_groups_are_tried_with_fewer) {
  for (const int groups : {1, 2, 4}) {
    Surface surface(bowl(0.9, 0.1));
    surface.refused = {{2, 0.1}};
    const auto found = surface.steady({groups, 0.9, 0.01});
    ASSERT_TRUE(found);
    EXPECT_NEAR(found->learning_rate, groups == 1 ? 0.1 : 0.01, 1e-9) << groups;
  }
}

// With momenta first a rate ten times too large used up the budget of a short training.
TEST(Search, the_rate_is_tried_before_the_momenta) {
  Surface surface(bowl(0.9, 0.001));
  surface.affordable = 2;
  const auto found = surface.steady({1, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "1 group, momentum 0.9, rate 0.001");
}

TEST(Search, a_momentum_that_cannot_be_kept_is_replaced_by_the_nearest_that_can) {
  Surface surface(bowl(0.6, 0.01));
  ASSERT_TRUE(surface.steady({8, 0, 0.01}));
  EXPECT_TRUE(surface.has_tried(0.6, 0.01));
}

TEST(Search, momentum_that_diverges_is_lowered_until_it_does_not) {
  Surface surface([](const Setting& at) {
    return at.momentum >= 0.3 && at.learning_rate >= 0.01 ? std::nullopt : std::optional(1.0);
  });
  const auto found = surface.steady({1, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "1 group, momentum 0, rate 0.01");
}

TEST(Search, within_three_percent_the_slightly_larger_step_wins) {
  std::map<double, double> losses{{0, 1.0}, {0.3, 1.029}, {0.6, 1.07}, {0.9, 1.5}};
  Surface surface(
      [&](const Setting& at) { return at.learning_rate == 0.01 ? losses.at(at.momentum) : 2.0; });
  const auto found = surface.steady({1, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->momentum, 0.3);
  EXPECT_EQ(surface.trials.at(4).setting.momentum, 0);
  EXPECT_THAT(surface.trials.at(4).reason, HasSubstr("with a smaller step"));
}

// Momentum 0.9 takes four times the steps of 0.6.
TEST(Search, three_percent_for_every_doubling_of_the_step) {
  for (const auto& [above, chosen] : {std::pair{0.05, 0.9}, std::pair{0.07, 0.6}}) {
    Surface surface(
        [above = above](const Setting& at) { return at.momentum == 0.9 ? 1 + above : 1.0; });
    const auto found = surface.steady({1, 0.9, 0.01});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->momentum, chosen) << above;
  }
}

TEST(Search, in_the_cold_start_any_lower_loss_wins) {
  Surface surface([](const Setting& at) { return at.learning_rate < 0.009 ? 1.0 : 1.001; });
  const auto found = surface.cold({1, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->learning_rate, 0.001, 1e-12);
}

// Ten times the right rate gets a little further in a few iterations (the losses of a perceptron).
TEST(Search, in_the_cold_start_a_larger_rate_must_still_bring_something) {
  const auto loss_of_perceptron = [](const Setting& at) {
    return at.learning_rate < 0.01 ? 1.779 : at.learning_rate < 0.1 ? 0.952 : 0.818;
  };
  Surface enough(loss_of_perceptron);
  const auto found = enough.cold({1, 0.9, 0.02});
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->learning_rate, 0.02, 1e-12);
  EXPECT_EQ(enough.trials.at(0).reason, "above the lowest loss, with a rate that is safer");
  EXPECT_EQ(enough.trials.at(2).reason, "hardly lower, with a larger step");
  // A tenth of it is too small: there the same losses say so.
  Surface too_small(loss_of_perceptron);
  const auto larger = too_small.cold({1, 0.9, 0.002});
  ASSERT_TRUE(larger);
  EXPECT_NEAR(larger->learning_rate, 0.02, 1e-12);
}

// Two losses each, that differ by 0.4 more or less between neighbours: a standard error of 0.4.
TEST(Search, differences_within_two_standard_errors_do_not_count) {
  for (const auto& [above, chosen] : {std::pair{0.75, 0.01}, std::pair{0.85, 0.001}}) {
    Surface surface(
        [above = above](const Setting& at) { return at.learning_rate > 5e-3 ? 1 + above : 1; });
    surface.noise = 0.2;
    const auto found = surface.steady({1, 0.9, 0.01});
    ASSERT_TRUE(found);
    EXPECT_NEAR(found->learning_rate, chosen, 1e-12) << above;
  }
}

TEST(Search, the_tuned_momentum_is_one_of_the_points) {
  Surface surface(bowl(0.85, 0.01));
  const auto found = surface.steady({1, 0.85, 0.01});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->momentum, 0.85);
}

TEST(Search, where_nothing_is_learnt_the_rate_stays) {
  Surface surface([](const Setting&) { return 2.3; });
  const auto found = surface.steady({1, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "1 group, momentum 0.9, rate 0.01");
}

TEST(Search, halves_the_groups_while_asynchrony_alone_gives_more_momentum) {
  // Eight groups have 0.875 already, four 0.75, two 0.5.
  Surface surface(bowl(0.6, 0.01));
  const auto found = surface.steady({8, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "2 groups, momentum 0.6, rate 0.01");
  EXPECT_TRUE(std::ranges::any_of(surface.trials, [](const Trial& trial) {
    return trial.setting.groups == 8 &&
           trial.reason == "asynchrony alone gives more momentum: too many groups";
  }));
}

TEST(Search, momenta_that_no_compensation_could_keep_are_tried_once) {
  // Eight groups: 0.6, 0.3 and 0 would all be trained with the lowest explicit momentum.
  Surface surface(bowl(0, 0.01));
  ASSERT_TRUE(surface.steady({8, 0.9, 0.01}));
  EXPECT_TRUE(surface.has_tried(0.6, 0.01));
  for (const Trial& trial : surface.trials)
    if (trial.setting.groups == 8) {
      EXPECT_GE(trial.setting.momentum, 0.6);
    }
}

TEST(Search, numbers_of_groups_that_leave_no_room_are_not_tried) {
  EXPECT_EQ(groups_with_room(64, 0.9), 8);
  EXPECT_EQ(groups_with_room(6, 0.9), 6);
  EXPECT_EQ(groups_with_room(64, 0.99), 64);
  Surface surface(bowl(0.9, 0.01));
  ASSERT_TRUE(surface.steady({64, 0.9, 0.01}));
  for (const Trial& trial : surface.trials) EXPECT_LE(trial.setting.groups, 8);
}

TEST(Search, momentum_that_is_right_decides_how_many_groups_there_may_be) {
  for (const auto& [groups, left] : {std::pair{2, 2}, std::pair{8, 8}, std::pair{16, 8}}) {
    Surface surface(bowl(0.9, 0.01));
    const auto found = surface.steady({groups, 0.9, 0.01});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->groups, left);
    EXPECT_EQ(found->momentum, 0.9);
  }
}

// ---- the known defects of the published optimizer ----
// (b), (e) and (f) concern whole trainings: tuned_training_test.cpp and auto_test.cpp have them.
// (c), a kind of device that another script did not know, has nothing to be about here: groups are
// made of worker numbers, and no part of the optimizer asks what kind a worker is.

TEST(KnownDefects, a_no_momentum_with_one_group_ends_the_search) {
  Surface surface(bowl(-0.5, 0.01));
  const auto found = surface.steady({4, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "1 group, momentum 0, rate 0.01");
}

TEST(KnownDefects, d_a_rate_on_the_boundary_is_extended) {
  for (const double best : {1e-5, 1e-4, 1e-3, 0.1, 1.0}) {
    Surface surface(bowl(0.9, best));
    const auto found = surface.steady({1, 0.9, 0.01});
    ASSERT_TRUE(found);
    EXPECT_NEAR(found->learning_rate / best, 1, 1e-9);
    Surface cold(bowl(0.9, best));
    const auto rate = cold.cold({1, 0.9, 0.01});
    ASSERT_TRUE(rate);
    EXPECT_NEAR(rate->learning_rate / best, 1, 1e-9);
  }
}

TEST(KnownDefects, g_when_all_diverge_the_rate_is_lowered) {
  Surface surface([](const Setting& at) {
    return at.learning_rate > 2e-5 ? std::nullopt : bowl(0.6, 1e-5)(at);
  });
  const auto found = surface.steady({1, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->learning_rate, 1e-5, 1e-12);
  EXPECT_EQ(found->momentum, 0.6);
}

TEST(KnownDefects, g_when_nothing_helps_the_error_says_so) {
  for (const int groups : {1, 4}) {
    Surface surface([](const Setting&) { return std::nullopt; });
    const auto found = surface.steady({groups, 0.9, 0.01});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, ErrorKind::diverged);
    EXPECT_THAT(found.error().message(), HasSubstr("trials diverged, down to the learning rate"));
    for (const Trial& trial : surface.trials) EXPECT_EQ(trial.reason, "diverged");
  }
}

TEST(KnownDefects, g_what_only_more_groups_survive_is_used) {
  Surface surface(
      [](const Setting& at) { return at.groups == 1 ? std::nullopt : bowl(-0.5, 0.01)(at); });
  const auto found = surface.steady({2, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "2 groups, momentum 0.15, rate 0.01");
}

TEST(Search, ends_when_no_more_trials_can_be_afforded) {
  // The smaller the better, for ever.
  Surface surface([](const Setting& at) { return 1e9 * at.learning_rate; });
  surface.affordable = 8;
  ASSERT_TRUE(surface.steady({1, 0.9, 0.01}));
  EXPECT_EQ(surface.trials.size(), 8u);
}

TEST(Search, groups_are_not_halved_when_no_more_trials_can_be_afforded) {
  Surface surface(bowl(0, 0.01));
  surface.affordable = 3;
  const auto found = surface.steady({8, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "8 groups, momentum 0.787, rate 0.01");
  const auto chosen = std::ranges::find_if(surface.trials, &Trial::chosen);
  ASSERT_NE(chosen, surface.trials.end());
  EXPECT_EQ(chosen->reason, "the best, and no trials were left for fewer groups");
}

TEST(Search, without_any_budget_there_is_still_a_choice) {
  Surface surface([](const Setting& at) {
    return at.learning_rate > 0.005 ? std::nullopt : std::optional(1.0);
  });
  surface.affordable = 0;
  const auto found = surface.steady({1, 0.9, 0.01});
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "1 group, momentum 0.9, rate 0.001");
}

TEST(Search, a_trial_that_cannot_run_ends_it) {
  int left = 3;
  std::vector<Trial> trials;
  const TrialRunner runner{.run = [&](const Setting& setting) -> Result<Trial> {
                             if (--left == 0)
                               return Error{ErrorKind::interrupted, "", "stopped", ""};
                             Trial trial;
                             trial.setting = setting;
                             trial.score = 1;
                             return trial;
                           },
                           .keep = [] {},
                           .can_afford_more = [] { return true; },
                           .refused = {}};
  const auto found = search_setting({1, 0.9, 0.01}, runner, trials);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::interrupted);
  EXPECT_EQ(trials.size(), 2u);
}

}  // namespace
}  // namespace omni
