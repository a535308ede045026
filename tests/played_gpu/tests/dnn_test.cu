// These tests compare cuDNN's graphs of convolutions with plain loops in double precision, and
// check what the graphs refuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "codelets/convolution/convolution.hpp"
#include "codelets/convolution/cudnn/engines.hpp"
#include "tests/played_gpu/tests/device_array.hpp"

namespace omni::cudnn {
namespace {

using test::DeviceArray;
using test::TestStream;

std::vector<float> some_numbers(std::int64_t count, unsigned seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<float>(seed >> 8) / (1 << 23) - 1;
  }
  return values;
}

struct Shape {
  const char* name;
  ConvShape shape;
};
const Shape kShapes[]{
    {"usual",
     {.n = 2,
      .h = 7,
      .w = 6,
      .c = 4,
      .filters = 5,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1}},
    {"one of everything", {}},
    {"strided, rows left over",
     {.h = 8,
      .w = 9,
      .c = 3,
      .filters = 2,
      .kernel_h = 3,
      .kernel_w = 2,
      .stride_h = 2,
      .stride_w = 2}},
    {"dilated in groups",
     {.n = 2,
      .h = 9,
      .w = 7,
      .c = 4,
      .filters = 6,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 2,
      .pad_w = 2,
      .dilation_h = 2,
      .dilation_w = 2,
      .groups = 2}},
    {"depthwise",
     {.h = 5,
      .w = 5,
      .c = 4,
      .filters = 4,
      .kernel_h = 3,
      .kernel_w = 3,
      .pad_h = 1,
      .pad_w = 1,
      .groups = 4}},
    {"more padding than image",
     {.h = 2, .w = 2, .c = 3, .filters = 2, .kernel_h = 5, .kernel_w = 5, .pad_h = 3, .pad_w = 3}},
};
constexpr Pass kPasses[]{Pass::forward, Pass::backward_weights, Pass::backward_data};

class CuDnn : public testing::Test {
 protected:
  CuDnn() {
    check(cudnnCreate(&target_.handle), "cuDNN");
    check(cudnnSetStream(target_.handle, stream_), "cuDNN");
  }
  ~CuDnn() override { cudnnDestroy(target_.handle); }

  // Values has the tensors of a convolution, and the expected result of a pass.
  struct Values {
    explicit Values(const ConvolutionWork& work)
        : all{some_numbers(work.shape.src_count(), 1), some_numbers(work.shape.weights_count(), 2),
              some_numbers(work.shape.dst_count(), 3)},
          bias(some_numbers(work.shape.filters, 4)),
          result(work.pass == Pass::forward            ? 2
                 : work.pass == Pass::backward_weights ? 1
                                                       : 0),
          expected(all[result].size()) {
      const auto at = [](const std::vector<float>& values, std::int64_t i) {
        return double{values[static_cast<std::size_t>(i)]};
      };
      reference::for_each_product(work.shape, [&](std::int64_t s, std::int64_t w, std::int64_t d) {
        const std::int64_t to = result == 2 ? d : result == 1 ? w : s;
        expected[static_cast<std::size_t>(to)] += (result == 0 ? 1 : at(all[0], s)) *
                                                  (result == 1 ? 1 : at(all[1], w)) *
                                                  (result == 2 ? 1 : at(all[2], d));
      });
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (work.adds) expected[i] += all[result][i];
        if (work.bias) expected[i] += bias[i % bias.size()];
        if (work.relu) expected[i] = std::max(expected[i], 0.0);
      }
    }
    std::vector<float> all[3], bias;
    std::size_t result;
    std::vector<double> expected;
  };

  // Returns the result of one engine, or an empty vector if the engine cannot compute it.
  std::vector<float> run(const ConvolutionWork& work, const EngineConfig& config,
                         const Values& values) {
    const ExecutionPlan plan(config, target_);
    if (plan.status() != CUDNN_STATUS_SUCCESS) return {};
    const DeviceArray src(values.all[0]), weights(values.all[1]), dst(values.all[2]),
        bias(values.bias), workspace(plan.workspace_bytes() / sizeof(float) + 1);
    const cudnnStatus_t status =
        plan.run(target_.handle,
                 {{src.begin(), weights.begin(), dst.begin()}, work.bias ? bias.begin() : nullptr},
                 workspace.begin());
    if (status != CUDNN_STATUS_SUCCESS) return {};
    return (values.result == 0 ? src : values.result == 1 ? weights : dst).values(stream_);
  }

  // Returns how many of the engines that heuristics offer ran.
  int expect_right(const ConvolutionWork& work) {
    const ConvolutionGraph graph(work, target_);
    EXPECT_EQ(graph.operations().status(), CUDNN_STATUS_SUCCESS);
    const Values values(work);
    int ran = 0;
    for (const EngineConfig& config : engine_configs(graph, target_)) {
      if (config.is_compiled) continue;
      const std::vector<float> result = run(work, config, values);
      if (result.empty()) continue;
      ++ran;
      const double relative = config.meets({.single_precision = true}) ? 1e-5 : 0.02;
      for (std::size_t i = 0; i < result.size(); ++i)
        EXPECT_NEAR(result[i], values.expected[i], relative * (2 + std::abs(values.expected[i])))
            << "value " << i << " of engine " << config.numbers[0];
    }
    return ran;
  }

