// These tests train with compute groups. The results must equal those of one group that uses
// parameters of the same age.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/support/deterministic_session.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

constexpr int kBatch = 6;
const std::string kTrainedNet = test::net(kBatch, {8, 8, 1}, test::kSgd) +
                                test::convolutional(5, "tanh", "pad=1\nbatch_normalize=1\n") +
                                test::convolutional(4, "tanh", "pad=1\nstride=2\n") +
                                test::connected(9, "tanh") + test::connected(3) +
                                test::layer("softmax");

class GroupTraining : public test::DeterministicSession {
 protected:
  using Run = test::GroupTraining;

  // Without --deterministic, gradients are added in the order in which tasks arrive, not in the
  // order of submission.
  static void let_accumulations_commute() { set_implementation_policy({}); }

  std::unique_ptr<Run> train(int groups, Asynchrony asynchrony, std::uint64_t iterations,
                             FullyConnected fully_connected = FullyConnected::merged,
                             Compensation compensation = Compensation::off) {
    auto run = std::make_unique<Run>(kTrainedNet, groups, fully_connected);
    run->train({.iterations = iterations, .strategy = async(asynchrony, compensation)});
    return run;
  }

  static bool is_connected(const Param& param) {
    return param.name.find("connected") != std::string::npos;
  }

  struct Steps {
    float momentum, learning_rate;
  };
  static constexpr Steps kTuned{0.9f, 0.05f};
  // Returns the parameters after a serial training with gradients of parameters that are `age`
  // updates old. With `merged`, connected layers always use the newest parameters.
  std::vector<std::vector<float>> serial(int age, std::uint64_t iterations, bool merged,
                                         Steps steps = kTuned) {
    const auto run = std::make_unique<Run>(kTrainedNet);
    Net& net = run->groups.net();
    const std::vector<Param*> params = net.params();
    std::vector<std::vector<std::vector<float>>> history{run->masters()};  // by update, parameter
    for (std::uint64_t iteration = 0; iteration < iterations; ++iteration) {
      const std::size_t newest = history.size() - 1;
      const std::size_t old = newest - std::min(newest, static_cast<std::size_t>(age));
      for (std::size_t i = 0; i < params.size(); ++i) {
        if (params[i]->trainable && !(merged && is_connected(*params[i])))
          test::set(*params[i]->master, history[old][i]);
      }
      run->feed->submit(iteration * kBatch);
      const Step step{.training = true,
                      .seed = 1,
                      .first_sample = iteration * kBatch,
                      .slot = &run->feed->slot(iteration * kBatch)};
      net.forward(step);
      net.backward(step);
      EXPECT_TRUE(wait_for_tasks());
      run->feed->release(iteration * kBatch);
      for (std::size_t i = 0; i < params.size(); ++i) {
        if (!params[i]->trainable) continue;
        test::set(*params[i]->master, history[newest][i]);
        const Exchange exchange{{.learning_rate = steps.learning_rate,
                                 .momentum = steps.momentum,
                                 .decay = 0.01f * params[i]->decay,
                                 .gradient_scale = 1.0f / kBatch},
                                {*params[i]->master, *params[i]->diff, *params[i]->velocity}};
        submit_exchanges({&exchange, 1}, ExchangeOrder::submission);
      }
      EXPECT_TRUE(wait_for_tasks());
      history.push_back(run->masters());
    }
    return history.back();
  }
};

TEST_F(GroupTraining, one_group_is_serial_training_bit_for_bit) {
  EXPECT_EQ(train(1, Asynchrony::reproducible, 20)->masters(), serial(0, 20, true));
  EXPECT_EQ(train(1, Asynchrony::free, 20)->masters(), serial(0, 20, true));
}

