#include "codelets/elementwise/exchange.hpp"

#include "codelets/elementwise/accumulate.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

std::size_t values(const auto& args) { return static_cast<std::size_t>(args.count); }

TEST(Exchange, implementations_agree) {
  check_implementations<ExchangeArgs>(
      exchange,
      {{"usual", {1000, 0.01f, 0.9f, 0.0005f, 1.0f / 64}},
       {"one value", {1, 0.1f, 0.5f, 0.1f, 1}},
       {"odd", {37, 0.01f, 0.9f, 0, 0.5f}},
       {"no momentum", {100, 0.01f, 0, 0.0001f, 0.5f}},
       {"frozen", {100, 0, 0.9f, 0.0005f, 0.5f}},
       {"empty", {0, 0.01f, 0.9f, 0.0005f, 1}},
       {"with a replica", {1000, 0.01f, 0.9f, 0.0005f, 1.0f / 64, true}},
       {"replica in several pieces", {5001, 0.01f, -0.3f, 0, 1, true}}},
      {.operands = [](const ExchangeArgs& args) -> std::vector<Operand> {
         return {in_place(values(args)), in_place(values(args)), in_place(values(args)),
                 output(args.refresh ? values(args) : 0)};
       },
       .reference =
           [](const ExchangeArgs& args, const Buffers& buffers) {
             reference::exchange(args, buffers.get<double>(0), buffers.get<double>(1),
                                 buffers.get<double>(2), buffers.get<double>(3));
           }});
}

// value 2, gradients 4 and 8 of a batch of two, rate 1/8 then 1/4, momentum and decay 1/2.
TEST(Exchange, hand_computed_sequence) {
  for (const auto& implementation : exchange.implementations()) {
    float value = 2, diff = 4, velocity = 0;
    const std::array<void*, 3> pointers{&value, &diff, &velocity};
    ExchangeArgs args{1, 0.125f, 0.5f, 0.5f, 0.5f};
    implementation.kernel(args, Buffers(pointers), DeviceContext::current());
    EXPECT_EQ(velocity, 3);  // 4/2 + 2/2
    EXPECT_EQ(value, 1.625f);
    EXPECT_EQ(diff, 0) << "ready for the next iteration";
    diff = 8;
    args.learning_rate = 0.25f;
    implementation.kernel(args, Buffers(pointers), DeviceContext::current());
    EXPECT_EQ(velocity, 6.3125f);  // 3/2 + 8/2 + 1.625/2
    EXPECT_EQ(value, 0.046875f);
    EXPECT_EQ(diff, 0);
  }
}

// Caffe: velocity = momentum * velocity + rate * g; value -= velocity.
TEST(Exchange, is_caffe_s_while_the_rate_is_constant) {
  const ExchangeArgs args{1, 0.01f, 0.9f, 0.0005f, 0.125f};
  const double rate = static_cast<double>(args.learning_rate);
  double value = 1, velocity = 0, caffe_value = 1, caffe_velocity = 0;
  for (int step = 0; step < 50; ++step) {
    double diff = std::cos(step) * 8;
    const double gradient = static_cast<double>(args.gradient_scale) * diff +
                            static_cast<double>(args.decay) * caffe_value;
    caffe_velocity = static_cast<double>(args.momentum) * caffe_velocity + rate * gradient;
    caffe_value -= caffe_velocity;
    reference::exchange<double>(args, &value, &diff, &velocity, nullptr);
    ASSERT_NEAR(value, caffe_value, 1e-13);
  }
}

TEST(Accumulate, implementations_agree) {
  check_implementations<AccumulateArgs>(
      accumulate_sum, {{"usual", {1000}}, {"one value", {1}}, {"odd", {37}}},
      {.operands = [](const AccumulateArgs& args) -> std::vector<Operand> {
         return {input(values(args)), accumulated(values(args))};
       },
       .reference =
           [](const AccumulateArgs& args, const Buffers& buffers) {
             reference::accumulate(args, buffers.get<double>(0), buffers.get<double>(1));
           }});
}

}  // namespace
}  // namespace omni::gradcheck
