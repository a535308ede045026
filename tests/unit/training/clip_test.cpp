// These tests compare the clipped steps of a training with plain loops in double precision.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/formats/darknet/darknet.hpp"
#include "runtime/data/open.hpp"
#include "runtime/tasks/host_access.hpp"
#include "scheduling/training/training.hpp"
#include "tests/support/deterministic_session.hpp"

namespace omni {
namespace {

// Returns a net of twenty parameters, so that the sums of their squares make a tree.
std::string net_of(const std::string& options) {
  std::string text = "[net]\nbatch=8\nheight=6\nwidth=6\nchannels=1\nlearning_rate=0.5\n" +
                     std::string("momentum=0\ndecay=0\n") + options + "\n";
  for (int i = 0; i < 9; ++i)
    text += "[convolutional]\nfilters=3\nsize=3\nstride=1\npad=1\nactivation=leaky\n";
  return text + "[connected]\noutput=3\nactivation=linear\n[softmax]\n";
}

using Values = std::vector<std::vector<float>>;

class ClippedTraining : public test::DeterministicSession {
 protected:
  // Returns the parameters after `iterations` iterations.
  Values trained(const std::string& options, std::uint64_t iterations, int slice = 0) {
    const auto net = parse_darknet_cfg(net_of(options), "net.cfg");
    EXPECT_TRUE(net) << net.error().message();
    auto data =
        open_dataset({.source = "synthetic:64:3", .net_input = {6, 6, 1}, .classes = 3, .seed = 5});
    TrainingPlan plan{.net = *net, .groups = {.count = 1}, .data = &*data};
    plan.build.slice = slice;
    plan.build.update_in_backward = true;
    plan.build.cores = 4;  // so slices add to several sums
    plan.build.fixed_sums = fixed_sums_;
    plan.length.iterations = iterations;
    const auto training = Training::make(std::move(plan), session());
    EXPECT_TRUE(training) << training.error().message();
    EXPECT_TRUE(iterations == 0 || (*training)->run());
    Values all;
    for (const Param* param : (*training)->groups().net().params()) {
      const HostAccess access(*param->master, HostAccess::Mode::read);
      all.emplace_back(access.f32().begin(), access.f32().end());
    }
    return all;
  }
  // Returns the largest error of the clipped step, as a share of the step's length.
  double error_of_step(const std::string& options, float clip, int slice = 0) {
    const Values start = trained(options, 0, slice), whole = trained(options, 1, slice);
    const Values clipped = trained(options + "\nclip_gradients=" + std::to_string(clip), 1, slice);
    double square = 0, error = 0;
    for (std::size_t i = 0; i < start.size(); ++i)
      for (std::size_t k = 0; k < start[i].size(); ++k)
        square += std::pow((start[i][k] - double{whole[i][k]}) / 0.5, 2);
    norm_ = std::sqrt(square);
    const double scale = norm_ > double{clip} ? double{clip} / norm_ : 1;
    for (std::size_t i = 0; i < start.size(); ++i)
      for (std::size_t k = 0; k < start[i].size(); ++k)
        error = std::max(error, std::abs(start[i][k] - scale * (start[i][k] - double{whole[i][k]}) -
                                         double{clipped[i][k]}));
    return error / (0.5 * scale * norm_);
  }
  double norm_ = 0;  // of the mean gradient
  bool fixed_sums_ = false;
};

TEST_F(ClippedTraining, steps_are_those_of_plain_loops) {
  for (const char* options : {"", "subdivisions=2"})
    for (const int slice : {0, 2}) {
      fixed_sums_ = slice == 0;
      EXPECT_LT(error_of_step(options, 0.01f, slice), 1e-5) << options << ' ' << slice;
      EXPECT_GT(norm_, 0.05) << "or nothing is clipped";
      EXPECT_EQ(error_of_step(options, 100, slice), 0) << "below the limit nothing changes";
    }
}

TEST_F(ClippedTraining, repeats_bit_for_bit) {
  for (const char* options : {"clip_gradients=0.05", "clip_gradients=0.05\nadam=1"})
    EXPECT_EQ(trained(options, 6), trained(options, 6));
}

TEST_F(ClippedTraining, needs_one_group) {
  const auto net = parse_darknet_cfg(net_of("clip_gradients=1"), "net.cfg");
  ASSERT_TRUE(net) << net.error().message();
  auto data =
      open_dataset({.source = "synthetic:64:3", .net_input = {6, 6, 1}, .classes = 3, .seed = 5});
  TrainingPlan plan{.net = *net, .groups = {.count = 2}, .data = &*data};
  const auto refused = Training::make(std::move(plan), session());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("clip_gradients is not for several groups"),
            std::string::npos);
}

}  // namespace
}  // namespace omni
