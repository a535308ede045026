// These tests check what a guarded training does when its parameters turn bad behind the losses
// that it sees.
#include "scheduling/pilots/guard.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/subset.hpp"
#include "scheduling/checkpoint/training_checkpoint.hpp"
#include "tests/support/deterministic_session.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

const std::string kGuardedNet = test::net(12, {8, 8, 1}, "learning_rate=0.02\nmomentum=0.5\n") +
                                test::convolutional(4, "tanh", "batch_normalize=1\n") +
                                test::connected(3) + test::layer("softmax");

// A window is this many losses, those of 1024 images.
constexpr std::uint64_t kWindow = 85, kSnapshot = 2 * kWindow;

class Guarded : public test::DeterministicSession {
 protected:
  struct Trained {
    std::vector<std::vector<float>> at_snapshot, last, end;
    std::vector<double> losses, shares;
    std::string warnings;
  };
  // After the iterations that `scales` names, all weights are multiplied by its factors. The guard
  // begins after `before` iterations.
  static Trained train(std::uint64_t iterations, std::map<std::uint64_t, float> scales = {},
                       int groups = 2, std::uint64_t before = 0) {
    test::GroupTraining run(kGuardedNet, groups);
    Trained result;
    Guard guard;
    Trainer unguarded(run.groups, *run.feed, nullptr, run.state,
                      {.iterations = before, .strategy = async(Asynchrony::reproducible)}, {});
    if (before > 0) {
      EXPECT_TRUE(unguarded.run());
    }
    result.shares.resize(before);
    Trainer trainer(run.groups, *run.feed, nullptr, unguarded.state(),
                    {.iterations = iterations, .strategy = async(Asynchrony::reproducible)},
                    {.on_iteration =
                         [&](const StepReport& at) {
                           result.losses.push_back(at.loss);
                           if (at.iteration == iterations) result.last = run.masters();
                           if (at.iteration == kSnapshot) result.at_snapshot = run.masters();
                           result.shares.push_back(guard.steering().share);
                           if (!scales.contains(at.iteration)) return;
                           const float scale = std::exchange(scales[at.iteration], 1);
                           for (const Param* param : run.groups.net().params()) {
                             auto values = test::values(*param->master);
                             for (float& value : values) value *= scale;
                             test::set(*param->master, values);
                           }
                         },
                     .warn = [&](const std::string& text) { result.warnings += text + "\n"; }},
                    {&guard});
    const Status trained = trainer.run();
    EXPECT_TRUE(trained) << trained.error().message();
    result.end = run.masters();
    return result;
  }
};

// The parameters are spoiled after the last iteration, so no loss shows it.
TEST_F(Guarded, a_result_that_is_worse_than_before_is_not_kept) {
  const Trained spoiled = train(200, {{200, 0.f}}), plain = train(200);
  EXPECT_EQ(plain.losses, spoiled.losses);
  EXPECT_EQ(spoiled.end, spoiled.at_snapshot);
  EXPECT_EQ(plain.end, plain.last) << "also running statistics";
}

// The first window of losses after a snapshot is higher than before, but not high enough to count
// as lost.
TEST_F(Guarded, a_snapshot_that_is_worse_than_the_one_before_is_left) {
  const std::string said = train(600, {{2 * kSnapshot, 0.5f}}).warnings;
  const auto number = std::to_string(2 * kSnapshot + kWindow);
  EXPECT_NE(said.find("in iteration " + number + ": back to the parameters of iteration 170"),
            said.npos)
      << said;
}

// The mean of all losses since a snapshot is higher than before. The first window is good, and the
// other losses are not high enough to count as lost.
TEST_F(Guarded, a_stretch_that_is_worse_than_the_one_before_is_left) {
  const std::string said = train(520, {{2 * kSnapshot + kWindow, 0.3f}}).warnings;
  EXPECT_NE(said.find("in iteration 510: back to the parameters of iteration 340"), said.npos)
      << said;
}

// After the share of the rate has grown, losses are a few standard errors higher. The guard then
// takes the smaller share again, but does not restore earlier parameters.
TEST_F(Guarded, a_share_that_has_grown_is_given_up_when_losses_are_a_little_higher) {
  const std::uint64_t judged = 3 * kSnapshot;
  const Trained with = train(1030, {{2 * kSnapshot + 5, 0.385f}}, 4), without = train(1030, {}, 4);
  EXPECT_EQ(with.warnings, "");
  EXPECT_EQ(with.shares[judged - 1], 2 * with.shares[kSnapshot]);
  EXPECT_EQ(with.shares[judged], with.shares[kSnapshot]) << "the share from before the growth";
  EXPECT_EQ(without.shares[judged], with.shares[judged - 1]);
}

