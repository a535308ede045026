#include "codelets/loss/sse_loss.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t values(const SseLossArgs& args) {
  return static_cast<std::size_t>(args.n) * static_cast<std::size_t>(args.inputs);
}

TEST(SseLoss, implementations_agree) {
  const Operation<SseLossArgs> operation{
      .operands = [](const SseLossArgs& args) -> std::vector<Operand> {
        std::vector<Operand> operands{
            input(values(args)),
            input(static_cast<std::size_t>(args.n), below(static_cast<std::uint32_t>(args.inputs)),
                  DataType::i32),
            output(4)};
        if (args.gradient) operands.push_back(output(values(args)));
        return operands;
      },
      .reference =
          [](const SseLossArgs& args, const Buffers& buffers) {
            reference::sse_loss(args, buffers.get<double>(0), buffers.get<std::int32_t>(1),
                                buffers.get<double>(2),
                                args.gradient ? buffers.get<double>(3) : nullptr);
          },
  };
  check_implementations(sse_loss,
                        {{"ten classes", {.n = 8, .inputs = 10, .gradient = true}},
                         {"evaluation only", {.n = 8, .inputs = 10, .scale = 3}},
                         {"one output", {.n = 1, .inputs = 1, .gradient = true}},
                         {"odd, scaled", {.n = 3, .inputs = 33, .scale = 0.3f, .gradient = true}}},
                        operation);
}

TEST(SseLoss, gradient) {
  SseLossArgs args{.n = 3, .inputs = 7, .scale = 0.5f, .gradient = true};
  std::vector<double> src = random_values(values(args), 3), diff(src.size()), metrics(4);
  const std::vector<std::int32_t> labels{0, 6, 3};
  const auto loss = [&] {
    reference::sse_loss(args, src.data(), labels.data(), metrics.data(), diff.data());
    return metrics[0];
  };
  loss();
  args.gradient = false;
  check_gradient("predictions", src, diff, loss);
}

TEST(SseLoss, hand_computed) {
  const std::vector<double> src{0.5, 0.25, 0.25};
  const std::vector<std::int32_t> labels{1};
  std::vector<double> diff(3), metrics(4);
  reference::sse_loss({.n = 1, .inputs = 3, .scale = 2, .gradient = true}, src.data(),
                      labels.data(), metrics.data(), diff.data());
  EXPECT_EQ(diff, (std::vector<double>{1, -1.5, 0.5}));
  EXPECT_EQ(metrics, (std::vector<double>{0.25 + 0.5625 + 0.0625, 0, 1, 1}));
}

TEST(SseLoss, a_label_out_of_range_is_refused) {
  for (const auto& implementation : sse_loss.implementations()) {
    std::array<float, 3> src{};
    std::array<float, 4> metrics{};
    std::int32_t label = 3;
    const std::array<void*, 3> pointers{src.data(), &label, metrics.data()};
    EXPECT_THROW(
        implementation.kernel({.n = 1, .inputs = 3}, Buffers(pointers), DeviceContext::current()),
        std::runtime_error);
  }
}

}  // namespace
}  // namespace omni::gradcheck