TEST_F(GroupTraining, gradients_may_be_added_up_in_several_sums) {
  for (const int groups : {1, 2}) {
    const auto one = train(groups, Asynchrony::reproducible, 20);
    Run several(kTrainedNet, groups, FullyConnected::merged, {.cores = 3});
    several.train({.iterations = 20, .strategy = async(Asynchrony::reproducible)});
    EXPECT_GT(several.groups.tensor_bytes(), one->groups.tensor_bytes());
    const auto expected = one->masters(), masters = several.masters();
    for (std::size_t param = 0; param < masters.size(); ++param)
      for (std::size_t i = 0; i < masters[param].size(); ++i)
        ASSERT_NEAR(masters[param][i], expected[param][i], 1e-4) << param << ", " << i;
  }
}

TEST_F(GroupTraining, reproducible_groups_are_training_with_gradients_of_that_age) {
  for (const int groups : {2, 3, 5}) {
    EXPECT_EQ(train(groups, Asynchrony::reproducible, 20)->masters(), serial(groups - 1, 20, true))
        << groups << " groups, merged";
    EXPECT_EQ(train(groups, Asynchrony::reproducible, 20, FullyConnected::replicated)->masters(),
              serial(groups - 1, 20, false))
        << groups << " groups, replicated";
  }
  EXPECT_NE(serial(1, 20, true), serial(2, 20, true))
      << "age makes no difference: nothing is shown";
  EXPECT_NE(serial(1, 20, true), serial(1, 20, false));
}

// The compensation also changes the momentum of merged parameters, which are never stale: they
// learn from activations of stale parameters.
TEST_F(GroupTraining, compensation_changes_momentum_and_rate_of_all_parameters) {
  const auto run =
      train(3, Asynchrony::reproducible, 20, FullyConnected::merged, Compensation::theory);
  const double tuned = static_cast<double>(0.9f);
  const Momentum momentum = compensate(tuned, implicit_of_groups(3));
  const Steps steps{static_cast<float>(momentum.explicit_part),
                    0.05f * static_cast<float>(momentum.rate_factor())};
  EXPECT_NEAR(steps.momentum, 0.7f, 1e-6f);
  EXPECT_NEAR(steps.learning_rate, 0.15f, 1e-6f);
  EXPECT_EQ(run->masters(), serial(2, 20, true, steps));
}

// Each group has a pooling layer of its own, but all parameters are in merged layers.
TEST_F(GroupTraining, where_all_that_learns_is_merged_the_momentum_is_the_tuned_one) {
  Run run(
      "[net]\nbatch=4\nheight=8\nwidth=8\nchannels=1\nlearning_rate=0.05\nmomentum=0.9\n"
      "[maxpool]\nsize=2\nstride=2\n[connected]\noutput=3\nactivation=linear\n[softmax]\n",
      3);
  run.train({.iterations = 9, .strategy = async(Asynchrony::reproducible, Compensation::theory)});
  ASSERT_TRUE(run.groups.has_replicated_phase());
  for (const StepReport& report : run.reports) {
    EXPECT_EQ(report.momentum.explicit_part, report.momentum.tuned);
    EXPECT_EQ(report.momentum.implicit_part, 0);
    EXPECT_NEAR(report.momentum.total(), 0.9, 1e-6);
  }
}

TEST_F(GroupTraining, reproducible_staleness_is_groups_minus_1) {
  for (const int groups : {1, 2, 4}) {
    const auto run = train(groups, Asynchrony::reproducible, 30);
    for (std::size_t i = 0; i < run->reports.size(); ++i) {
      EXPECT_EQ(run->reports[i].staleness,
                std::min<std::int64_t>(static_cast<std::int64_t>(i), groups - 1));
      EXPECT_EQ(run->reports[i].fc_staleness, 0);
      EXPECT_EQ(run->reports[i].group, static_cast<int>(i) % groups);
    }
  }
}

