// These tests train ten steps of every shipped net on a GPU. The losses must be the CPU's.
#include "tests/gpu/training.hpp"
#include "tests/support/equal_but_for_rounding.hpp"

namespace omni::test {
namespace {

class ShippedNet : public Training, public testing::WithParamInterface<TenSteps> {};

TEST_P(ShippedNet, has_the_losses_of_the_cpu) {
  const TenSteps& steps = GetParam();
  if (kPlayed && steps.size != TenSteps::Size::small) GTEST_SKIP() << "too large for a played GPU";
  const auto train = [&](Words device) {
    const Words few = steps.arguments();
    device.insert(device.end(), few.begin(), few.end());
    return losses(steps.net, device, steps.batch);
  };
  expect_equal_but_for_rounding(train({"--impl", "cuda"}),
                                train({"--gpus", "none", "--impl", "onednn"}),
                                train({"--gpus", "none", "--impl", "lowering_onednn"}));
}

INSTANTIATE_TEST_SUITE_P(All, ShippedNet, testing::ValuesIn(kTenSteps),
                         [](const auto& each) { return each.param.test_name(); });

}  // namespace
}  // namespace omni::test
