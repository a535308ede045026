#include "codelets/elementwise/channel_bias.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

template <class Args>
std::size_t values(const Args& args) {
  return static_cast<std::size_t>(args.rows * args.c);
}

template <class Args>
std::size_t channels(const Args& args) {
  return static_cast<std::size_t>(args.c);
}

TEST(ChannelBias, Forward) {
  check_implementations(
      channel_bias_forward,
      {{"usual", {.rows = 49, .c = 64, .activation = Activation::relu}},
       {"one of each", {.rows = 1, .c = 1}},
       {"one channel", {.rows = 37, .c = 1, .activation = Activation::logistic}},
       {"one row", {.rows = 1, .c = 131, .activation = Activation::leaky}},
       {"odd", {.rows = 13, .c = 67, .activation = Activation::tanh}}},
      {.operands =
           [](const ChannelBiasArgs& args) {
             return std::vector<Operand>{input(channels(args)), in_place(values(args))};
           },
       .reference =
           [](const ChannelBiasArgs& args, const Buffers& b) {
             reference::channel_bias_forward(args, b.get<double>(0), b.get<double>(1));
           }});
}

TEST(ChannelBias, Backward) {
  check_implementations(
      channel_bias_backward,
      {{"usual", {.rows = 49, .c = 64}},
       {"one of each", {.rows = 1, .c = 1}},
       {"one channel", {.rows = 37, .c = 1}},
       {"one row", {.rows = 1, .c = 131}},
       {"odd", {.rows = 13, .c = 67}},
       {"many rows, after relu", {.rows = 4099, .c = 32, .activation = Activation::relu}},
       {"one of each, after leaky", {.rows = 1, .c = 1, .activation = Activation::leaky}},
       {"odd, after logistic", {.rows = 131, .c = 67, .activation = Activation::logistic}},
       {"one channel, after mish", {.rows = 37, .c = 1, .activation = Activation::mish}}},
      {.operands =
           [](const ChannelBiasArgs& args) {
             if (args.activation == Activation::linear)
               return std::vector<Operand>{input(values(args)), accumulated(channels(args))};
             return std::vector<Operand>{in_place(values(args)), accumulated(channels(args)),
                                         input(values(args), away_from_zero(0.1f))};
           },
       .reference =
           [](const ChannelBiasArgs& args, const Buffers& b) {
             reference::channel_bias_backward(
                 args, b.get<double>(0), b.get<double>(1),
                 args.activation == Activation::linear ? nullptr : b.get<double>(2));
           },
       .terms = [](const ChannelBiasArgs& args) { return static_cast<double>(args.rows); }});
}

}  // namespace
}  // namespace omni::gradcheck
