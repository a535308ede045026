// These tests train without a command line. docs/internals/overview.md shows the first training.
#include "scheduling/training/training.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "layers/formats/darknet/darknet.hpp"
#include "runtime/data/open.hpp"
#include "runtime/tasks/host_access.hpp"
#include "tests/support/deterministic_session.hpp"

namespace omni {
namespace {

Result<double> train_lenet(const Session& session) {
  OMNI_TRY(TrainableNet net, read_darknet_cfg(OMNI_SOURCE_DIR "/apps/nets/lenet.cfg"));
  OMNI_TRY(DatasetPair data, open_dataset({.source = "synthetic:640:10",
                                           .net_input = net.options.input,
                                           .classes = 10,
                                           .seed = 1}));
  TrainingPlan plan{.net = std::move(net), .groups = {.count = 2}, .data = &data};
  plan.strategy = async(Asynchrony::reproducible, Compensation::theory);
  plan.length = {.iterations = 300, .evaluate_every = 100};
  double accuracy = 0;
  plan.events.on_evaluation = [&](const EvaluationReport& report) {
    accuracy = report.tally.accuracy();
    fmt::print("iteration {}: {:.1f} % correct\n", report.at.iteration, 100 * accuracy);
  };
  OMNI_TRY(const auto training, Training::make(std::move(plan), session));
  OMNI_CHECK(training->run());
  OMNI_CHECK(training->evaluate());
  return accuracy;
}

constexpr const char* kSmallNet =
    "[net]\nbatch=6\nheight=8\nwidth=8\nchannels=1\nlearning_rate=0.05\n[connected]\noutput=3\n"
    "activation=linear\n[softmax]\n";

class Trainings : public test::DeterministicSession {
 protected:
  static std::vector<std::vector<float>> masters(Training& training) {
    std::vector<std::vector<float>> all;
    for (const Param* param : training.groups().net().params()) {
      const HostAccess access(*param->master, HostAccess::Mode::read);
      all.emplace_back(access.f32().begin(), access.f32().end());
    }
    return all;
  }
};

TEST_F(Trainings, a_short_program_trains_lenet) {
  const auto accuracy = train_lenet(session());
  ASSERT_TRUE(accuracy) << accuracy.error().message();
  EXPECT_GT(*accuracy, 0.8) << "chance is 0.1";
}

TEST_F(Trainings, a_plan_without_data_is_refused) {
  const auto training = Training::make({}, session());
  ASSERT_FALSE(training);
  EXPECT_EQ(training.error().what, "the plan has no training data");
}

TEST_F(Trainings, groups_have_the_models_of_the_strategy) {
  const auto net = parse_darknet_cfg(kSmallNet, "net.cfg");
  ASSERT_TRUE(net) << net.error().message();
  auto data =
      open_dataset({.source = "synthetic:60:3", .net_input = {8, 8, 1}, .classes = 3, .seed = 5});
  ASSERT_TRUE(data) << data.error().message();
  const StrategyType& sma = **find_strategy("sma");
  TrainingPlan plan{.net = *net, .groups = {.count = 2}, .data = &*data};
  plan.strategy = make_strategy(sma, {});
  plan.length.iterations = 4;
  const auto refused = Training::make(plan, session());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, "GroupsPlan::models are not the models of the strategy sma");
  EXPECT_EQ(refused.error().hint, "set them to StrategyType::models of find_strategy()");
  plan.groups.models = sma.models;
  const auto training = Training::make(plan, session());
  ASSERT_TRUE(training) << training.error().message();
  EXPECT_TRUE((*training)->run());
  for (const auto& pilot : (*training)->pilots()) EXPECT_NE(pilot->name(), "guard");
  plan.pilots.automatic = true;
  EXPECT_EQ(Training::make(plan, session()).error().what,
            "PilotOptions::automatic is not for the strategy sma");
  plan.pilots.automatic = false;
  plan.pilots.own.by_name["--keep-best"].number = 1;
  data->test.reset();
  EXPECT_EQ(Training::make(plan, session()).error().what, "the pilot 'keep-best' needs a test set");
}

// A net that learns nothing is tested every 4 iterations. The second test brings no improvement, so
// it is the last one.
class PatientTraining : public Trainings {
 protected:
  // Returns the iterations after which the model is tested.
  std::vector<std::uint64_t> tested(const std::string& strategy, int groups) {
    return train(strategy, groups, 4, "--patience-tests");
  }
  // Returns how often a checkpoint is marked as the best, if only the result is tested.
  int marked(const std::string& strategy, int groups) {
    train(strategy, groups, 0, "--keep-best");
    return marked_;
  }

