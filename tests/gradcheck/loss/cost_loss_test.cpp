// These tests compare the distances of [cost] with references, numeric gradients and values
// computed by hand.

#include "codelets/loss/cost_loss.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t values(const CostLossArgs& args) {
  return static_cast<std::size_t>(args.n) * static_cast<std::size_t>(args.inputs);
}

TEST(CostLoss, implementations_agree) {
  const Operation<CostLossArgs> operation{
      .operands = [](const CostLossArgs& args) -> std::vector<Operand> {
        std::vector<Operand> operands{
            input(values(args), uniform(-2, 2)),
            input(static_cast<std::size_t>(args.n), below(static_cast<std::uint32_t>(args.inputs)),
                  DataType::i32),
            output(4)};
        if (args.gradient) operands.push_back(output(values(args)));
        return operands;
      },
      .reference =
          [](const CostLossArgs& args, const Buffers& buffers) {
            reference::cost_loss(args, buffers.get<double>(0), buffers.get<std::int32_t>(1),
                                 buffers.get<double>(2),
                                 args.gradient ? buffers.get<double>(3) : nullptr);
          },
  };
  check_implementations(
      cost_loss,
      {{"ten classes", {.n = 8, .inputs = 10, .gradient = true}},
       {"evaluation only", {.n = 8, .inputs = 10, .scale = 3}},
       {"one output", {.n = 1, .inputs = 1, .gradient = true}},
       {"odd, scaled", {.n = 3, .inputs = 33, .scale = 0.3f, .gradient = true}},
       {"smooth", {.n = 4, .inputs = 33, .distance = Distance::smooth, .gradient = true}},
       {"L1", {.n = 4, .inputs = 33, .distance = Distance::l1, .gradient = true}},
       {"hinge", {.n = 4, .inputs = 33, .distance = Distance::hinge, .gradient = true}},
       {"squared hinge",
        {.n = 4, .inputs = 33, .distance = Distance::squared_hinge, .gradient = true}}},
      operation);
}

TEST(CostLoss, gradient) {
  for (const Distance distance :
       {Distance::sse, Distance::smooth, Distance::l1, Distance::hinge, Distance::squared_hinge}) {
    SCOPED_TRACE(static_cast<int>(distance));
    CostLossArgs args{.n = 3, .inputs = 7, .distance = distance, .scale = 0.5f, .gradient = true};
    std::vector<double> src = random_values(values(args), 3, uniform(-2, 2)), diff(src.size()),
                        metrics(4);
    const std::vector<std::int32_t> labels{0, 6, 3};
    const auto loss = [&] {
      reference::cost_loss(args, src.data(), labels.data(), metrics.data(), diff.data());
      return metrics[0];
    };
    loss();
    args.gradient = false;
    check_gradient("predictions", src, diff, loss);
  }
}

TEST(CostLoss, hand_computed) {
  const std::vector<double> src{0.5, 0.25, 0.25};
  const std::vector<std::int32_t> labels{1};
  std::vector<double> diff(3), metrics(4);
  reference::cost_loss({.n = 1, .inputs = 3, .scale = 2, .gradient = true}, src.data(),
                       labels.data(), metrics.data(), diff.data());
  EXPECT_EQ(diff, (std::vector<double>{1, -1.5, 0.5}));
  EXPECT_EQ(metrics, (std::vector<double>{0.25 + 0.5625 + 0.0625, 0, 1, 1}));
}

TEST(CostLoss, smooth_and_l1_hand_computed) {
  const std::vector<double> src{0.5, -2, 3};  // d: 0.5, -3, 3
  const std::vector<std::int32_t> labels{1};
  std::vector<double> diff(3), metrics(4);
  const auto run = [&](Distance distance) {
    reference::cost_loss({.n = 1, .inputs = 3, .distance = distance, .scale = 2, .gradient = true},
                         src.data(), labels.data(), metrics.data(), diff.data());
  };
  run(Distance::smooth);
  EXPECT_EQ(diff, (std::vector<double>{1, -2, 2}));
  EXPECT_EQ(metrics[0], 2 * (0.125 + 2.5 + 2.5));
  run(Distance::l1);
  EXPECT_EQ(diff, (std::vector<double>{2, -2, 2}));
  EXPECT_EQ(metrics[0], 2 * (0.5 + 3 + 3));
}

TEST(CostLoss, hinges_hand_computed) {
  const std::vector<double> src{0.5, -2, 3, 0.25};  // margins: 1.5, 0, 4, 0.75
  const std::vector<std::int32_t> labels{3};
  std::vector<double> diff(4), metrics(4);
  const auto run = [&](Distance distance) {
    reference::cost_loss({.n = 1, .inputs = 4, .distance = distance, .scale = 2, .gradient = true},
                         src.data(), labels.data(), metrics.data(), diff.data());
  };
  run(Distance::hinge);
  EXPECT_EQ(diff, (std::vector<double>{2, 0, 2, -2}));
  EXPECT_EQ(metrics[0], 2 * (1.5 + 4 + 0.75));
  run(Distance::squared_hinge);
  EXPECT_EQ(diff, (std::vector<double>{6, 0, 16, -3}));
  EXPECT_EQ(metrics[0], 2 * (2.25 + 16 + 0.5625));
}

// A GPU kernel cannot report an error. Its loss becomes NaN, which ends the run.
TEST(CostLoss, a_label_out_of_range_is_refused) {
  for (const auto& implementation : implementations_here(cost_loss)) {
    std::vector<float> src(3), metrics(4);
    std::vector<std::int32_t> labels{3};
    const auto run = [&] {
      run_on_values(implementation, CostLossArgs{.n = 1, .inputs = 3}, src, labels, metrics);
    };
    if (implementation.role == Role::gpu) {
      run();
      EXPECT_TRUE(std::isnan(metrics[0]));
    } else {
      EXPECT_THROW(run(), std::runtime_error);
    }
  }
}

}  // namespace
}  // namespace omni::gradcheck