// The losses before a return belong to a larger share of the rate, so the losses after the return
// are not compared with them.
TEST_F(Guarded, the_stretch_after_a_return_is_compared_with_none) {
  const std::uint64_t returns = 2 * kSnapshot + kWindow;
  const std::string said = train(800, {{2 * kSnapshot, 0.5f}, {returns + 3, 0.6f}}).warnings;
  EXPECT_EQ(said.find("back to"), said.rfind("back to")) << said;
  EXPECT_NE(said.find("in iteration " + std::to_string(returns)), said.npos) << said;
}

// The losses of about 80 before the return would hide that the loss rises again after it.
TEST_F(Guarded, the_losses_before_a_return_are_not_counted_after_it) {
  const std::uint64_t bad = 2 * kSnapshot + kWindow + 5, worse = bad + 5 + kSnapshot + kWindow;
  const std::string said = train(820, {{bad, -30.f}, {worse, 0.3f}}).warnings;
  EXPECT_NE(said.find("in iteration 777: back to the parameters of iteration 607"), said.npos)
      << said;
}

// The losses stay above those at the first snapshot, but are not high enough to count as lost. The
// share is lowered once without a return, as that may suffice.
TEST_F(Guarded, parameters_that_a_lower_share_does_not_mend_are_left) {
  constexpr std::uint64_t kBefore = 340, kBegins = kBefore + 5, kEnds = kBefore + 2 * kSnapshot;
  std::map<std::uint64_t, float> scales;
  for (std::uint64_t at = kBegins; at < kEnds; at += 10) scales[at] = 0.95f;
  const Trained trained = train(kEnds + 20, std::move(scales), 2, kBefore);
  const std::string text = "in iteration " + std::to_string(kEnds) +
                           ": back to the parameters of " + "iteration " + std::to_string(kBefore);
  EXPECT_NE(trained.warnings.find(text), std::string::npos) << trained.warnings;
  const double first = trained.shares[kBefore];
  EXPECT_EQ(trained.shares[kBefore + kSnapshot + 1], first / 2);
  EXPECT_EQ(trained.shares[kEnds + 1], first / 4);
}

// The net's learning rate is so small that it learns nothing.
class DyingLayer : public test::DeterministicSession {
 protected:
  // After `iteration` the biases of a relu layer are so low that its outputs are 0. If `uneven` is
  // true, 18 of 20 samples are of the first class, and the net guesses this class as often.
  static std::string warnings(std::uint64_t iteration, bool uneven = false) {
    test::GroupTraining run(test::net(12, {8, 8, 1}, "learning_rate=1e-6\nmomentum=0.5\n") +
                                test::connected(8, "relu") + test::connected(3) +
                                test::layer("softmax"),
                            2, FullyConnected::replicated);
    std::optional<Subset> few;
    if (uneven) {
      few.emplace(uneven_data());
      run.feed = std::make_unique<DataFeed>(*few, run.feed->options());
      EXPECT_TRUE(run.feed->allocate());
    }
    const auto set_biases = [&](std::size_t layer, const std::vector<float>& values) {
      Param& bias = *run.groups.net().layers()[layer]->params()[0];
      EXPECT_NE(bias.name.find("bias"), std::string::npos);
      test::set(*bias.master, values);
    };
    const auto kill = [&] {
      set_biases(0, std::vector<float>(8, -1000));
      if (uneven) set_biases(1, {std::log(0.9f), std::log(0.05f), std::log(0.05f)});
      run.groups.refresh_replicas();
    };
    if (iteration == 0) kill();
    std::string warnings;
    Guard guard;
    Trainer trainer(run.groups, *run.feed, nullptr, run.state,
                    {.iterations = kSnapshot + 1, .strategy = async(Asynchrony::reproducible)},
                    {.on_iteration =
                         [&](const StepReport& at) {
                           if (at.iteration == iteration) kill();
                         },
                     .warn = [&](const std::string& text) { warnings += text; }},
                    {&guard});
    const Status trained = trainer.run();
    EXPECT_TRUE(trained) << trained.error().message();
    return warnings;
  }

