// These tests run --auto in real trainings. Trials begin at the training's next sample, the
// winner's progress is kept, and all other trials leave no trace.
#include "tests/unit/pilots/auto_training.hpp"

namespace omni {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST_F(AutoTraining, trains_to_the_end_and_says_what_it_chose) {
  make(2, "learning_rate=0.05\nmomentum=0.9\n");
  const Status trained = train(2400);
  ASSERT_TRUE(trained) << trained.error().message();
  EXPECT_EQ(state_.iteration, 2400u);
  EXPECT_LT(reports_.back().average_loss, 0.8);
  EXPECT_GE(trials_.size(), 3u);
  EXPECT_THAT(said_, Contains(AllOf(HasSubstr("auto: chose trial "), HasSubstr("1 group"))));
  EXPECT_THAT(said_, Contains(HasSubstr("auto: per iteration ")));
  for (const Trial& trial : trials_) EXPECT_NE(trial.reason, "");
}

// A training without trials that uses the chosen settings in the same iterations must end with the
// same parameters.
TEST_F(AutoTraining, only_what_the_winners_did_remains) {
  make(1, "learning_rate=0.05\nmomentum=0.9\n");
  const Status trained = train(2400);
  ASSERT_TRUE(trained) << trained.error().message();
  EXPECT_EQ(tuning_.returns, 0u) << "another training would be needed";
  const auto tuned = masters();
  std::vector<std::pair<std::uint64_t, Setting>> chosen;
  for (std::size_t i = 0; i < trials_.size(); ++i)
    if (trials_[i].chosen) chosen.emplace_back(began_[i], trials_[i].setting);
  ASSERT_GE(chosen.size(), 2u);

  make(1, "learning_rate=0.05\nmomentum=0.9\n");
  TrainingState state{.seed = 1};
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Setting& setting = chosen[i].second;
    test::Steered steered({.momentum = setting.momentum,
                           .learning_rate = setting.learning_rate,
                           .cool_from = 1800,
                           .cool_until = 2400});
    Trainer trainer(
        *groups_, *feed_, nullptr, state,
        {.iterations = i + 1 < chosen.size() ? chosen[i + 1].first : 2400, .solver = solver_}, {},
        {&steered});
    ASSERT_TRUE(trainer.run());
    state = trainer.state();
  }
  EXPECT_EQ(masters(), tuned);
  EXPECT_EQ(state.average_loss, state_.average_loss);
}

TEST_F(AutoTraining, trials_cost_about_a_tenth) {
  for (const double rate : {0.05, 0.0005, 5.0}) {
    make(1, fmt::format("learning_rate={}\nmomentum=0.9\n", rate));
    ASSERT_TRUE(train(4000));
    EXPECT_GT(lost_, 50u) << rate;
    EXPECT_LT(lost_, 500u) << rate;
  }
}

TEST_F(AutoTraining, the_rate_falls_at_the_end) {
  make(1, "learning_rate=0.05\nmomentum=0.9\n");
  ASSERT_TRUE(train(2400));
  const auto rate_at = [this](std::uint64_t iteration) {
    return std::ranges::find(reports_, iteration, &StepReport::iteration)->learning_rate;
  };
  EXPECT_FLOAT_EQ(rate_at(1800), rate_at(1700));
  EXPECT_NEAR(rate_at(2100), rate_at(1800) / 2, 0.01 * rate_at(1800));
  EXPECT_LT(rate_at(2400), 0.01 * rate_at(1800));
  EXPECT_GT(rate_at(2400), 0);
}

TEST_F(AutoTraining, a_policy_of_the_net_is_left_alone) {
  make(1, "learning_rate=0.05\nmomentum=0.9\npolicy=steps\nsteps=500\nscales=0.1\n");
  ASSERT_TRUE(train(2400));
  EXPECT_FLOAT_EQ(reports_.back().learning_rate, 0.1f * static_cast<float>(tuning_.learning_rate));
}

