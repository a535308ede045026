#include "codelets/dense/connected.hpp"

#include "codelets/dense/connected_update.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

const std::vector<Case<ConnectedShape>> kConnectedShapes{
    {"small", {.n = 4, .inputs = 10, .outputs = 6}},
    {"one of each", {.n = 1, .inputs = 1, .outputs = 1}},
    {"one image", {.n = 1, .inputs = 130, .outputs = 67}},
    {"one output", {.n = 5, .inputs = 33, .outputs = 1}},
    {"one input", {.n = 7, .inputs = 1, .outputs = 19}},
    {"odd sizes", {.n = 13, .inputs = 257, .outputs = 131}},
    {"whole vectors", {.n = 32, .inputs = 256, .outputs = 128}},
    {"parts of the neurons, which overlap", {.n = 3, .inputs = 70'001, .outputs = 37}},
    {"parts of the inputs, which overlap", {.n = 3, .inputs = 37, .outputs = 70'001}},
    {"more than a cache block", {.n = 65, .inputs = 1030, .outputs = 515}},
};

TEST(Connected, Forward) {
  auto cases = with_and_without_bias<ConnectedForwardArgs>(kConnectedShapes);
  for (std::size_t i = 0; i < kActivationNames.size(); ++i)
    for (const bool has_bias : {true, false})
      cases.push_back({kActivationNames[i].data(),
                       {.shape = kConnectedShapes[0].args,
                        .activation = static_cast<Activation>(i),
                        .has_bias = has_bias}});
  in_every_precision([&] {
    check_implementations(
        connected_forward, cases,
        {.operands =
             [](const ConnectedForwardArgs& args) {
               std::vector<Operand> operands{input(size(args.shape.src_count())),
                                             input(size(args.shape.weights_count())),
                                             output(size(args.shape.dst_count()))};
               if (args.has_bias) operands.push_back(input(size(args.shape.outputs)));
               return operands;
             },
         .reference =
             [](const ConnectedForwardArgs& args, const Buffers& b) {
               reference::connected_forward(args, b.get<double>(0), b.get<double>(1),
                                            b.get<double>(2),
                                            args.has_bias ? b.get<double>(3) : nullptr);
             },
         .terms = [](const ConnectedForwardArgs& args) { return 1.0 * args.shape.inputs; }});
  });
}

// If relu turned NaN into 0, the loss would not show that the net has diverged.
TEST(Connected, relu_keeps_nan) {
  const auto src = input(64, [i = 0](Draws&) mutable { return i++ % 64 == 21 ? NAN : 1.0f; });
  const auto ones = [](Draws&) { return 1.0f; };
  for (const bool has_bias : {false, true}) {
    const ConnectedForwardArgs args{.shape = {.n = 4, .inputs = 16, .outputs = 8},
                                    .activation = Activation::relu,
                                    .has_bias = has_bias};
    for (const auto& implementation : implementations_here(connected_forward)) {
      SCOPED_TRACE(implementation.name);
      const auto run = [&](const Buffers& buffers) {
        implementation.kernel(args, buffers, DeviceContext::current());
      };
      const auto blocks = run_on<float>({src, input(128, ones), output(32), input(8, ones)}, 1, run,
                                        implementation.role == Role::gpu);
      const auto* dst = static_cast<const float*>(blocks[2].data());
      EXPECT_TRUE(std::isnan(dst[8]));              // the image that holds it
      EXPECT_EQ(dst[0], has_bias ? 17.0f : 16.0f);  // and another one
    }
  }
}

TEST(Connected, BackwardWeights) {
  in_every_precision([&] {
    check_implementations(
        connected_backward_weights, weights_gradients<ConnectedWeightsArgs>(kConnectedShapes),
        {.operands =
             [](const ConnectedWeightsArgs& args) {
               std::vector<Operand> operands{input(size(args.shape.src_count())),
                                             input(size(args.shape.dst_count())),
                                             gradient_operand(args)};
               if (args.has_bias) operands.push_back(accumulated(size(args.shape.outputs)));
               return operands;
             },
         .reference =
             [](const ConnectedWeightsArgs& args, const Buffers& b) {
               reference::connected_backward_weights(args, b.get<double>(0), b.get<double>(1),
                                                     b.get<double>(2),
                                                     args.has_bias ? b.get<double>(3) : nullptr);
             },
         .terms = [](const ConnectedWeightsArgs& args) { return 1.0 * args.shape.n; }});
  });
}

TEST(Connected, BackwardData) {
  std::vector<Case<ConnectedDataArgs>> cases;
  for (const auto& each : kConnectedShapes) cases.push_back({each.what, {.shape = each.args}});
  in_every_precision([&] {
    check_implementations(
        connected_backward_data, cases,
        {.operands =
             [](const ConnectedDataArgs& args) {
               return std::vector<Operand>{input(size(args.shape.dst_count())),
                                           input(size(args.shape.weights_count())),
                                           output(size(args.shape.src_count()))};
             },
         .reference =
             [](const ConnectedDataArgs& args, const Buffers& b) {
               reference::connected_backward_data(args, b.get<double>(0), b.get<double>(1),
                                                  b.get<double>(2));
             },
         .terms = [](const ConnectedDataArgs& args) { return 1.0 * args.shape.outputs; }});
  });
}

// The test BackwardWeights checks the gradient. This test checks the update.
TEST(Connected, Update) {
  auto shapes = kConnectedShapes;
  shapes.push_back({"gradient in three pieces", {.n = 2, .inputs = 70'001, .outputs = 37}});
  shapes.push_back({"a row is more than a piece", {.n = 1, .inputs = (1 << 20) + 3, .outputs = 2}});
  std::vector<Case<ConnectedUpdateArgs>> cases;
  for (const auto& [what, shape] : shapes)
    for (const bool adam : {false, true}) {
      const ExchangeArgs weights{.learning_rate = 0.01f,
                                 .momentum = 0.9f,
                                 .decay = 0.0005f,
                                 .gradient_scale = 1.0f / 64,
                                 .adam = adam,
                                 .number = 3};
      ExchangeArgs bias = weights;
      bias.learning_rate = 0.02f;
      bias.decay = 0;
      cases.push_back({what, {shape, weights, bias}});
    }
  in_every_precision([&] {
    check_implementations(
        connected_backward_update, cases,
        {.operands =
             [](const ConnectedUpdateArgs& args) {
               const std::size_t weights = size(args.shape.weights_count()),
                                 bias = size(args.shape.outputs);
               std::vector<Operand> operands{input(size(args.shape.src_count())),
                                             input(size(args.shape.dst_count())),
                                             in_place(weights),
                                             in_place(weights),
                                             in_place(bias),
                                             in_place(bias)};
               if (args.weights.adam)
                 for (const std::size_t count : {weights, bias})
                   operands.push_back(in_place(count, uniform(0, 1)));
               return operands;
             },
         .reference =
             [](const ConnectedUpdateArgs& args, const Buffers& b) {
               Updated<double> weights{b.get<double>(2), b.get<double>(3)},
                   bias{b.get<double>(4), b.get<double>(5)};
               if (args.weights.adam) {
                 weights.mean_square = b.get<double>(6);
                 bias.mean_square = b.get<double>(7);
               }
               reference::connected_backward_update(args, b.get<double>(0), b.get<double>(1),
                                                    weights, bias);
             },
         .terms = [](const ConnectedUpdateArgs& args) { return 1.0 * args.shape.n; }});
  });
}

TEST(Connected, GradientOfReference) {
  for (const auto& [what, shape] :
       {kConnectedShapes[0], kConnectedShapes[2], kConnectedShapes[3], kConnectedShapes[4]}) {
    SCOPED_TRACE(what);
    check_weighted_gradients(
        {shape.src_count(), shape.weights_count(), shape.outputs, shape.dst_count()},
        [&shape = shape](const WeightedOperands& from, double* dst) {
          reference::connected_forward({.shape = shape, .has_bias = true}, from.src.data(),
                                       from.weights.data(), dst, from.bias.data());
        },
        [&shape = shape](const WeightedOperands& from, const double* diff_dst,
                         WeightedOperands& gradients) {
          reference::connected_backward_weights({.shape = shape, .has_bias = true}, from.src.data(),
                                                diff_dst, gradients.weights.data(),
                                                gradients.bias.data());
          reference::connected_backward_data({.shape = shape}, diff_dst, from.weights.data(),
                                             gradients.src.data());
        });
  }
}

}  // namespace
}  // namespace omni::gradcheck