  TestStream stream_;
  Target target_;
};

TEST_F(CuDnn, all_passes_by_all_engines) {
  for (const auto& [name, shape] : kShapes)
    for (const Pass pass : kPasses)
      for (const bool adds : {false, true}) {
        if (adds && pass == Pass::forward) continue;
        SCOPED_TRACE(std::string(name) + ", pass " + std::to_string(static_cast<int>(pass)));
        EXPECT_EQ(
            expect_right({.pass = pass, .shape = shape, .type = CUDNN_DATA_FLOAT, .adds = adds}),
            6);  // of 8 offers that are not compiled, one cannot be planned, and one refuses to run
      }
}

// The channels between those of the tensor keep their values.
TEST_F(CuDnn, a_part_of_the_channels) {
  const ConvShape shape{.n = 2, .h = 3, .w = 2, .c = 2, .filters = 3};
  for (const Pass pass : kPasses) {
    const ConvolutionWork whole{.pass = pass, .shape = shape, .type = CUDNN_DATA_FLOAT};
    ConvolutionWork part = whole;
    part.stored_c = 5;
    part.stored_filters = 4;
    part.alignment = 4;
    const Values values(whole);
    const auto spread = [&](std::size_t i, std::size_t channels, std::size_t stored) {
      std::vector<float> all(values.all[i].size() / channels * stored, 99);
      for (std::size_t at = 0; at < values.all[i].size(); ++at)
        all[at / channels * stored + at % channels] = values.all[i][at];
      return all;
    };
    Values wide = values;
    wide.all[0] = spread(0, 2, 5);
    wide.all[2] = spread(2, 3, 4);
    const ConvolutionGraph graph(part, target_);
    int ran = 0;
    for (const EngineConfig& config : engine_configs(graph, target_)) {
      const auto result = run(part, config, wide);
      if (result.empty() || config.is_compiled) continue;
      ++ran;
      const std::size_t channels = values.result == 0 ? 2 : 3, stored = values.result == 0 ? 5 : 4;
      for (std::size_t i = 0; i < result.size(); ++i) {
        const std::size_t at = i % stored;
        const double expected = values.result == 1 ? values.expected[i]
                                : at < channels    ? values.expected[i / stored * channels + at]
                                                   : 99;
        EXPECT_NEAR(result[i], expected, 0.02 * (2 + std::abs(expected))) << i;
      }
    }
    EXPECT_EQ(ran, 6);
  }
}

TEST_F(CuDnn, bias_and_relu) {
  for (const auto& [name, shape] : kShapes)
    for (const auto& [bias, relu] : {std::pair(true, false), {false, true}, {true, true}}) {
      SCOPED_TRACE(name);
      EXPECT_EQ(expect_right({.pass = Pass::forward,
                              .shape = shape,
                              .type = CUDNN_DATA_FLOAT,
                              .bias = bias,
                              .relu = relu}),
                4);
    }
}

// An engine may round factors only if its notes say so. meets({}) accepts engines that round as
// tensor cores do, and refuses engines that round more.
TEST_F(CuDnn, only_what_says_so_rounds_factors) {
  const ConvolutionWork work{
      .pass = Pass::forward, .shape = kShapes[0].shape, .type = CUDNN_DATA_FLOAT};
  const ConvolutionGraph graph(work, target_);
  const Values values(work);
  int rounded = 0;
  for (const EngineConfig& config : engine_configs(graph, target_)) {
    const std::vector<float> result = run(work, config, values);
    if (result.empty()) continue;
    double worst = 0;
    for (std::size_t i = 0; i < result.size(); ++i)
      worst = std::max(worst, std::abs(result[i] - values.expected[i]));
    EXPECT_EQ(worst > 1e-5, !config.meets({.single_precision = true}));
    EXPECT_EQ(worst > 4e-3, !config.meets({}));
    if (worst > 1e-5) ++rounded;
  }
  EXPECT_EQ(rounded, 4);  // tensor cores with two values of a knob, halves, and the compiled one
}

TEST_F(CuDnn, engines_are_found_again_by_their_numbers) {
  const ConvolutionGraph graph(
      {.pass = Pass::backward_data, .shape = kShapes[0].shape, .type = CUDNN_DATA_FLOAT}, target_);
  int turned = 0;
  for (const EngineConfig& config : engine_configs(graph, target_)) {
    const EngineConfig again = engine_config(graph, target_, config.numbers);
    const ExecutionPlan plan(config, target_), same(again, target_);
    EXPECT_EQ(again.notes, config.notes);
    EXPECT_EQ(same.status(), plan.status());
    EXPECT_EQ(same.workspace_bytes(), plan.workspace_bytes());
    if (config.numbers.size() < 3) continue;
    ++turned;
    auto numbers = config.numbers;
    numbers[2] = 1;
    EXPECT_LT(ExecutionPlan(engine_config(graph, target_, numbers), target_).workspace_bytes(),
              plan.workspace_bytes());
    numbers[2] = 9;
    EXPECT_FALSE(succeeded(engine_config(graph, target_, numbers).config.status()));
  }
  EXPECT_EQ(turned, 4);
  for (const std::vector<std::uint64_t>& numbers :
       {std::vector<std::uint64_t>{}, {99}, {1, 2, 1}, {2, 2}})
    EXPECT_FALSE(succeeded(engine_config(graph, target_, numbers).config.status()));
}

