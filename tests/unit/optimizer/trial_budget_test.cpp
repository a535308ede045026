// The trials of whole trainings cost about a tenth of them, whatever the searches find.
#include "scheduling/optimizer/trial_budget.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "scheduling/optimizer/search.hpp"

namespace omni {
namespace {

// Trains for epochs that double, a search before each; trials that diverge end after a fifth, the
// winner's first half is kept.
class PlayedTraining {
 public:
  using Loss = std::function<std::optional<double>(const Setting&)>;
  explicit PlayedTraining(Loss loss) : loss_(std::move(loss)) {}

  // The share of all iterations that was done in vain.
  double lost(Setting setting, int searches) {
    std::uint64_t trained = 0, epoch = 4000;
    for (int search = 0; search < searches; ++search, epoch *= 2) {
      budget_.grant(trained, trained + epoch);
      std::vector<Trial> trials;
      const std::uint64_t length = budget_.trial_length(4);
      const auto run = [&](const Setting& at) -> Result<Trial> {
        Trial trial;
        trial.setting = at;
        trial.score = loss_(at);
        if (trial.score) trial.losses.assign(10, *trial.score);
        trial.iterations = trial.score ? length : length / 5;
        budget_.lose(trial.iterations);
        lost_ += trial.iterations;
        ++trials_;
        return trial;
      };
      const auto found =
          search_setting(setting,
                         {.run = run,
                          .keep = [] {},
                          .can_afford_more = [this] { return budget_.can_afford_more(); }},
                         trials);
      EXPECT_TRUE(found);
      budget_.keep(length / 2);
      lost_ -= length / 2;
      setting = *found;
      trained += epoch;
    }
    return static_cast<double>(lost_) / static_cast<double>(trained);
  }
  int trials() const { return trials_; }

 private:
  Loss loss_;
  TrialBudget budget_;
  std::uint64_t lost_ = 0;
  int trials_ = 0;
};

TEST(TrialBudget, a_tenth_is_lost_when_searches_need_all_trials) {
  // Every search finds that fewer groups, no momentum and a smaller rate would be better.
  PlayedTraining training([](const Setting& at) {
    return std::optional(at.groups * (1 + at.momentum) * at.learning_rate);
  });
  const double lost = training.lost({16, 0.9, 0.1}, 6);
  EXPECT_GT(lost, 0.08);
  EXPECT_LT(lost, 0.12);
}

TEST(TrialBudget, less_is_lost_when_the_setting_stays) {
  PlayedTraining training([](const Setting& at) {
    return std::optional(2 - at.momentum + std::fabs(std::log10(at.learning_rate) + 2));
  });
  const double lost = training.lost({1, 0.9, 0.01}, 6);
  EXPECT_GT(lost, 0.02);
  EXPECT_LT(lost, 0.1);
}

TEST(TrialBudget, divergence_does_not_cost_more) {
  PlayedTraining training([](const Setting& at) {
    return at.learning_rate > 1e-5 || at.momentum > 0.5 ? std::nullopt : std::optional(1.0);
  });
  EXPECT_LT(training.lost({8, 0.9, 0.1}, 4), 0.12);
}

TEST(TrialBudget, the_longer_the_training_the_longer_the_trials) {
  TrialBudget budget;
  EXPECT_EQ(budget.trial_length(4), TrialBudget::kLeastTrial);
  EXPECT_FALSE(budget.can_afford_more());
  budget.grant(0, 4000);
  EXPECT_EQ(budget.trial_length(4), 100u);
  budget.lose(300);
  EXPECT_TRUE(budget.can_afford_more());
  budget.lose(300);
  EXPECT_FALSE(budget.can_afford_more());
  budget.grant(4000, 12000);
  EXPECT_EQ(budget.trial_length(4), 150u) << "the search before took too much";
}

TEST(TrialBudget, a_search_that_begins_again_is_not_granted_again) {
  TrialBudget budget;
  budget.grant(100, 4100);
  EXPECT_EQ(budget.left(), 400);
  budget.lose(90);
  TrialBudget resumed(budget.left(), budget.granted());
  resumed.grant(100, 4100);
  EXPECT_EQ(resumed.left(), 310);
  resumed.grant(200, 4200);  // after what the first search had found
  EXPECT_EQ(resumed.left(), 320);
}

}  // namespace
}  // namespace omni