TEST_F(AutoTraining, too_few_iterations_are_trained_without_trials) {
  make(2, "learning_rate=0.05\nmomentum=0.8\n");
  ASSERT_TRUE(train(50));
  EXPECT_EQ(state_.iteration, 50u);
  EXPECT_TRUE(trials_.empty());
  EXPECT_THAT(said_, Contains(AllOf(HasSubstr("50 iterations are too few for trials"),
                                    HasSubstr("momentum 0.8, rate 0.05"))));
}

TEST_F(AutoTraining, no_trial_while_the_rate_rises) {
  make(1, "learning_rate=0.05\nmomentum=0.9\nburn_in=30\n");
  ASSERT_TRUE(train(1900));
  ASSERT_FALSE(began_.empty());
  EXPECT_EQ(began_.front(), 30u);
}

TEST_F(AutoTraining, when_every_rate_diverges_the_error_says_so) {
  make(1, "learning_rate=1e30\nmomentum=0.9\n");
  const Status trained = train(1900);
  ASSERT_FALSE(trained);
  EXPECT_EQ(trained.error().kind, ErrorKind::diverged);
  EXPECT_THAT(trained.error().message(), HasSubstr("--auto: all"));
  EXPECT_THAT(trained.error().message(), HasSubstr("lower --learning-rate"));
}

// With this learning rate the training is lost between two searches.
TEST_F(AutoTraining, a_training_that_is_lost_goes_back_with_smaller_steps) {
  make(1, "learning_rate=0.05\nmomentum=0.9\n");
  TrainingState state =
      tuned_state({.momentum = 0.9, .learning_rate = 1e4, .warm = true, .next_search = UINT64_MAX});
  state.iteration = state.samples = 0;
  const Status trained = train(1500, state);
  EXPECT_GT(tuning_.returns, 0u);
  EXPECT_LE(tuning_.learning_rate, 5e3);
  EXPECT_LE(tuning_.failed.at(1), 1e5);
  ASSERT_TRUE(trained) << trained.error().message() << tuning_.returns;
}

TEST_F(AutoTraining, goes_on_with_what_was_found) {
  make(2, "learning_rate=0.05\nmomentum=0.9\n");
  groups_->use(1, 2);
  TrainingState state =
      tuned_state({.momentum = 0.3, .learning_rate = 0.02, .warm = true, .next_search = 1100});
  ASSERT_TRUE(train(300, state));
  EXPECT_TRUE(trials_.empty());
  EXPECT_THAT(said_, Contains("auto: goes on with 1 group, momentum 0.3, rate 0.02"));
  EXPECT_FLOAT_EQ(reports_.front().learning_rate, 0.02f);
  EXPECT_DOUBLE_EQ(reports_.back().momentum.explicit_part, static_cast<double>(0.3f));
}

TEST_F(AutoTraining, says_who_is_in_which_group) {
  make(2, "learning_rate=0.05\nmomentum=0.9\n");
  TrainingState state =
      tuned_state({.momentum = 0.9, .learning_rate = 0.02, .warm = true, .next_search = 1100});
  ASSERT_TRUE(train(300, state));
  EXPECT_THAT(said_,
              Contains("auto: 2 compute groups on workers " + describe(spread_groups(2, 2))));
}

// The checkpoint has 3 groups, more than are worth it. Trials with 1 group and with 3 groups must
// take about the same time.
TEST_F(AutoTraining, groups_beyond_saturation_are_timed_when_they_are_in_use) {
  simulate();
  make(3, "learning_rate=0.05\nmomentum=0.9\n");
  TrainingState state =
      tuned_state({.momentum = 0.9, .learning_rate = 0.02, .warm = true, .next_search = 100});
  const Status trained = train(3000, state, Asynchrony::reproducible);
  ASSERT_TRUE(trained) << trained.error().message();
  EXPECT_THAT(said_, Contains(AllOf(HasSubstr(" with 3: trials with up to 1 "))));
  std::map<int, std::uint64_t> most;  // iterations of a trial, by groups
  for (std::size_t i = 0; i < trials_.size() && began_[i] == 100; ++i) {
    std::uint64_t& known = most[trials_[i].setting.groups];
    known = std::max(known, trials_[i].iterations);
  }
  ASSERT_EQ(most.size(), 2u);
  EXPECT_LE(most.at(1), 6 * most.at(3));  // three times as fast; else 17
}

