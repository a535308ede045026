// These tests check that a snapshot restores all of a training's state, whatever was trained
// between take() and restore().
#include "tests/unit/pilots/auto_training.hpp"

namespace omni {
namespace {

// If four groups were made but only two are used, the training equals one with two groups.
TEST_F(AutoTraining, fewer_groups_than_were_made_train_alike) {
  const auto train_with = [this](int made, int used) {
    make(made, "learning_rate=0.05\nmomentum=0.9\n");
    groups_->use(used, 2);
    Trainer trainer(
        *groups_, *feed_, nullptr, {.seed = 1},
        {.iterations = 30, .solver = solver_, .strategy = async(Asynchrony::reproducible)}, {});
    EXPECT_TRUE(trainer.run());
    return masters();
  };
  EXPECT_EQ(train_with(4, 2), train_with(2, 2));
  EXPECT_EQ(train_with(4, 1), train_with(1, 1));
}

TEST_F(AutoTraining, a_snapshot_brings_everything_back) {
  make(3, "learning_rate=0.05\nmomentum=0.9\n");
  const auto go_on = [this](const TrainingState& state, std::uint64_t until) {
    Trainer trainer(
        *groups_, *feed_, nullptr, state,
        {.iterations = until, .solver = solver_, .strategy = async(Asynchrony::reproducible)}, {});
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

// A checkpoint holds the seconds, the average accuracy, and whether an evaluation is due. Older
// checkpoints lack these three values.
TEST_F(AutoTraining, progress_is_in_the_checkpoint_or_begins_anew) {
  make(1, "learning_rate=0.05\n");
  std::filesystem::create_directory(folder_ / "run");
  auto store = CheckpointStore::open(folder_ / "run", {});
  ASSERT_TRUE(store) << store.error().message();
  const TrainingState state{.seed = 1,
                            .iteration = 10,
                            .samples = 60,
                            .average_loss = 1,
                            .average_accuracy = 0.25,
                            .seconds = 2.5,
                            .owes_evaluation = true};
  const auto path = save_training(*store, *groups_, state, {});
  ASSERT_TRUE(path) << path.error().message();
  auto checkpoint = load_checkpoint(*path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  const auto restored = restore_training(*groups_, *checkpoint, "", "async");
  ASSERT_TRUE(restored) << restored.error().message();
  EXPECT_EQ(restored->average_accuracy, 0.25);
  EXPECT_EQ(restored->seconds, 2.5);
  EXPECT_TRUE(restored->owes_evaluation);

  const auto with = [&](std::string_view key, const std::string& value) {
    auto entries = checkpoint->fields.entries();
    for (const char* each : {"average_accuracy", "seconds", "owes_evaluation"})
      entries.erase(entries.find(each));
    checkpoint->fields = CheckpointFields(entries, "save");
    if (!key.empty()) checkpoint->fields.set(key, value);
    auto read = restore_training(*groups_, *checkpoint, "", "async");
    checkpoint->fields.set("average_accuracy", 0.25);
    checkpoint->fields.set("seconds", 2.5);
    checkpoint->fields.set("owes_evaluation", 1);
    return read;
  };
  const auto older = with("", "");
  ASSERT_TRUE(older) << older.error().message();
  EXPECT_FALSE(older->average_accuracy);
  EXPECT_EQ(older->seconds, 0);
  EXPECT_FALSE(older->owes_evaluation);
  for (const auto& [key, value] :
       {std::pair("average_accuracy", "nan"), std::pair("average_accuracy", "1.5"),
        std::pair("seconds", "-1"), std::pair("owes_evaluation", "2")}) {
    const auto damaged = with(key, value);
    ASSERT_FALSE(damaged) << key;
    EXPECT_NE(damaged.error().message().find(key), std::string::npos);
  }
}

// After a training diverges, no task and no mini-batch of it is left in the feed.
TEST_F(AutoTraining, after_a_divergence_the_next_training_works) {
  make(2, "learning_rate=0.05\nmomentum=0.9\n");
  TrainingSnapshot snapshot;
  snapshot.take(*groups_, {.seed = 1});
  for (const Asynchrony asynchrony : {Asynchrony::free, Asynchrony::reproducible})
    for (int repeat = 0; repeat < 20; ++repeat) {
      snapshot.restore(*groups_);
      test::Steered steered({.momentum = 0.9, .learning_rate = 1e30});
      Trainer diverging(*groups_, *feed_, nullptr, {.seed = 1},
                        {.iterations = 100, .strategy = async(asynchrony)}, {}, {&steered});
      const Status trained = diverging.run();
      ASSERT_FALSE(trained);
      EXPECT_EQ(trained.error().kind, ErrorKind::diverged);
    }
  snapshot.restore(*groups_);
  Trainer trainer(*groups_, *feed_, nullptr, {.seed = 1}, {.iterations = 10, .solver = solver_},
                  {});
  EXPECT_TRUE(trainer.run());
}

}  // namespace
}  // namespace omni