 private:
  static Subset uneven_data() {
    auto opened =
        open_dataset({.source = "synthetic:60:3", .net_input = {8, 8, 1}, .classes = 3, .seed = 5});
    const std::shared_ptr<Dataset> all = std::move(opened->train);
    std::array<std::vector<std::size_t>, 3> of_class;
    for (std::size_t i = 0; i < all->size(); ++i) of_class[all->label(i)].push_back(i);
    std::vector<std::size_t> indices(18, of_class[0].front());
    indices.insert(indices.end(), {of_class[1].front(), of_class[2].front()});
    return {all, std::move(indices), "uneven", false};
  }
};

TEST_F(DyingLayer, is_left_although_the_loss_does_not_rise) {
  const std::string said = warnings(kWindow);
  EXPECT_NE(said.find("layer 0 [connected]"), said.npos) << said;
  EXPECT_NE(said.find("back to the parameters of iteration 0, with 0.25 of"), said.npos) << said;
}

TEST_F(DyingLayer, that_was_dead_at_the_start_is_no_reason_to_go_back) {
  EXPECT_EQ(warnings(0), "");
  EXPECT_EQ(warnings(2 * kSnapshot), "") << "nothing died";
}

// With uneven classes the loss of guessing is 0.39, far below log(3).
TEST_F(DyingLayer, is_left_where_guessing_costs_little) {
  EXPECT_NE(warnings(kWindow, true).find("layer 0 [connected]"), std::string::npos);
}

// A window is 17 losses, and the rate so high that the training goes back several times.
class GuardResumes : public test::DeterministicSession {
 protected:
  static constexpr std::uint64_t kEvery = 17, kEnd = 272;
  static constexpr const char* kNet =
      "[net]\nbatch=60\nheight=8\nwidth=8\nchannels=1\nlearning_rate=10\nmomentum=0.9\n"
      "[connected]\noutput=16\nactivation=relu\n[connected]\noutput=3\nactivation=linear\n"
      "[softmax]\n";
  GuardResumes() {
    std::filesystem::create_directory(folder_ / "run");
    auto opened = CheckpointStore::open(folder_ / "run", {.keep = 100, .program = {}});
    EXPECT_TRUE(opened) << opened.error().message();
    store_.emplace(std::move(*opened));
  }
  // Returns the iterations after which the training goes back.
  std::vector<std::uint64_t> train(TrainingState from, bool saves) {
    std::vector<std::uint64_t> returns;
    Guard guard;
    std::uint64_t iteration = 0;
    Trainer trainer(run_.groups, *run_.feed, nullptr, std::move(from),
                    {.iterations = kEnd,
                     .solver = run_.solver,
                     .checkpoint_every = kEvery,  // groups come to rest at the same iterations
                     .strategy = async(Asynchrony::reproducible)},
                    {.on_iteration = [&](const StepReport& at) { iteration = at.iteration; },
                     .save_checkpoint = [&](const TrainingState& state) -> Status {
                       if (!saves) return {};
                       OMNI_TRY(const auto path, save_training(*store_, run_.groups, state, {}));
                       saved_.push_back(path);
                       return {};
                     },
                     .warn = [&](const std::string&) { returns.push_back(iteration); }},
                    {&guard});
    const Status trained = trainer.run();
    EXPECT_TRUE(trained) << trained.error().message();
    return returns;
  }
  Result<TrainingState> restored(const Checkpoint& from) {
    return restore_training(run_.groups, from, "", "async");
  }

  test::GroupTraining run_{kNet, 4, FullyConnected::replicated};
  std::optional<CheckpointStore> store_;
  std::vector<std::filesystem::path> saved_;
};

TEST_F(GuardResumes, from_every_checkpoint_with_the_bits_of_the_undisturbed_training) {
  const std::vector<std::uint64_t> returns = train({.seed = 1}, true);
  ASSERT_GE(returns.size(), 3u);
  const auto end = run_.masters();
  const auto saved = saved_;
  ASSERT_GE(saved.size(), 10u);
  for (std::size_t i = 0; i + 1 < saved.size(); ++i) {
    const auto checkpoint = load_checkpoint(saved[i]);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message();
    auto state = restored(*checkpoint);
    ASSERT_TRUE(state) << state.error().message();
    std::vector<std::uint64_t> left;
    for (const std::uint64_t at : returns)
      if (at > state->iteration) left.push_back(at);
    const std::uint64_t from = state->iteration;
    EXPECT_EQ(train(std::move(*state), false), left) << "from " << from;
    EXPECT_EQ(run_.masters(), end) << "from " << from;
  }
}