TEST_F(CuDnn, padding_as_large_as_the_filter_is_not_supported) {
  const ConvolutionGraph graph({.pass = Pass::forward,
                                .shape = {.h = 5,
                                          .w = 5,
                                          .kernel_h = 3,
                                          .kernel_w = 3,
                                          .pad_h = 5,
                                          .pad_w = 5,
                                          .dilation_h = 2,
                                          .dilation_w = 2},
                                .type = CUDNN_DATA_FLOAT},
                               target_);
  EXPECT_EQ(graph.operations().status(), CUDNN_STATUS_SUCCESS);
  EXPECT_TRUE(engine_configs(graph, target_).empty());
}

TEST_F(CuDnn, what_does_not_fit_together_is_refused) {
  const auto status = [&](const ConvShape& shape, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return ConvolutionGraph({.pass = Pass::forward, .shape = shape, .type = type}, target_)
        .operations()
        .status();
  };
  ConvShape shape = kShapes[0].shape;
  EXPECT_EQ(status(shape), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(status(shape, CUDNN_DATA_DOUBLE), CUDNN_STATUS_NOT_SUPPORTED);
  shape.groups = 2;  // of 5 filters
  EXPECT_EQ(status(shape), CUDNN_STATUS_BAD_PARAM);
  shape = kShapes[0].shape;
  shape.n = 0;
  EXPECT_EQ(status(shape), CUDNN_STATUS_BAD_PARAM);
  shape = kShapes[0].shape;

  Backend tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::int64_t{1});
  tensor.finalize();  // without a size
  EXPECT_EQ(tensor.status(), CUDNN_STATUS_BAD_PARAM);
  Backend knob(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_KNOB_TYPE_TILE_SIZE);
  knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, std::int64_t{1});
  knob.finalize();
  EXPECT_EQ(knob.status(), CUDNN_STATUS_SUCCESS);
  knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, std::int64_t{2});  // too late
  EXPECT_EQ(knob.status(), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(ConvolutionGraph({.pass = Pass::forward, .shape = shape, .type = CUDNN_DATA_FLOAT}, {})
                .operations()
                .status(),
            CUDNN_STATUS_BAD_PARAM);  // for no device
}

TEST_F(CuDnn, relu_need_not_keep_nan) {
  const ConvolutionWork work{.pass = Pass::forward,
                             .shape = {.c = 2, .filters = 2},
                             .type = CUDNN_DATA_FLOAT,
                             .bias = true,
                             .relu = true};
  const ConvolutionGraph graph(work, target_);
  Values values(work);
  values.bias = {NAN, -9};
  int ran = 0;
  for (const EngineConfig& config : engine_configs(graph, target_)) {
    const std::vector<float> result = run(work, config, values);
    if (result.empty() || config.is_compiled) continue;
    EXPECT_EQ(std::isnan(result[0]), config.numbers[2] != 3);
    EXPECT_EQ(result[1], 0);
    ++ran;
  }
  EXPECT_EQ(ran, 4);
}

TEST_F(CuDnn, tensors_are_where_the_graph_says) {
  ConvolutionWork work{.pass = Pass::forward, .shape = {}, .type = CUDNN_DATA_FLOAT};
  const DeviceArray numbers(std::vector<float>{2, 3, 0});
  const auto runs = [&](int alignment) {
    work.alignment = alignment;
    const ConvolutionGraph graph(work, target_);
    for (const EngineConfig& config : engine_configs(graph, target_))
      if (const ExecutionPlan plan(config, target_);
          !config.is_compiled && plan.workspace_bytes() == 0 &&
          plan.run(target_.handle, {{numbers.begin(), numbers.begin() + 1, numbers.begin() + 2}},
                   nullptr) == CUDNN_STATUS_SUCCESS)
        return true;
    return false;
  };
  EXPECT_FALSE(runs(16));
  EXPECT_TRUE(runs(4));
  EXPECT_EQ(numbers.values(stream_)[2], 6);
}

TEST_F(CuDnn, tensors_that_are_not_given_are_missed) {
  const ConvolutionWork work{
      .pass = Pass::forward, .shape = {}, .type = CUDNN_DATA_FLOAT, .bias = true};
  const ConvolutionGraph graph(work, target_);
  const Values values(work);
  ConvolutionWork lies = work;
  lies.bias = false;
  for (const EngineConfig& config : engine_configs(graph, target_))
    EXPECT_TRUE(run(lies, config, values).empty());
}

}  // namespace
}  // namespace omni::cudnn