  std::vector<std::uint64_t> train(const std::string& strategy, int groups, std::uint64_t every,
                                   const char* option) {
    const auto net = parse_darknet_cfg(kSmallNet, "net.cfg");
    auto data = open_dataset({.source = "synthetic:60:3",
                              .net_input = {8, 8, 1},
                              .classes = 3,
                              .seed = 5,
                              .test = true});
    EXPECT_TRUE(net && data);
    const StrategyType& type = **find_strategy(strategy);
    TrainingPlan plan{
        .net = *net, .groups = {.count = groups, .models = type.models}, .data = &*data};
    plan.net.solver.learning_rate = 1e-30f;
    plan.strategy = make_strategy(type, {});
    plan.length = {.iterations = 40, .evaluate_every = every};
    plan.pilots.own.by_name[option].number = 1;
    std::vector<std::uint64_t> iterations;
    messages_ = marked_ = 0;
    plan.events.keep_best = [this] {
      ++marked_;
      return Status();
    };
    plan.events.on_evaluation = [&](const EvaluationReport& report) {
      iterations.push_back(report.at.iteration);
    };
    plan.events.say = [this](const std::string&) { ++messages_; };
    const auto training = Training::make(std::move(plan), session());
    EXPECT_TRUE(training && (*training)->run() && (*training)->evaluate());
    return iterations;
  }
  int messages_ = 0, marked_ = 0;
};

TEST_F(PatientTraining, is_tested_once_where_a_pilot_ends_it) {
  EXPECT_EQ(tested("sync", 1), (std::vector<std::uint64_t>{4, 8}));
  EXPECT_EQ(messages_, 1);
}

// The groups' models are merged after the last test, so the merged model is tested again.
TEST_F(PatientTraining, is_tested_again_where_the_result_is_another_model) {
  EXPECT_EQ(tested("local", 2), (std::vector<std::uint64_t>{4, 8, 8}));
  EXPECT_EQ(messages_, 1);
}

// No checkpoint holds the merged model, so no checkpoint is marked as the best.
TEST_F(PatientTraining, marks_only_a_checkpoint_that_was_tested) {
  EXPECT_EQ(marked("sync", 1), 1);
  EXPECT_EQ(marked("local", 2), 0);
}

// Two trainings run at the same time, and another one after them.
TEST_F(Trainings, several_in_one_process_train_as_each_alone) {
  const auto net = parse_darknet_cfg(kSmallNet, "net.cfg");
  ASSERT_TRUE(net) << net.error().message();
  auto data =
      open_dataset({.source = "synthetic:60:3", .net_input = {8, 8, 1}, .classes = 3, .seed = 5});
  ASSERT_TRUE(data) << data.error().message();
  const auto make = [&](int groups) {
    TrainingPlan plan{.net = *net, .groups = {.count = groups}, .data = &*data};
    plan.strategy = async(Asynchrony::reproducible);
    plan.length.iterations = 30;
    return std::move(*Training::make(std::move(plan), session()));
  };
  const auto alone = make(1), pair = make(2);
  ASSERT_TRUE(alone->run());
  ASSERT_TRUE(pair->run());

  const auto first = make(1), second = make(2);
  Status first_ended, second_ended;
  {
    const std::jthread one([&] { first_ended = first->run(); }),
        other([&] { second_ended = second->run(); });
  }
  EXPECT_TRUE(first_ended);
  EXPECT_TRUE(second_ended);
  EXPECT_EQ(masters(*first), masters(*alone));
  EXPECT_EQ(masters(*second), masters(*pair));
}

}  // namespace
}  // namespace omni