// The checkpoint holds what earlier searches found and what they cost.
TEST_F(AutoTraining, a_resumed_search_knows_the_ones_before) {
  make(2, "learning_rate=0.05\nmomentum=0.9\n");
  TrainingState state = tuned_state({.momentum = 0.9,
                                     .learning_rate = 0.02,
                                     .warm = true,
                                     .next_search = 100,
                                     .returns = 2,
                                     .failed = {{1, 0.3}}},
                                    7);
  std::filesystem::create_directory(folder_ / "run");
  auto store = CheckpointStore::open(folder_ / "run", {.keep = 100, .program = {}});
  ASSERT_TRUE(store) << store.error().message();
  const auto path = save_training(*store, *groups_, state, {});
  ASSERT_TRUE(path) << path.error().message();
  const auto checkpoint = load_checkpoint(*path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  const auto restored = restore_training(*groups_, *checkpoint, "", "async");
  ASSERT_TRUE(restored) << restored.error().message();
  EXPECT_EQ(restored->pilots.at("tuned"), state.pilots.at("tuned"));

  groups_->use(1, 2);
  const Status trained = train(3000, *restored);
  ASSERT_TRUE(trained) << trained.error().message() << testing::PrintToString(said_);
  ASSERT_FALSE(trials_.empty());
  for (const Trial& trial : trials_) EXPECT_LT(step_of(trial.setting), 0.3);
}

// The learning rate is far too high, so the training goes back several times. A checkpoint also
// holds the snapshots to go back to, so a training that resumes ends with the same parameters.
TEST_F(AutoTraining, from_every_checkpoint_a_training_ends_as_if_it_had_not_stopped) {
  std::filesystem::create_directory(folder_ / "run");
  auto store = CheckpointStore::open(folder_ / "run", {.keep = 100, .program = {}});
  ASSERT_TRUE(store) << store.error().message();
  std::vector<std::filesystem::path> checkpoints;
  on_save_ = [&](const TrainingState& at) {
    const auto path = save_training(*store, *groups_, at, {});
    ASSERT_TRUE(path) << path.error().message();
    checkpoints.push_back(*path);
  };
  checkpoint_every_ = 130;
  const std::string solver = "learning_rate=0.05\nmomentum=0.9\n";
  make(1, solver);
  TrainingState start =
      tuned_state({.momentum = 0.9, .learning_rate = 30, .warm = true, .next_search = UINT64_MAX});
  start.iteration = start.samples = 0;
  ASSERT_TRUE(train(800, start));
  EXPECT_GT(tuning_.returns, 0u) << "no way back is shown";
  const auto undisturbed = masters();
  on_save_ = {};
  ASSERT_GE(checkpoints.size(), 5u);
  for (const auto& path : checkpoints) {
    const auto checkpoint = load_checkpoint(path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message();
    make(1, solver);
    const auto restored = restore_training(*groups_, *checkpoint, "", "async");
    ASSERT_TRUE(restored) << restored.error().message();
    ASSERT_TRUE(train(800, *restored));
    EXPECT_EQ(masters(), undisturbed) << path;
  }
}

// The first return after a resume goes to the older of the good states in the checkpoint. The
// second return goes to the state before the search.
TEST_F(AutoTraining, a_resumed_training_returns_twice_as_the_undisturbed_one) {
  const std::string solver = "learning_rate=0.05\nmomentum=0.9\n";
  checkpoint_every_ = 500;
  make(1, solver);
  ASSERT_TRUE(train(700));
  ASSERT_FALSE(saved_.empty());
  TrainingState state = saved_.front();
  make(1, solver);
  Tuning tuning{.momentum = 0.9, .learning_rate = 1e6, .warm = true, .next_search = UINT64_MAX};
  std::vector<double>& numbers = state.pilots.at("tuned");
  const std::vector<double> own = tuning.numbers(0);
  ASSERT_GT(numbers.size(), own.size());
  const auto failed = static_cast<std::ptrdiff_t>(2 * numbers[own.size() - 1]);
  numbers.erase(numbers.begin(), numbers.begin() + std::ssize(own) + failed);
  numbers.insert(numbers.begin(), own.begin(), own.end());
  for (const std::uint64_t iteration : {10u, 20u, 30u}) {
    auto snapshot = std::make_shared<TrainingSnapshot>();
    snapshot->take(*groups_, {.seed = 1, .iteration = iteration}, false);
    state.kept["tuned"].push_back(std::move(snapshot));
  }
  (void)train(1500, state);  // may end as diverged
  ASSERT_GE(returned_to_.size(), 2u);
  EXPECT_EQ(returned_to_[0], 10u) << "the older good state";
  EXPECT_EQ(returned_to_[1], 30u) << "the one before the search";
}

// The iterations that a stopped search has cost are saved. Otherwise a run that is stopped in every
// search could spend as many again each time.
TEST_F(AutoTraining, what_a_stopped_search_lost_is_saved) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a stop is asked for once in a process
  const auto stop_in_a_search = [this] {
    install_stop_signals("", 1);
    stop_in_order();
    stop_in_a_search_ = true;
    simulate();
    make(1, "learning_rate=0.05\nmomentum=0.9\n");
    TrainingState state =
        tuned_state({.momentum = 0.9, .learning_rate = 0.02, .warm = true, .next_search = 100});
    state.arrivals = arrivals_at(5);
    const Status trained = train(3000, state);
    const bool well = !trained && trained.error().kind == ErrorKind::interrupted &&
                      saved_.size() == 1 && saved_[0].iteration == 100 &&
                      saved_[0].pilots.at("tuned")[6] > 0 && !saved_[0].arrivals &&
                      saved_[0].simulated_before > 5;
    std::_Exit(well ? 0 : 1);  // StarPU still runs
  };
  EXPECT_EXIT(stop_in_a_search(), testing::ExitedWithCode(0), "");
}

// After a search the training starts a new virtual clock. So does a training that resumes from a
// checkpoint at the end of the search.
TEST_F(AutoTraining, simulated_time_is_counted_once) {
  simulate();
  make(1, "learning_rate=0.05\nmomentum=0.9\n");
  TrainingState state =
      tuned_state({.momentum = 0.9, .learning_rate = 0.02, .warm = true, .next_search = 100});
  state.arrivals = arrivals_at(5);
  checkpoint_every_ = 1;
  const Status trained = train(1500, state, Asynchrony::reproducible);
  ASSERT_TRUE(trained) << trained.error().message();
  ASSERT_FALSE(saved_.empty());
  // The first checkpoint is saved after the search.
  EXPECT_GT(saved_.front().iteration, 101u);
  EXPECT_FALSE(saved_.front().arrivals);
  EXPECT_GT(saved_.front().simulated_before, 5);
  ASSERT_GT(saved_.size(), 1u);
  EXPECT_EQ(saved_[1].simulated_before, saved_.front().simulated_before);
  // The line on the terminal and the line in the file show the same simulated time.
  ASSERT_EQ(drawn_.size(), reports_.size());
  for (std::size_t i = 0; i < drawn_.size(); ++i)
    EXPECT_EQ(drawn_[i].simulated_seconds, reports_[i].simulated_seconds);
}

}  // namespace
}  // namespace omni
