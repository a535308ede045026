#include "codelets/dense/connected.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

const std::vector<Case<ConnectedShape>> kShapes{
    {"small", {.n = 4, .inputs = 10, .outputs = 6}},
    {"one of each", {.n = 1, .inputs = 1, .outputs = 1}},
    {"one image", {.n = 1, .inputs = 130, .outputs = 67}},
    {"one output", {.n = 5, .inputs = 33, .outputs = 1}},
    {"one input", {.n = 7, .inputs = 1, .outputs = 19}},
    {"odd sizes", {.n = 13, .inputs = 257, .outputs = 131}},
    {"whole vectors", {.n = 32, .inputs = 256, .outputs = 128}},
    {"more than a cache block", {.n = 65, .inputs = 1030, .outputs = 515}},
};

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

// Every shape with and without bias.
template <class Args>
std::vector<Case<Args>> both_biases() {
  std::vector<Case<Args>> cases;
  for (const auto& each : kShapes)
    for (const bool has_bias : {true, false}) {
      Args args{.shape = each.args};
      args.has_bias = has_bias;
      cases.push_back({each.what, args});
    }
  return cases;
}

TEST(Connected, Forward) {
  auto cases = both_biases<ConnectedForwardArgs>();
  for (const Activation activation : {Activation::relu, Activation::logistic})
    for (const bool has_bias : {true, false})
      cases.push_back({"activation",
                       {.shape = kShapes[0].args, .activation = activation, .has_bias = has_bias}});
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
                                          args.has_bias ? b.get<double>(3) : nullptr,
                                          b.get<double>(2));
           },
       .terms = [](const ConnectedForwardArgs& args) { return 1.0 * args.shape.inputs; }});
}

TEST(Connected, BackwardWeights) {
  check_implementations(
      connected_backward_weights, both_biases<ConnectedWeightsArgs>(),
      {.operands =
           [](const ConnectedWeightsArgs& args) {
             std::vector<Operand> operands{input(size(args.shape.src_count())),
                                           input(size(args.shape.dst_count())),
                                           accumulated(size(args.shape.weights_count()))};
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
}

TEST(Connected, BackwardData) {
  std::vector<Case<ConnectedDataArgs>> cases;
  for (const auto& each : kShapes) cases.push_back({each.what, {.shape = each.args}});
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
}

// loss = <direction, dst>, through an activation without kinks, as the layer chains them.
TEST(Connected, GradientOfReference) {
  for (const auto& [what, shape] : {kShapes[0], kShapes[2], kShapes[3], kShapes[4]}) {
    SCOPED_TRACE(what);
    const ConnectedForwardArgs args{
        .shape = shape, .activation = Activation::logistic, .has_bias = true};
    auto src = random_values(size(shape.src_count()), 1);
    auto weights = random_values(size(shape.weights_count()), 2);
    auto bias = random_values(size(shape.outputs), 3);
    const auto direction = random_values(size(shape.dst_count()), 4);
    std::vector<double> dst(direction.size()), diff_src(src.size()), diff_weights(weights.size()),
        diff_bias(bias.size());
    const auto loss = [&] {
      reference::connected_forward(args, src.data(), weights.data(), bias.data(), dst.data());
      return dot(direction, dst);
    };
    loss();
    std::vector<double> diff_dst = direction;
    for (std::size_t i = 0; i < dst.size(); ++i)
      diff_dst[i] *= activations::Logistic{}.gradient(dst[i]);
    reference::connected_backward_weights({.shape = shape, .has_bias = true}, src.data(),
                                          diff_dst.data(), diff_weights.data(), diff_bias.data());
    reference::connected_backward_data({.shape = shape}, diff_dst.data(), weights.data(),
                                       diff_src.data());
    check_gradient("src", src, diff_src, loss);
    check_gradient("weights", weights, diff_weights, loss);
    check_gradient("bias", bias, diff_bias, loss);
  }
}

}  // namespace
}  // namespace omni::gradcheck
