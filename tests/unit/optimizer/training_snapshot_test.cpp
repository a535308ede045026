// What trials and returns leave behind: snapshots bring back everything, whatever came between.
#include "tests/unit/optimizer/auto_training.hpp"

namespace omni {
namespace {

// A view of fewer groups than were made trains as if no others were there.
TEST_F(AutoTraining, fewer_groups_than_were_made_train_alike) {
  const auto train_with = [this](int made, int used) {
    make(made, "learning_rate=0.05\nmomentum=0.9\n");
    groups_->use(used, 2);
    Trainer trainer(*groups_, *feed_, nullptr, {.seed = 1},
                    {.iterations = 30, .strategy = async(Asynchrony::reproducible)}, {});
    EXPECT_TRUE(trainer.run());
    return masters();
  };
  EXPECT_EQ(train_with(4, 2), train_with(2, 2));
  EXPECT_EQ(train_with(4, 1), train_with(1, 1));
}

TEST_F(AutoTraining, a_snapshot_brings_everything_back) {
  make(3, "learning_rate=0.05\nmomentum=0.9\n");
  const auto go_on = [this](const TrainingState& state, std::uint64_t until) {
    Trainer trainer(*groups_, *feed_, nullptr, state,
                    {.until = until, .strategy = async(Asynchrony::reproducible)}, {});
    EXPECT_TRUE(trainer.run());
    return trainer.state();
  };
  const TrainingState at = go_on({.seed = 1}, 20);
  TrainingSnapshot snapshot;
  snapshot.take(*groups_, at);
  const TrainingState after = go_on(at, 40);
  const auto expected = masters();
  go_on(after, 50);
  snapshot.restore(*groups_);
  EXPECT_EQ(snapshot.state().iteration, 20u);
  go_on(snapshot.state(), 40);
  EXPECT_EQ(masters(), expected);
}

// A training that diverges leaves nothing behind: no task, no mini-batch in the feed.
TEST_F(AutoTraining, after_a_divergence_the_next_training_works) {
  make(2, "learning_rate=0.05\nmomentum=0.9\n");
  TrainingSnapshot snapshot;
  snapshot.take(*groups_, {.seed = 1});
  for (const Asynchrony asynchrony : {Asynchrony::free, Asynchrony::reproducible})
    for (int repeat = 0; repeat < 20; ++repeat) {
      snapshot.restore(*groups_);
      TrainingState state{.seed = 1};
      state.tuning = Tuning{.momentum = 0.9, .learning_rate = 1e30};
      Trainer diverging(*groups_, *feed_, nullptr, state,
                        {.iterations = 100, .strategy = async(asynchrony)}, {});
      const Status trained = diverging.run();
      ASSERT_FALSE(trained);
      EXPECT_EQ(trained.error().kind, ErrorKind::diverged);
    }
  snapshot.restore(*groups_);
  Trainer trainer(*groups_, *feed_, nullptr, {.seed = 1}, {.iterations = 10}, {});
  EXPECT_TRUE(trainer.run());
}

}  // namespace
}  // namespace omni
