// Every implementation of convolution is checked on these cases.
#pragma once

#include "codelets/convolution/convolution.hpp"
#include "tests/gradcheck/dense/convolution_shapes.hpp"

namespace omni::gradcheck {

inline std::vector<Case<ConvForwardArgs>> forward_cases() {
  auto cases = with_and_without_bias<ConvForwardArgs>(kConvShapes);
  for (std::size_t i = 0; i < kActivationNames.size(); ++i)
    if (const auto activation = static_cast<Activation>(i); activation != Activation::stair)
      for (const bool has_bias : {false, true})
        cases.push_back(
            {kActivationNames[i].data(),
             {.shape = kConvShapes[0].args, .activation = activation, .has_bias = has_bias}});
  return cases;
}

inline std::vector<Case<ConvWeightsArgs>> adding_weights_cases() {
  return with_and_without_bias<ConvWeightsArgs>(kConvShapes);
}
inline std::vector<Case<ConvWeightsArgs>> weights_cases() {
  return weights_gradients<ConvWeightsArgs>(kConvShapes);
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
                reference::conv_forward(args, b.get<double>(0), b.get<double>(1), b.get<double>(2),
                                        args.has_bias ? b.get<double>(3) : nullptr);
              },
          .terms = [](const ConvForwardArgs& args) { return 1.0 * args.shape.taps(); },
          .rounded_on_gpu = true,
          .rounds_sums = "winograd"};
}

inline Operation<ConvWeightsArgs> weights_operation() {
  return {
      .operands =
          [](const ConvWeightsArgs& args) {
            std::vector<Operand> operands{input(size(args.shape.src_count())),
                                          input(size(args.shape.dst_count())),
                                          gradient_operand(args)};
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
      .rounded_on_gpu = true,
      .rounds_sums = "winograd"};
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
          .rounded_on_gpu = true,
          .rounds_sums = "winograd"};
}

}  // namespace omni::gradcheck
