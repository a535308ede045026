// The shapes on which every implementation of convolution is checked, and how.
#pragma once

#include "codelets/convolution/convolution.hpp"
#include "tests/gradcheck/harness.hpp"

namespace omni::gradcheck {

inline const std::vector<Case<ConvShape>> kConvShapes{
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
    {"1x1 image, one filter", {.n = 1, .h = 1, .w = 1, .c = 3}},
    {"1x1 image under a padded 3x3 kernel",
     {.n = 2,
      .h = 1,
      .w = 1,
      .c = 8,
      .filters = 8,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1}},
    {"1x1 kernel", {.n = 3, .h = 7, .w = 5, .c = 19, .filters = 33}},
    {"1x1 kernel, strided",
     {.n = 2, .h = 7, .w = 8, .c = 16, .filters = 32, .stride_h = 2, .stride_w = 2}},
    {"1x1 kernel, strided, nothing left over",
     {.n = 2, .h = 8, .w = 6, .c = 20, .filters = 9, .stride_h = 2, .stride_w = 2}},
    {"1x1 kernel, padded", {.n = 1, .h = 3, .w = 4, .c = 5, .filters = 6, .pad_h = 1, .pad_w = 2}},
    {"1x1 kernel, two groups", {.n = 2, .h = 5, .w = 4, .c = 6, .filters = 10, .groups = 2}},
    {"odd sizes, one channel",
     {.n = 1,
      .h = 11,
      .w = 9,
      .c = 1,
      .filters = 5,
      .kernel_h = 5,
      .kernel_w = 5,
      .pad_h = 2,
      .pad_w = 2}},
    {"large kernel and stride",
     {.n = 2,
      .h = 31,
      .w = 27,
      .c = 3,
      .filters = 32,
      .kernel_h = 11,
      .kernel_w = 11,
      .stride_h = 4,
      .stride_w = 4}},
    {"stride that leaves a margin",
     {.n = 1,
      .h = 8,
      .w = 9,
      .c = 16,
      .filters = 16,
      .kernel_h = 3,
      .kernel_w = 3,
      .stride_h = 3,
      .stride_w = 2}},
    {"stride greater than kernel",
     {.n = 2,
      .h = 14,
      .w = 13,
      .c = 32,
      .filters = 32,
      .kernel_h = 2,
      .kernel_w = 2,
      .stride_h = 3,
      .stride_w = 3}},
    {"padding as large as the kernel",
     {.n = 2,
      .h = 5,
      .w = 4,
      .c = 8,
      .filters = 8,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 3,
      .pad_w = 3}},
    {"padding greater than the kernel",
     {.n = 2,
      .h = 4,
      .w = 5,
      .c = 8,
      .filters = 16,
      .kernel_h = 2,
      .kernel_w = 2,
      .pad_h = 3,
      .pad_w = 3}},
    {"halved, as [deconvolutional] doubles",
     {.n = 2,
      .h = 8,
      .w = 6,
      .c = 16,
      .filters = 24,
      .kernel_h = 4,
      .kernel_w = 4,
      .stride_h = 2,
      .stride_w = 2,
      .pad_h = 1,
      .pad_w = 1}},
    {"dilation 2",
     {.n = 2,
      .h = 14,
      .w = 12,
      .c = 16,
      .filters = 32,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 2,
      .pad_w = 2,
      .dilation_h = 2,
      .dilation_w = 2}},
    {"dilation 3 across only, strided",
     {.n = 1,
      .h = 9,
      .w = 13,
      .c = 5,
      .filters = 4,
      .kernel_h = 3,
      .kernel_w = 3,
      .stride_h = 2,
      .stride_w = 2,
      .pad_h = 1,
      .pad_w = 1,
      .dilation_w = 3}},
    {"two groups",
     {.n = 2,
      .h = 9,
      .w = 9,
      .c = 32,
      .filters = 48,
      .kernel_h = 5,
      .kernel_w = 5,
      .pad_h = 2,
      .pad_w = 2,
      .groups = 2}},
    {"three odd groups",
     {.n = 1,
      .h = 6,
      .w = 7,
      .c = 6,
      .filters = 9,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1,
      .groups = 3}},
    {"depthwise",
     {.n = 2,
      .h = 9,
      .w = 8,
      .c = 24,
      .filters = 24,
      .kernel_h = 3,
      .kernel_w = 3,
      .stride_h = 2,
      .stride_w = 2,
      .pad_h = 1,
      .pad_w = 1,
      .groups = 24}},
    {"depthwise, two filters per channel",
     {.n = 1,
      .h = 5,
      .w = 5,
      .c = 5,
      .filters = 10,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1,
      .groups = 5}},
    {"1x7 kernel",
     {.n = 1, .h = 8, .w = 17, .c = 16, .filters = 16, .kernel_h = 1, .kernel_w = 7, .pad_w = 3}},
    {"5x2 kernel, uneven everything",
     {.n = 3,
      .h = 12,
      .w = 7,
      .c = 6,
      .filters = 11,
      .kernel_h = 5,
      .kernel_w = 2,
      .stride_w = 2,
      .pad_h = 2}},
    {"kernel of the image's size",
     {.n = 4, .h = 6, .w = 6, .c = 17, .filters = 20, .kernel_h = 6, .kernel_w = 6}},
    {"3x3, tiles cut at two edges",
     {.n = 2,
      .h = 10,
      .w = 7,
      .c = 16,
      .filters = 32,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1}},
    {"3x3, not padded, rows of tiles in many images",
     {.n = 9, .h = 11, .w = 6, .c = 32, .filters = 16, .kernel_h = 3, .kernel_w = 3}},
    {"3x3, smaller than a tile, padded by two",
     {.n = 2,
      .h = 2,
      .w = 1,
      .c = 16,
      .filters = 48,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 2,
      .pad_w = 2}},
    {"3x3, many blocks of tiles",
     {.n = 2,
      .h = 37,
      .w = 38,
      .c = 32,
      .filters = 48,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1}},
    {"3x3, three groups",
     {.n = 2,
      .h = 9,
      .w = 5,
      .c = 48,
      .filters = 96,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .groups = 3}},
    {"5x5, two groups, tiles cut at two edges",
     {.n = 3,
      .h = 9,
      .w = 7,
      .c = 64,
      .filters = 32,
      .kernel_h = 5,
      .kernel_w = 5,
      .pad_h = 2,
      .pad_w = 2,
      .groups = 2}},
    {"5x5, padded by four across only",
     {.n = 2, .h = 6, .w = 1, .c = 16, .filters = 16, .kernel_h = 5, .kernel_w = 5, .pad_w = 4}},
    {"3x3, many blocks of tiles and panels of filters",
     {.n = 130,
      .h = 1,
      .w = 1,
      .c = 960,
      .filters = 32,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1}},
    {"many channels for few filters",
     {.n = 3,
      .h = 7,
      .w = 9,
      .c = 40,
      .filters = 5,
      .kernel_h = 4,
      .kernel_w = 3,
      .pad_h = 2,
      .pad_w = 1}},
    {"many bands of rows",
     {.n = 3,
      .h = 40,
      .w = 40,
      .c = 24,
      .filters = 16,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1}},
};

inline std::vector<Case<ConvForwardArgs>> forward_cases() {
  auto cases = with_and_without_bias<ConvForwardArgs>(kConvShapes);
  for (std::size_t i = 0; i < kActivationNames.size(); ++i)
    if (const auto activation = static_cast<Activation>(i); activation != Activation::stair)
      cases.push_back(
          {kActivationNames[i].data(),
           {.shape = kConvShapes[0].args, .activation = activation, .has_bias = i % 2 == 0}});
  return cases;
}

inline std::vector<Case<ConvWeightsArgs>> weights_cases() {
  return with_and_without_bias<ConvWeightsArgs>(kConvShapes);
}

inline std::vector<Case<ConvDataArgs>> data_cases() {
  std::vector<Case<ConvDataArgs>> cases;
  for (const auto& each : kConvShapes)
    for (const bool adds : {false, true})
      cases.push_back({each.what, {.shape = each.args, .adds = adds}});
  return cases;
}

inline Operation<ConvForwardArgs> forward_operation() {
  return {.operands =
              [](const ConvForwardArgs& args) {
                std::vector<Operand> operands{input(size(args.shape.src_count())),
                                              input(size(args.shape.weights_count())),
                                              output(size(args.shape.dst_count()))};
                if (args.has_bias) operands.push_back(input(size(args.shape.filters)));
                return operands;
              },
          .reference =
              [](const ConvForwardArgs& args, const Buffers& b) {
                reference::conv_forward(args, b.get<double>(0), b.get<double>(1),
                                        args.has_bias ? b.get<double>(3) : nullptr,
                                        b.get<double>(2));
              },
          .terms = [](const ConvForwardArgs& args) { return 1.0 * args.shape.taps(); },
          .rounded_on_gpu = true};
}

inline Operation<ConvWeightsArgs> weights_operation() {
  return {
      .operands =
          [](const ConvWeightsArgs& args) {
            std::vector<Operand> operands{input(size(args.shape.src_count())),
                                          input(size(args.shape.dst_count())),
                                          accumulated(size(args.shape.weights_count()))};
            if (args.has_bias) operands.push_back(accumulated(size(args.shape.filters)));
            return operands;
          },
      .reference =
          [](const ConvWeightsArgs& args, const Buffers& b) {
            reference::conv_backward_weights(args, b.get<double>(0), b.get<double>(1),
                                             b.get<double>(2),
                                             args.has_bias ? b.get<double>(3) : nullptr);
          },
      .terms = [](const ConvWeightsArgs& args) { return static_cast<double>(args.shape.pixels()); },
      .rounded_on_gpu = true};
}

inline Operation<ConvDataArgs> data_operation() {
  return {.operands =
              [](const ConvDataArgs& args) {
                return std::vector<Operand>{input(size(args.shape.dst_count())),
                                            input(size(args.shape.weights_count())),
                                            args.adds ? accumulated(size(args.shape.src_count()))
                                                      : output(size(args.shape.src_count()))};
              },
          .reference =
              [](const ConvDataArgs& args, const Buffers& b) {
                reference::conv_backward_data(args, b.get<double>(0), b.get<double>(1),
                                              b.get<double>(2));
              },
          .terms =
              [](const ConvDataArgs& args) {
                return 1.0 * args.shape.kernel_h * args.shape.kernel_w * args.shape.group_filters();
              },
          .rounded_on_gpu = true};
}

}  // namespace omni::gradcheck
