// These tests train nets and compute groups whose tasks, replicas and master copies are spread over
// two memory nodes. They learn the same bits as on one node.
#include <gtest/gtest.h>

#include <array>

#include "tests/support/group_training.hpp"
#include "tests/support/net_text.hpp"
#include "tests/support/second_node.hpp"

namespace omni {
namespace {

using test::GroupTraining;
using test::SecondNode;
using test::start_session;
using test::Where;

// Learned holds all parameters at the end of a training, and all losses.
using Learned = std::pair<std::vector<std::vector<float>>, std::vector<double>>;

constexpr std::array kSchedulers{"omni", "random", "dmdas"};

const std::string kNet =
    test::net(6, {8, 8, 2}, test::kSgd) +
    test::convolutional(6, "relu", "pad=1\nbatch_normalize=1\n") +
    test::convolutional(6, "linear") + test::layer("shortcut", "from=-2\nactivation=leaky\n") +
    test::layer("normalization", "size=3\n") + test::layer("maxpool", "size=2\nstride=2\n") +
    test::connected(9, "relu") + test::layer("dropout", "probability=.3\n") + test::connected(4) +
    test::layer("softmax");

// This net has layers that kNet does not have.
const std::string kUncommonNet =
    test::net(6, {10, 9, 2}, "learning_rate=0.02\nmomentum=0.9\n") +
    test::layer("crop", "crop_height=8\ncrop_width=8\nflip=1\n") +
    test::convolutional(4, "mish", "stride=2\npad=1\ngroups=2\n") + test::layer("l2norm") +
    test::layer("local", "filters=4\nsize=3\npad=1\nactivation=tanh\n") +
    test::layer("deconvolutional",
                "filters=4\nsize=2\nstride=2\nbatch_normalize=1\nactivation=tanh\n") +
    test::layer("reorg", "stride=2\n") + test::layer("upsample", "stride=2\n") +
    test::layer("route", "layers=-1,-3\n") +
    test::layer("avgpool", "size=2\nstride=2\npadding=0\n") + test::layer("batchnorm") +
    test::layer("activation", "activation=swish\n") + test::connected(4) + test::layer("logistic");

// The connected layers of this net are cut into blocks of neurons.
const std::string kLargeNet =
    test::net(4, {16, 16, 2}, "learning_rate=0.001\nmomentum=0.9\n") +
    test::layer("convolutional", "filters=2\nstride=2\nactivation=tanh\n") +
    test::layer("deconvolutional", "filters=4\nsize=2\nstride=2\nactivation=linear\n") +
    test::layer("crop", "crop_height=16\ncrop_width=16\n") + test::connected(1030, "tanh") +
    test::connected(1024, "swish") + test::connected(4) + test::layer("cost");

struct Setting {
  int groups;
  Asynchrony asynchrony = Asynchrony::reproducible;
  FullyConnected fully_connected = FullyConnected::merged;
};

constexpr std::uint64_t kIterations = 10;

Learned learn(const std::string& cfg, const Setting& setting, const GroupLayout& layout = {}) {
  GroupTraining training(cfg, setting.groups, setting.fully_connected,
                         {.update_in_backward = true});
  if (!layout.empty()) training.groups.assign(layout);
  training.train({.iterations = kIterations, .strategy = async(setting.asynchrony)});
  std::vector<double> losses;
  for (const StepReport& report : training.reports) losses.push_back(report.loss);
  return {training.masters(), losses};
}

Learned learn_in_one_node(const std::string& cfg, const Setting& setting) {
  const auto session = start_session("omni", true);
  EXPECT_TRUE(session) << session.error().message();
  return learn(cfg, setting);
}

const std::vector<std::string> kNone;

TEST(TrainingOverTwoNodes, gives_the_same_bits_whoever_schedules) {
  for (const Setting& setting :
       {Setting{1}, Setting{3}, Setting{3, Asynchrony::reproducible, FullyConnected::replicated}}) {
    const Learned expected = learn_in_one_node(kNet, setting);
    for (const char* scheduler : kSchedulers) {
      const SecondNode second;
      const auto session = start_session(scheduler, true);
      ASSERT_TRUE(session) << session.error().message();
      EXPECT_EQ(learn(kNet, setting), expected) << scheduler << ", " << setting.groups << " groups";
      EXPECT_EQ(second.complaints(), kNone);
    }
  }
}

// All tasks must run on the second node, so every codelet is tested there.
TEST(TrainingOverTwoNodes, works_where_every_task_runs_there) {
  for (const std::string& cfg : {kNet, kUncommonNet, kLargeNet}) {
    const Learned expected = learn_in_one_node(cfg, {2});
    const SecondNode second([](const std::string&) { return Where::second_node; });
    const auto session = start_session("omni", true);
    ASSERT_TRUE(session) << session.error().message();
    EXPECT_EQ(learn(cfg, {2}), expected);
    for (const auto& [codelet, count] : second.counts())
      EXPECT_EQ(count.there, count.submitted) << codelet;
    EXPECT_EQ(second.complaints(), kNone);
  }
}

// The master copy is updated on one node, and gradients are computed on the other. So replicas,
// gradients and version numbers travel between the nodes with every update.
TEST(TrainingOverTwoNodes, exchanges_on_one_node_and_gradients_on_the_other) {
  for (const auto fully_connected : {FullyConnected::merged, FullyConnected::replicated}) {
    const Setting setting{3, Asynchrony::reproducible, fully_connected};
    const Learned expected = learn_in_one_node(kNet, setting);
    for (const Where exchanges : {Where::main_memory, Where::second_node})
      for (const char* scheduler : kSchedulers) {
        const Where others =
            exchanges == Where::second_node ? Where::main_memory : Where::second_node;
        const SecondNode second(
            [=](const std::string& codelet) { return codelet == "exchange" ? exchanges : others; });
        const auto session = start_session(scheduler, true);
        ASSERT_TRUE(session) << session.error().message();
        EXPECT_EQ(learn(kNet, setting), expected) << scheduler;
        EXPECT_EQ(second.complaints(), kNone);
        for (const auto& [codelet, count] : second.counts())
          EXPECT_EQ(count.there == 0,
                    (codelet == "exchange" ? exchanges : others) == Where::main_memory)
              << scheduler << ", " << codelet;
      }
  }
}

TEST(TrainingOverTwoNodes, a_group_on_each_node) {
  const Setting setting{2};
  const Learned expected = learn_in_one_node(kNet, setting);
  for (const char* scheduler : kSchedulers) {
    const SecondNode second;
    const auto session = start_session(scheduler, true);
    ASSERT_TRUE(session) << session.error().message();
    GroupLayout layout(2);
    const auto workers = session->workers();
    for (std::size_t i = 0; i < workers.size(); ++i)
      layout[workers[i].kind == "OpenCL"].push_back(static_cast<int>(i));
    EXPECT_EQ(learn(kNet, setting, layout), expected) << scheduler;
    const auto counts = second.counts();
    EXPECT_EQ(counts.at("lrn_forward").there * 2, counts.at("lrn_forward").submitted);
    EXPECT_EQ(second.complaints(), kNone);
  }
}

TEST(TrainingOverTwoNodes, free_groups_are_as_stale_as_in_one_node) {
  constexpr std::uint64_t kUpdates = 120;
  constexpr int kGroups = 4;
  for (const char* scheduler : kSchedulers) {
    const SecondNode second;
    const auto session = start_session(scheduler);
    ASSERT_TRUE(session) << session.error().message();
    GroupTraining training(kNet, kGroups);
    training.train({.iterations = kUpdates, .strategy = async(Asynchrony::free)});
    double sum = 0;
    for (const StepReport& report : training.reports) {
      sum += static_cast<double>(report.staleness);
      EXPECT_EQ(report.fc_staleness, 0);
    }
    EXPECT_NEAR(sum / kUpdates, kGroups - 1, 0.05 * (kGroups - 1)) << scheduler;
    EXPECT_EQ(second.complaints(), kNone);
  }
}

}  // namespace
}  // namespace omni
