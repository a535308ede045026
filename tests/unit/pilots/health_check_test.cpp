// These tests check that trainings that cannot learn are recognised, with the layer at fault and
// advice. With `strict` such a training is saved and ended.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "scheduling/pilots/health/health_check.hpp"
#include "tests/support/deterministic_session.hpp"
#include "tests/support/group_training.hpp"

namespace omni {
namespace {

std::string sick_net(const std::string& options, const std::string& activation) {
  return "[net]\nbatch=6\nheight=8\nwidth=8\nchannels=1\n" + options +
         "[convolutional]\nfilters=5\nsize=3\npad=1\nactivation=" + activation +
         "\n[connected]\noutput=9\nactivation=" + activation +
         "\n[connected]\noutput=3\nactivation=linear\n[softmax]\n";
}

class Health : public test::DeterministicSession {
 protected:
  using Run = test::GroupTraining;

  struct Outcome {
    std::vector<std::string> said;
    std::optional<Finding> failure;
    bool failed = false;
    std::vector<std::uint64_t> saved;  // iterations
    TrainingState state;
    int inspections = 0;
  };

  static Outcome train(Run& run, std::uint64_t iterations, bool strict,
                       const TrainingState& from = {.seed = 1}, Asynchrony asynchrony = {}) {
    Outcome outcome;
    HealthCheck health({.strict = strict});
    Trainer trainer(run.groups, *run.feed, nullptr, from,
                    {.iterations = iterations, .solver = run.solver, .strategy = async(asynchrony)},
                    {.save_checkpoint =
                         [&](const TrainingState& state) {
                           outcome.saved.push_back(state.iteration);
                           return Status();
                         },
                     .warn = [&](const std::string& text) { outcome.said.push_back(text); }},
                    {&health});
    const Status trained = trainer.run();
    outcome.failed = !trained;
    EXPECT_EQ(outcome.failed, health.failure().has_value());
    outcome.failure = health.failure();
    outcome.state = trainer.state();
    outcome.inspections = health.inspections();
    return outcome;
  }

  struct Told {
    std::vector<std::string> said;
    std::uint64_t failed_at = 0;  // iteration; 0: never
  };
  // Trains a healthy net, but gives the health check the losses of `loss`.
  static Told told_losses(std::uint64_t iterations, bool strict,
                          const std::function<double(std::uint64_t)>& loss,
                          const std::string& options = "") {
    Run run(sick_net("learning_rate=0.05\nmomentum=0.9\n" + options, "tanh"));
    Told told;
    HealthCheck health({.strict = strict});
    Trainer training(run.groups, *run.feed, nullptr, {.seed = 1}, {.solver = run.solver},
                     {.warn = [&](const std::string& text) { told.said.push_back(text); }});
    EXPECT_TRUE(health.begin(training, {}));
    for (std::uint64_t i = 1; i <= iterations && !health.failure(); ++i) {
      StepReport report;
      report.iteration = i;
      report.iterations = iterations;
      report.loss = loss(i);
      report.learning_rate = 0.05f;
      training.state().samples = i * 6;
      if (health.judge(report) == Advice::rest) {
        EXPECT_TRUE(health.rested(training));
      }
      if (i == iterations) (void)health.end(training);
      if (health.failure()) told.failed_at = i;
    }
    return told;
  }

