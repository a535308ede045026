#include "codelets/dense/local.hpp"

#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {
namespace {

const std::vector<Case<ConvShape>> kLocalShapes{
    {"3x3, padded",
     {.n = 2,
      .h = 6,
      .w = 5,
      .c = 4,
      .filters = 7,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1}},
    {"one of each", {}},
    {"1x1 image under a padded 3x3 kernel",
     {.n = 2,
      .h = 1,
      .w = 1,
      .c = 8,
      .filters = 3,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1}},
    {"1x1 kernel", {.n = 3, .h = 7, .w = 5, .c = 19, .filters = 33}},
    {"1x1 kernel, strided",
     {.n = 2, .h = 7, .w = 8, .c = 16, .filters = 32, .stride_h = 2, .stride_w = 2}},
    {"one image, odd sizes, one channel",
     {.n = 1,
      .h = 11,
      .w = 9,
      .c = 1,
      .filters = 5,
      .kernel_h = 5,
      .kernel_w = 5,
      .pad_h = 2,
      .pad_w = 2}},
    {"stride greater than kernel",
     {.n = 5,
      .h = 14,
      .w = 13,
      .c = 3,
      .filters = 4,
      .kernel_h = 2,
      .kernel_w = 2,
      .stride_h = 3,
      .stride_w = 3}},
    {"padding as large as the kernel, uneven everything",
     {.n = 3,
      .h = 5,
      .w = 4,
      .c = 2,
      .filters = 3,
      .kernel_h = 3,
      .kernel_w = 2,
      .stride_h = 2,
      .pad_h = 3,
      .pad_w = 1}},
    {"kernel of the image's size",
     {.n = 4, .h = 6, .w = 6, .c = 17, .filters = 20, .kernel_h = 6, .kernel_w = 6}},
    {"many images, large weights",
     {.n = 33,
      .h = 8,
      .w = 8,
      .c = 40,
      .filters = 48,
      .kernel_h = 3,
      .kernel_w = 3,
      .stride_h = 2,
      .stride_w = 2,
      .pad_h = 1,
      .pad_w = 1}},
};

template <class Args>
std::vector<Case<Args>> all_shapes() {
  std::vector<Case<Args>> cases;
  for (const auto& each : kLocalShapes) {
    Args args;
    args.shape.conv = each.args;
    cases.push_back({each.what, args});
  }
  return cases;
}

TEST(Local, Forward) {
  auto cases = all_shapes<LocalForwardArgs>();
  for (const Activation activation : {Activation::relu, Activation::logistic})
    cases.push_back({"activation", {.shape = {kLocalShapes[0].args}, .activation = activation}});
  in_every_precision([&] {
    check_implementations(
        local_forward, cases,
        {.operands =
             [](const LocalForwardArgs& args) {
               return std::vector<Operand>{input(size(args.shape.conv.src_count())),
                                           input(size(args.shape.weights_count())),
                                           input(size(args.shape.outputs())),
                                           output(size(args.shape.conv.dst_count()))};
             },
         .reference =
             [](const LocalForwardArgs& args, const Buffers& b) {
               reference::local_forward(args, b.get<double>(0), b.get<double>(1), b.get<double>(2),
                                        b.get<double>(3));
             },
         .terms = [](const LocalForwardArgs& args) { return 1.0 * args.shape.conv.taps(); }});
  });
}

TEST(Local, BackwardWeights) {
  in_every_precision([&] {
    check_implementations(
        local_backward_weights, all_shapes<LocalBackwardArgs>(),
        {.operands =
             [](const LocalBackwardArgs& args) {
               return std::vector<Operand>{input(size(args.shape.conv.src_count())),
                                           input(size(args.shape.conv.dst_count())),
                                           accumulated(size(args.shape.weights_count())),
                                           accumulated(size(args.shape.outputs()))};
             },
         .reference =
             [](const LocalBackwardArgs& args, const Buffers& b) {
               reference::local_backward_weights(args, b.get<double>(0), b.get<double>(1),
                                                 b.get<double>(2), b.get<double>(3));
             },
         .terms = [](const LocalBackwardArgs& args) { return 1.0 * args.shape.conv.n; }});
  });
}

TEST(Local, BackwardData) {
  in_every_precision([&] {
    check_implementations(local_backward_data, all_shapes<LocalBackwardArgs>(),
                          {.operands =
                               [](const LocalBackwardArgs& args) {
                                 return std::vector<Operand>{
                                     input(size(args.shape.conv.dst_count())),
                                     input(size(args.shape.weights_count())),
                                     output(size(args.shape.conv.src_count()))};
                               },
                           .reference =
                               [](const LocalBackwardArgs& args, const Buffers& b) {
                                 reference::local_backward_data(args, b.get<double>(0),
                                                                b.get<double>(1), b.get<double>(2));
                               },
                           .terms =
                               [](const LocalBackwardArgs& args) {
                                 const ConvShape& s = args.shape.conv;
                                 return 1.0 * s.kernel_h * s.kernel_w * s.filters;
                               }});
  });
}

TEST(Local, GradientOfReference) {
  for (const auto& [what, conv] : kLocalShapes) {
    if (conv.dst_count() * conv.taps() > 500'000) continue;  // seconds, and nothing new
    SCOPED_TRACE(what);
    const LocalShape shape{conv};
    check_weighted_gradients(
        {conv.src_count(), shape.weights_count(), shape.outputs(), conv.dst_count()},
        [&](const WeightedOperands& from, double* dst) {
          reference::local_forward({.shape = shape}, from.src.data(), from.weights.data(),
                                   from.bias.data(), dst);
        },
        [&](const WeightedOperands& from, const double* diff_dst, WeightedOperands& gradients) {
          reference::local_backward_weights({.shape = shape}, from.src.data(), diff_dst,
                                            gradients.weights.data(), gradients.bias.data());
          reference::local_backward_data({.shape = shape}, diff_dst, from.weights.data(),
                                         gradients.src.data());
        });
  }
}

// With two places, two filters, two channels and 1x1 filters, it is easy to see which weight is
// multiplied by which value.
TEST(Local, hand_computed) {
  const LocalShape shape{{.n = 1, .h = 1, .w = 2, .c = 2, .filters = 2}};
  const std::vector<double> src{1, 2, 3, 4}, bias{0.1, 0.2, 0.3, 0.4};
  const std::vector<double> weights{1, 10, 100, 1000, 5, 50, 500, 5000};
  std::vector<double> dst(4);
  reference::local_forward({.shape = shape}, src.data(), weights.data(), bias.data(), dst.data());
  EXPECT_EQ(dst, (std::vector<double>{21.1, 2100.2, 215.3, 21500.4}));
}

}  // namespace
}  // namespace omni::gradcheck
