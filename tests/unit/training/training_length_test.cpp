// These tests check the length of a training, from --epochs or max_batches, and the warning about a
// learning rate that does not suit the length.
#include "apps/omni-run/training/training_length.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layers/formats/darknet/darknet.hpp"
#include "runtime/log.hpp"

namespace omni {
namespace {

using testing::HasSubstr;

TrainableNet length_net(const std::string& keys) {
  return *parse_darknet_cfg("[net]\nbatch=10\nheight=2\nwidth=2\nchannels=1\n" + keys +
                                "[connected]\noutput=3\n[softmax]\n",
                            "net.cfg");
}

TEST(TrainingLength, is_that_of_the_epochs_or_of_max_batches) {
  const TrainableNet net = length_net("max_batches=40\n");
  TrainArguments arguments;
  EXPECT_EQ(planned_iterations(arguments, net, 95), 40u);
  arguments.epochs = 2;
  EXPECT_EQ(planned_iterations(arguments, net, 95), 19u);
  TrainableNet shorter = net;
  shorter.commanded = {"max_batches"};
  shorter.solver.max_batches = 7;
  EXPECT_EQ(planned_iterations(arguments, shorter, 95), 7u) << "--max-batches bounds --epochs";
}

TEST(TrainingLength, a_rate_of_0_is_refused) {
  const TrainableNet net = length_net("learning_rate=0.1\npolicy=steps\nsteps=5\nscales=0\n");
  const Status refused = check_schedule(net, 1, 20, false);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, HasSubstr("the learning rate is 0 from iteration"));
  EXPECT_TRUE(check_schedule(net, 1, 4, false));
}

TEST(TrainingLength, a_schedule_that_ends_elsewhere_is_warned_of) {
  const TrainableNet net = length_net("learning_rate=0.1\npolicy=poly\nmax_batches=20\n");
  const auto said = [&](std::uint64_t length) {
    const log::Capture captured;
    warn_about_new_length(net, length, 20, 10);
    return captured.text();
  };
  EXPECT_EQ(said(20), "");
  EXPECT_THAT(said(30), HasSubstr("now ends at iteration 20; up to 10 it was that of a training of "
                                  "30"));
}

}  // namespace
}  // namespace omni
