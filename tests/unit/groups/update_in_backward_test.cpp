// These tests check that large connected layers update their parameters in the tasks that compute
// the gradients.
#include <gtest/gtest.h>

#include "tests/support/deterministic_session.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

// The first connected layer has 1.06 million weights. It is cut into blocks of neurons, the last of
// which is narrower.
const std::string kLargeConnected =
    test::net(6, {16, 16, 1}, "learning_rate=0.02\nmomentum=0.9\ndecay=0.01\n") +
    test::convolutional(4, "relu") + test::connected(1034, "relu") + test::connected(3) +
    test::layer("softmax");

class UpdateInBackward : public test::DeterministicSession {
 protected:
  using Run = test::GroupTraining;

  static std::string with(const std::string& options) {
    return std::string(kLargeConnected).insert(std::string("[net]\n").size(), options);
  }
  // Returns the number of parameters that are updated in the backward pass.
  static std::size_t count_of(Run& run) {
    std::size_t count = 0;
    for (const Param* param : run.groups.net().params()) count += param->updated_in_backward;
    return count;
  }
  static std::unique_ptr<Run> train(const std::string& cfg, int groups, bool in_backward) {
    auto run = std::make_unique<Run>(cfg, groups, FullyConnected::merged,
                                     BuildOptions{.update_in_backward = in_backward});
    run->train({.iterations = 12, .strategy = async(Asynchrony::reproducible)});
    return run;
  }
};

TEST_F(UpdateInBackward, trains_as_updates_of_their_own_do) {
  for (const char* solver : {"", "adam=1\n"})
    for (const int groups : {1, 2}) {
      SCOPED_TRACE(solver + std::to_string(groups));
      const auto expected = train(with(solver), groups, false),
                 run = train(with(solver), groups, true);
      ASSERT_EQ(count_of(*expected), 0u);
      ASSERT_EQ(count_of(*run), 2u) << "weights and biases of the large layer";
      const auto masters = run->masters(), same = expected->masters();
      for (std::size_t param = 0; param < masters.size(); ++param)
        for (std::size_t i = 0; i < masters[param].size(); ++i)
          ASSERT_NEAR(masters[param][i], same[param][i], 1e-4) << param << ", " << i;
      for (std::size_t i = 0; i < run->reports.size(); ++i) {
        EXPECT_EQ(run->reports[i].staleness, expected->reports[i].staleness);
        EXPECT_EQ(run->reports[i].fc_staleness, 0);
      }
    }
}

TEST_F(UpdateInBackward, is_never_stale_when_groups_are_free) {
  Run run(kLargeConnected, 2, FullyConnected::merged, {.update_in_backward = true});
  run.train({.iterations = 40, .strategy = async(Asynchrony::free)});
  double staleness = 0;
  for (const StepReport& report : run.reports) {
    EXPECT_EQ(report.fc_staleness, 0);
    staleness += static_cast<double>(report.staleness);
  }
  EXPECT_GT(staleness, 0) << "of the convolution";
}

TEST_F(UpdateInBackward, needs_no_memory_for_the_gradient) {
  const Run without(kLargeConnected);
  const Run run(kLargeConnected, 1, FullyConnected::merged, {.update_in_backward = true});
  constexpr std::size_t kParameters = 16 * 16 * 4 * 1034 + 1034;
  EXPECT_EQ(without.groups.tensor_bytes() - run.groups.tensor_bytes(), kParameters * sizeof(float));
}

// With subdivisions a gradient is summed and must be kept. With replicas or GPUs, the update needs
// a task of its own, too.
TEST_F(UpdateInBackward, is_left_alone_where_the_gradient_must_be_kept) {
  const BuildOptions in_backward{.update_in_backward = true};
  Run subdivided(with("subdivisions=3\n"), 1, FullyConnected::merged, in_backward);
  EXPECT_EQ(count_of(subdivided), 0u);
  Run beside_a_gpu(kLargeConnected, 1, FullyConnected::merged,
                   {.gpus = 1, .update_in_backward = true});
  EXPECT_EQ(count_of(beside_a_gpu), 0u) << "cores would take such tasks from it";
  Run replicated(kLargeConnected, 2, FullyConnected::replicated, in_backward);
  EXPECT_EQ(count_of(replicated), 0u);
  replicated.train({.iterations = 3, .strategy = async(Asynchrony::reproducible)});
}

}  // namespace
}  // namespace omni
