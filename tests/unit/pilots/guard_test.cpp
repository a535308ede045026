// What a guarded training does when its parameters turn bad behind the losses that it sees.
#include "scheduling/pilots/guard.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/deterministic_session.hpp"
#include "tests/support/group_training.hpp"
#include "tests/support/net_text.hpp"

namespace omni {
namespace {

const std::string kGuardedNet = test::net(12, {8, 8, 1}, "learning_rate=0.02\nmomentum=0.5\n") +
                                test::convolutional(4, "tanh", "batch_normalize=1\n") +
                                test::connected(3) + test::layer("softmax");

// Of 1024 images.
constexpr std::uint64_t kWindow = 85, kSnapshot = 2 * kWindow;

class Guarded : public test::DeterministicSession {
 protected:
  struct Trained {
    std::vector<std::vector<float>> at_snapshot, last, end;
    std::vector<double> losses;
  };
  // After `spoiled` iterations all weights are multiplied by `scale`.
  static Trained train(std::uint64_t iterations, std::uint64_t spoiled, float scale) {
    test::GroupTraining run(kGuardedNet, 2);
    Trained result;
    Guard guard;
    Trainer trainer(run.groups, *run.feed, nullptr, run.state,
                    {.iterations = iterations, .strategy = async(Asynchrony::reproducible)},
                    {.on_iteration =
                         [&](const StepReport& at) {
                           result.losses.push_back(at.loss);
                           if (at.iteration == iterations) result.last = run.masters();
                           if (at.iteration == kSnapshot) result.at_snapshot = run.masters();
                           if (at.iteration != spoiled) return;
                           for (const Param* param : run.groups.net().params()) {
                             auto values = test::values(*param->master);
                             for (float& value : values) value *= scale;
                             test::set(*param->master, values);
                           }
                         }},
                    {&guard});
    const Status trained = trainer.run();
    EXPECT_TRUE(trained) << trained.error().message();
    result.end = run.masters();
    return result;
  }
};

// No loss tells of the last parameters.
TEST_F(Guarded, a_result_that_is_worse_than_before_is_not_kept) {
  const Trained spoiled = train(200, 200, 0), plain = train(200, 0, 1);
  EXPECT_EQ(plain.losses, spoiled.losses);
  EXPECT_EQ(spoiled.end, spoiled.at_snapshot);
  EXPECT_EQ(plain.end, plain.last) << "also running statistics";
}

// By its first window of losses, which are not high enough to be lost.
TEST_F(Guarded, a_snapshot_that_is_worse_than_the_one_before_is_left) {
  testing::internal::CaptureStderr();
  (void)train(600, 2 * kSnapshot, 0.5f);
  const std::string said = testing::internal::GetCapturedStderr();
  const auto number = std::to_string(2 * kSnapshot + kWindow);
  EXPECT_NE(said.find("in iteration " + number + ": back to the parameters of iteration 170"),
            said.npos)
      << said;
}

}  // namespace
}  // namespace omni