TEST_F(GroupTraining,
       free_staleness_is_groups_minus_1_on_average_and_merged_parameters_never_stale) {
  let_accumulations_commute();
  constexpr std::uint64_t kIterations = 600;
  for (const int groups : {2, 4, 8, 16}) {
    const auto run = train(groups, Asynchrony::free, kIterations);
    double sum = 0;
    for (const StepReport& report : run->reports) {
      sum += static_cast<double>(report.staleness);
      EXPECT_EQ(report.fc_staleness, 0);
    }
    EXPECT_NEAR(sum / kIterations, groups - 1, 0.02 * (groups - 1)) << groups << " groups";
  }
}

// If groups took turns, each would make 300 updates. The mean staleness is the same in any order.
TEST_F(GroupTraining, free_groups_go_at_their_own_pace) {
  let_accumulations_commute();
  Run run(kTrainedNet, 3, FullyConnected::replicated);
  run.groups.assign({{0}, {1}, {1}});
  TrainerOptions options;
  options.iterations = 900;
  run.train(options);
  std::map<int, int> updates;
  std::int64_t least = 99, most = 0;
  for (const StepReport& report : run.reports) {
    ++updates[report.group];
    least = std::min(least, report.staleness);
    most = std::max(most, report.staleness);
  }
  EXPECT_EQ(updates.size(), 3u);
  EXPECT_NE(updates, (std::map<int, int>{{0, 300}, {1, 300}, {2, 300}}));
  EXPECT_LT(least, 2);
  EXPECT_GT(most, 2);
}

// Batch normalisation's statistics are parameters without updates, so the staleness must not count
// them.
TEST_F(GroupTraining, what_was_old_when_it_was_saved_is_as_old_as_it_becomes) {
  Run run(kTrainedNet, 3);
  const auto train_on = [&](std::uint64_t iterations) {
    run.reports.clear();
    run.train({.iterations = iterations, .strategy = async(Asynchrony::reproducible)});
    std::vector<std::int64_t> ages;
    for (const double age : run.done.strategy.numbers)
      ages.push_back(static_cast<std::int64_t>(age));
    return ages;
  };
  EXPECT_EQ(train_on(10), (std::vector<std::int64_t>{0, 2, 1}));
  EXPECT_EQ(train_on(12), (std::vector<std::int64_t>{2, 1, 0}));
  EXPECT_EQ(train_on(11), (std::vector<std::int64_t>{1, 0, 2}));
}

TEST_F(GroupTraining, replicated_connected_layers_go_stale) {
  const auto run = train(4, Asynchrony::reproducible, 12, FullyConnected::replicated);
  EXPECT_FALSE(run->groups.net().has(Net::Phase::merged));
  EXPECT_EQ(run->reports.back().staleness, 3);
}

TEST_F(GroupTraining, groups_learn) {
  let_accumulations_commute();
  Run run(kTrainedNet, 4);
  test::Steered slower({.share = 0.25});  // with the whole step, four groups are next to diverging
  run.pilots = {&slower};
  run.train({.iterations = 300, .strategy = async(Asynchrony::free, Compensation::theory)});
  EXPECT_LT(run.reports.back().average_loss, 0.1 * run.reports.front().loss);
  EXPECT_NEAR(run.reports.back().momentum.explicit_part, 0.6, 1e-6);
}

// Group 1 has worker 1 only, which it shares with group 0. So the groups' tasks finish out of turn.
TEST_F(GroupTraining, unequal_groups_with_subdivisions_end) {
  let_accumulations_commute();
  std::string subdivided = kTrainedNet;
  subdivided.replace(subdivided.find("batch=6"), 7, "batch=6\nsubdivisions=2");
  Run run(subdivided, 2, FullyConnected::replicated);
  run.groups.assign({{0, 1}, {1}});
  TrainerOptions options;
  options.iterations = 1500;
  options.strategy = async(Asynchrony::free);
  run.train(options);
  EXPECT_EQ(run.reports.back().iteration, 1500u);
}

}  // namespace
}  // namespace omni