TEST_F(GuardResumes, with_all_numbers_that_were_saved) {
  (void)train({.seed = 1}, true);
  for (const auto& path : saved_) {
    const auto checkpoint = load_checkpoint(path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message();
    auto state = restored(*checkpoint);
    ASSERT_TRUE(state) << state.error().message();
    const std::vector<double> saved = state->pilots.at("guard");
    Guard guard;
    Trainer trainer(run_.groups, *run_.feed, nullptr, *state,
                    {.iterations = kEnd, .strategy = async(Asynchrony::reproducible)}, {},
                    {&guard});
    ASSERT_TRUE(guard.begin(trainer, saved));
    EXPECT_EQ(guard.numbers(), saved) << path;
  }
}

// Each error names what is wrong.
TEST_F(GuardResumes, not_from_damaged_states) {
  (void)train({.seed = 1}, true);
  auto checkpoint = load_checkpoint(saved_.front());
  ASSERT_TRUE(checkpoint);
  const Metadata good = checkpoint->fields.entries();
  const auto with = [&](std::string_view key, const std::string& value) {
    checkpoint->fields = CheckpointFields(good, "save");
    checkpoint->fields.set(key, value);
    return restored(*checkpoint);
  };
  const std::string kept = good.find("kept_guard")->second;
  EXPECT_EQ(with("kept_guard", kept)->kept["guard"].size(), 2u);
  for (const std::string& damaged :
       {std::string("1 2 3"), kept + " 1 60 nan 0.5", kept + " 1e9 60 1 0.5", kept + " 1 60 1 2"}) {
    const auto read = with("kept_guard", damaged);
    ASSERT_FALSE(read) << damaged;
    EXPECT_NE(read.error().message().find("kept_guard"), std::string::npos);
  }
  const auto absent = with("kept_guard", kept + " 1 60 1 0.5");
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().message().find("has no array 'kept/guard/2/param/"), std::string::npos);

  const auto numbers = good.find("pilot_guard")->second;
  const auto begins = [&](const std::string& own, bool with_states) {
    auto state = with("pilot_guard", own);
    EXPECT_TRUE(state) << state.error().message();
    if (!with_states) state->kept.clear();
    Guard guard;
    Trainer trainer(run_.groups, *run_.feed, nullptr, std::move(*state),
                    {.iterations = 1, .strategy = async(Asynchrony::reproducible)}, {}, {&guard});
    const Status begun = trainer.run();
    EXPECT_TRUE(begun || begun.error().kind == ErrorKind::data);
    return static_cast<bool>(begun);
  };
  EXPECT_TRUE(begins(numbers, true));
  EXPECT_FALSE(begins(numbers, false)) << "without the states";
  EXPECT_FALSE(begins(numbers + " 1", true));
  EXPECT_FALSE(begins(numbers.substr(0, numbers.rfind(' ')), true));
  EXPECT_FALSE(begins("2 1 1 1 34 0 0 0 0 0 1e11", true)) << "a list that is not there";
  EXPECT_TRUE(begins("0.5 1 1 34 2 0 2 2", false)) << "of an older version";
  // Formats 2 and 3 lack the four numbers about failures of the share, and at the end the two means
  // of losses, of three numbers each. Format 2 also lacks the number before the means.
  const auto last = [](std::string text, int without) {
    for (; without > 0; --without) text.resize(text.rfind(' '));
    return text;
  };
  const auto words = [&] {
    std::vector<std::string> all;
    std::istringstream in(numbers);
    for (std::string word; in >> word;) all.push_back(word);
    all.erase(all.begin() + 4, all.begin() + 8);
    return all;
  }();
  std::string third = "3";
  for (std::size_t i = 1; i < words.size(); ++i) third += " " + words[i];
  third = last(third, 6);
  EXPECT_TRUE(begins(third, true)) << third;
  EXPECT_TRUE(begins("2" + last(third, 1).substr(1), true)) << third;
  EXPECT_FALSE(begins("4" + third.substr(1), true)) << third;
}

}  // namespace
}  // namespace omni