  static void kill_layer(Run& run, std::size_t layer) {
    Param& bias = *run.groups.net().layers()[layer]->params()[0];
    test::set(*bias.master, std::vector<float>(bias.master->count(), -1000));
    run.groups.refresh_replicas();
  }
};

// With relu the rate is 0.01. At 0.05, rounding would decide whether the loss rises.
TEST_F(Health, says_nothing_of_nets_that_learn) {
  for (const auto& [activation, options] :
       {std::pair("relu", "learning_rate=0.01\nmomentum=0.9\n"),
        std::pair("tanh", "learning_rate=0.05\nmomentum=0\ndecay=0.001\n"),
        std::pair("logistic", "learning_rate=0.05\nmomentum=0.9\n"),
        std::pair("leaky", "adam=1\nlearning_rate=0.003\n")}) {
    Run run(sick_net(options, activation));
    const Outcome outcome = train(run, 1100, true);
    EXPECT_FALSE(outcome.failed) << activation << options;
    EXPECT_TRUE(outcome.said.empty()) << activation << options << outcome.said.front();
    EXPECT_GE(outcome.inspections, 1);
  }
}

TEST_F(Health, names_a_dead_layer_once) {
  for (const int groups : {1, 2}) {
    Run run(sick_net("learning_rate=0.05\nmomentum=0.5\n", "relu"), groups);
    kill_layer(run, 1);
    const Outcome outcome = train(run, 900, false);
    EXPECT_FALSE(outcome.failed);
    ASSERT_EQ(outcome.said.size(), 1u) << outcome.said.back();
    EXPECT_EQ(outcome.said.front().find("net.cfg:13: layer 1 [connected] gives the same output"),
              0u)
        << outcome.said.front();
  }
}

TEST_F(Health, strict_ends_a_dead_training_and_saves_it) {
  for (const auto& [groups, asynchrony] :
       {std::pair(1, Asynchrony::free), std::pair(2, Asynchrony::reproducible),
        std::pair(3, Asynchrony::free)}) {
    Run run(sick_net("learning_rate=0.05\nmomentum=0.5\n", "relu"), groups);
    kill_layer(run, 1);
    const Outcome outcome = train(run, 5000, true, {.seed = 1}, asynchrony);
    EXPECT_TRUE(outcome.failed);
    ASSERT_TRUE(outcome.failure);
    EXPECT_EQ(outcome.failure->kind, FindingKind::same_output);
    EXPECT_EQ(outcome.failure->error().kind, ErrorKind::diverged);
    EXPECT_LT(outcome.state.iteration, 400u);
    ASSERT_EQ(outcome.saved.size(), 1u);
    EXPECT_EQ(outcome.saved.front(), outcome.state.iteration);
  }
}

TEST_F(Health, tells_steps_that_are_none) {
  for (const char* options : {"learning_rate=0\n", "learning_rate=1e-12\nmomentum=0.9\n",
                              "adam=1\nlearning_rate=1e-15\n"}) {
    Run run(sick_net(options, "relu"));
    const Outcome outcome = train(run, 1000, true);
    ASSERT_TRUE(outcome.failure) << options;
    EXPECT_EQ(outcome.failure->kind, FindingKind::small_steps) << outcome.failure->what;
    EXPECT_NE(outcome.failure->remedy.find("raise learning_rate"), std::string::npos);
  }
}

// A learning rate of 0 is reported even if the loss is low.
TEST_F(Health, tells_a_rate_of_0_at_every_inspection) {
  const auto told = [](const Outcome& outcome) {
    return std::ranges::count_if(outcome.said, [](const std::string& each) {
      return each.starts_with("the learning rate is 0: nothing is learned (policy and its values");
    });
  };
  const std::string policy = "learning_rate=0.05\nmomentum=0.5\npolicy=steps\nscales=0\n";
  for (const int groups : {1, 2}) {
    Run idle(sick_net(policy + "steps=600\n", "tanh"), groups);
    EXPECT_EQ(told(train(idle, 1000, false)), 1) << "at once";
    Run longer(sick_net(policy + "steps=600\n", "tanh"), groups);
    EXPECT_EQ(told(train(longer, 2100, false)), 3) << "again in iterations 1024 and 2048";
    Run ends(sick_net(policy + "steps=1099\n", "tanh"), groups);
    EXPECT_EQ(told(train(ends, 1100, true)), 0);
  }
  Run strict(sick_net(policy + "steps=600\n", "tanh"));
  const Outcome outcome = train(strict, 2100, true);
  ASSERT_TRUE(outcome.failure);
  EXPECT_EQ(outcome.failure->kind, FindingKind::small_steps);
  EXPECT_LT(outcome.state.iteration, 1100u);
  Run poly(sick_net("learning_rate=0.05\npolicy=poly\nmax_batches=1100\n", "tanh"), 2);
  EXPECT_EQ(told(train(poly, 1100, true)), 0);
}

TEST_F(Health, tells_a_net_that_is_stuck_without_a_cause) {
  for (const bool strict : {true, false}) {
    const Told told = told_losses(3000, strict, [](std::uint64_t) { return std::log(3.0); });
    ASSERT_EQ(told.said.size(), 1u) << told.said.back();
    EXPECT_NE(told.said.front().find("the loss has been 1.099 for "), std::string::npos);
    EXPECT_EQ(told.failed_at > 0, strict);
    if (strict) {
      EXPECT_GE(told.failed_at, 1000u) << "that long a start may take";
    }
  }
}

TEST_F(Health, waits_for_slow_starters) {
  const Told told = told_losses(
      3000, true, [](std::uint64_t iteration) { return iteration < 900 ? std::log(3.0) : 0.3; });
  EXPECT_EQ(told.failed_at, 0u);
  EXPECT_EQ(told.said.size(), 1u) << "of 82 epochs";
}

// A warning needs more than 500 mini-batches at chance.
TEST_F(Health, tells_what_does_not_leave_chance_for_many_epochs) {
  const auto until = [](std::uint64_t last) {
    return [last](std::uint64_t iteration) { return iteration <= last ? std::log(3.0) : 0.3; };
  };
  const Told stays = told_losses(600, true, until(600));
  ASSERT_EQ(stays.said.size(), 1u);
  EXPECT_NE(stays.said.front().find("the loss has been 1.099 for 544 mini-batches, 49 epochs; "),
            std::string::npos)
      << stays.said.front();
  EXPECT_EQ(stays.failed_at, 600u) << "not before the end";
  EXPECT_TRUE(told_losses(600, true, until(500)).said.empty());
  EXPECT_TRUE(told_losses(1200, true, until(990), "burn_in=500\n").said.empty())
      << "while the rate rises";
}

TEST_F(Health, tells_a_loss_that_has_risen) {
  const auto rises = [](std::uint64_t iteration) { return iteration < 500 ? 0.1 : 9.0; };
  const Told told = told_losses(3000, true, rises);
  ASSERT_FALSE(told.said.empty());
  EXPECT_NE(told.said.front().find("the loss has risen from 0.1 to 9"), std::string::npos);
  EXPECT_NE(told.said.front().find("lower learning_rate by 10"), std::string::npos);
  EXPECT_GT(told.failed_at, 1000u);
  EXPECT_GT(told_losses(900, true, rises).failed_at, 0u) << "it ends so";
}

TEST_F(Health, resumes_without_a_new_reason) {
  Run run(sick_net("learning_rate=0.05\nmomentum=0.9\n", "tanh"));
  const Outcome first = train(run, 700, true);
  ASSERT_FALSE(first.state.pilots.at("health").empty());
  const Outcome second = train(run, 1400, true, first.state);
  EXPECT_TRUE(second.said.empty());
  EXPECT_EQ(second.inspections, 1) << "only the one of iteration 1024";
}

TEST_F(Health, remembers_for_how_long_it_has_been_stuck) {
  Run run(sick_net("learning_rate=0.05\nmomentum=0.5\n", "relu"));
  kill_layer(run, 1);
  TrainingState state = train(run, 150, false).state;
  ASSERT_FALSE(state.pilots.at("health").empty());
  const Outcome resumed = train(run, 230, true, state);
  EXPECT_TRUE(resumed.failure) << "at iteration 200, as without a stop";
  EXPECT_LE(resumed.state.iteration, 210u);
}

// The steps are small, but not lost in rounding. So the strict training fails only at its end,
// where the loss is still at chance.
TEST_F(Health, knows_after_a_resume_what_was_found_before) {
  Run run(sick_net("learning_rate=1e-8\n", "tanh"));
  const Outcome first = train(run, 250, false);
  ASSERT_EQ(first.said.size(), 1u);
  const Outcome resumed = train(run, 300, true, first.state);
  ASSERT_TRUE(resumed.failure);
  EXPECT_EQ(resumed.failure->kind, FindingKind::small_steps);
  EXPECT_EQ(resumed.state.iteration, 300u);
}

TEST_F(Health, refuses_damaged_numbers) {
  Run run(sick_net("learning_rate=0.05\n", "tanh"));
  Trainer training(run.groups, *run.feed, nullptr, {.seed = 1}, {}, {});
  HealthCheck health({});
  ASSERT_TRUE(health.begin(training, {}));
  const std::vector<double> good = health.numbers();
  EXPECT_TRUE(health.begin(training, good));
  std::vector<std::vector<double>> wrong{{1}, std::vector<double>(3, 1)};
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const double each : {std::nan(""), HUGE_VAL}) {
      wrong.push_back(good);
      wrong.back()[i] = each;
    }
  for (const std::vector<double>& numbers : wrong) {
    const Status begun = health.begin(training, numbers);
    ASSERT_FALSE(begun) << testing::PrintToString(numbers);
    EXPECT_NE(begun.error().message().find("impossible numbers of the pilot 'health'"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace omni
