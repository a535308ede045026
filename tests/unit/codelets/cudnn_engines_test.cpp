// These tests ask the real cuDNN for engines for our convolutions. No GPU is needed: cuDNN plans
// for a device from a description.
#if defined(OMNI_CUDA) && !defined(OMNI_PLAYED_GPU)

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codelets/convolution/cudnn/engines.hpp"

namespace omni::cudnn {
namespace {

struct Card {
  const char* name;
  int capability, multiprocessors, shared_bytes, blocks, threads;
};
// The vendor publishes these properties of its GPUs.
const Card kH200{"NVIDIA H200", 900, 132, 232448, 32, 2048};
const Card kOthers[]{{"NVIDIA A100", 800, 108, 166912, 32, 2048},
                     {"NVIDIA B200", 1000, 148, 232448, 32, 2048},
                     {"NVIDIA GeForce RTX 5090", 1200, 170, 101376, 24, 1536}};

Backend described(const Card& card) {
  const nlohmann::json properties{{"deviceName", card.name},
                                  {"deviceVer", card.capability},
                                  {"driverVer", 13000},
                                  {"cudaDeviceId", 0},
                                  {"pciDeviceId", 0},
                                  {"isTccDriver", 0},
                                  {"supportCoopLaunch", 1},
                                  {"multiProcessorCount", card.multiprocessors},
                                  {"maxCtasPerSM", card.blocks},
                                  {"maxThreadsPerSM", card.threads},
                                  {"maxRegistersPerSM", 65536},
                                  {"maxThreadsPerBlock", 1024},
                                  {"maxBlockSize", {1024, 1024, 64}},
                                  {"maxGridSize", {2147483647, 65535, 65535}},
                                  {"regsPerBlock", 65536},
                                  {"warpSize", 32},
                                  {"maxSharedMemoryPerBlock", 49152},
                                  {"maxSharedMemoryPerBlockOptin", card.shared_bytes},
                                  {"reservedSharedMemoryPerBlock", 1024},
                                  {"totalGlobalMem", 34'000'000'000},
                                  {"l2CacheSize", 50'000'000},
                                  {"smClockRateKHz", 1'800'000},
                                  {"memClockRateKHz", 3'000'000}};
  const std::string text = properties.dump();
  Backend device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::vector(text.begin(), text.end()));
  device.finalize();
  return device;
}

// These shapes come from AlexNet, CaffeNet, VGG-16, ResNet-50 and LeNet; the last two are unusual.
const ConvShape kShapes[]{
    {.n = 256,
     .h = 227,
     .w = 227,
     .c = 3,
     .filters = 96,
     .kernel_h = 11,
     .kernel_w = 11,
     .stride_h = 4,
     .stride_w = 4},
    {.n = 256,
     .h = 27,
     .w = 27,
     .c = 96,
     .filters = 256,
     .kernel_h = 5,
     .kernel_w = 5,
     .pad_h = 2,
     .pad_w = 2,
     .groups = 2},
    {.n = 256,
     .h = 13,
     .w = 13,
     .c = 256,
     .filters = 384,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1},
    {.n = 64,
     .h = 224,
     .w = 224,
     .c = 64,
     .filters = 64,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1},
    {.n = 256,
     .h = 224,
     .w = 224,
     .c = 3,
     .filters = 64,
     .kernel_h = 7,
     .kernel_w = 7,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 3,
     .pad_w = 3},
    {.n = 256, .h = 56, .w = 56, .c = 256, .filters = 512, .stride_h = 2, .stride_w = 2},
    {.n = 64, .h = 28, .w = 28, .c = 1, .filters = 20, .kernel_h = 5, .kernel_w = 5},
    {.n = 1,
     .h = 5,
     .w = 3,
     .c = 7,
     .filters = 3,
     .kernel_h = 3,
     .kernel_w = 1,
     .pad_h = 2,
     .dilation_h = 2},
    {},
};

std::string told(const ConvolutionWork& work) {
  const ConvShape& s = work.shape;
  return fmt::format("pass {}, {}x{}x{}x{} to {}, kernel {}x{}, {}{}{}{}",
                     static_cast<int>(work.pass), s.n, s.h, s.w, s.c, s.filters, s.kernel_h,
                     s.kernel_w, work.type == CUDNN_DATA_FLOAT ? "floats" : "bf16",
                     work.adds ? ", adds" : "", work.bias ? ", bias" : "",
                     work.relu ? ", relu" : "");
}

// Returns the first plan that meets `demands` and that cuDNN can build.
std::optional<ExecutionPlan> first_plan(const std::vector<EngineConfig>& configs,
                                        const Target& target, const Demands& demands) {
  for (const EngineConfig& config : configs)
    if (config.meets(demands))
      if (ExecutionPlan plan(config, target); plan.status() == CUDNN_STATUS_SUCCESS) return plan;
  return std::nullopt;
}

void expect_engines(const ConvolutionWork& work, const Backend& device) {
  SCOPED_TRACE(told(work));
  const Target target{.description = &device};
  const ConvolutionGraph graph(work, target);
  ASSERT_EQ(graph.operations().status(), CUDNN_STATUS_SUCCESS);
  const std::vector<EngineConfig> configs = engine_configs(graph, target);
  ASSERT_FALSE(configs.empty());
  for (const EngineConfig& config : configs)
    EXPECT_EQ(config.config.status(), CUDNN_STATUS_SUCCESS) << "an offer that says too little";
  if (work.shape.group_c() % 8 == 0 && work.alignment == 16) {
    EXPECT_TRUE(std::ranges::any_of(configs, [&](const EngineConfig& config) {
      return config.meets({}) && !config.meets({.single_precision = true}) &&
             ExecutionPlan(config, target).status() == CUDNN_STATUS_SUCCESS;
    })) << "no tensor cores";
  }
  for (const bool single_precision : {false, true})
    for (const bool deterministic : {false, true})
      if (!single_precision || work.type == CUDNN_DATA_FLOAT) {
        EXPECT_TRUE(first_plan(configs, target, {single_precision, deterministic}))
            << single_precision << deterministic;
      }
}

void expect_all_passes(const ConvShape& shape, const Backend& device) {
  for (const auto type : {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16}) {
    expect_engines({.pass = Pass::forward, .shape = shape, .type = type}, device);
    // In bf16 cuDNN overwrites a copy of the weights' gradient, and our own kernel adds the copy.
    expect_engines({.pass = Pass::backward_weights,
                    .shape = shape,
                    .type = type,
                    .adds = type == CUDNN_DATA_FLOAT},
                   device);
    for (const bool adds : {false, true})
      expect_engines({.pass = Pass::backward_data, .shape = shape, .type = type, .adds = adds},
                     device);
  }
}

void expect_ends(const ConvShape& shape, const Backend& device) {
  for (const auto type : {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16})
    for (const bool relu : {false, true})
      expect_engines(
          {.pass = Pass::forward, .shape = shape, .type = type, .bias = true, .relu = relu},
          device);
}

TEST(CuDnnEngines, every_pass_of_the_nets_on_an_h200) {
  const Backend device = described(kH200);
  ASSERT_EQ(device.status(), CUDNN_STATUS_SUCCESS);
  for (const ConvShape& shape : kShapes) expect_all_passes(shape, device);
}

TEST(CuDnnEngines, tensors_that_begin_anywhere) {
  const Backend device = described(kH200);
  for (const Pass pass : {Pass::forward, Pass::backward_weights, Pass::backward_data})
    for (const auto& [type, alignment] :
         {std::pair(CUDNN_DATA_FLOAT, 4), std::pair(CUDNN_DATA_BFLOAT16, 2)})
      expect_engines({.pass = pass, .shape = kShapes[2], .type = type, .alignment = alignment},
                     device);
}

TEST(CuDnnEngines, other_cards) {
  for (const Card& card : kOthers) {
    SCOPED_TRACE(card.name);
    const Backend device = described(card);
    ASSERT_EQ(device.status(), CUDNN_STATUS_SUCCESS);
    expect_all_passes(kShapes[2], device);
    expect_ends(kShapes[2], device);
  }
}

TEST(CuDnnEngines, end_in_bias_and_relu) {
  const Backend device = described(kH200);
  for (const ConvShape& shape : kShapes) expect_ends(shape, device);
}

TEST(CuDnnEngines, are_offered_once) {
  const Backend device = described(kH200);
  const Target target{.description = &device};
  const ConvolutionGraph graph(
      {.pass = Pass::backward_data, .shape = kShapes[2], .type = CUDNN_DATA_FLOAT}, target);
  std::set<std::vector<std::uint64_t>> offered;
  for (const EngineConfig& config : engine_configs(graph, target))
    EXPECT_TRUE(offered.insert(config.numbers).second);
  EXPECT_GE(offered.size(), 20u);
}

// cuDNN offers engines that it compiles at run time if it finds a CUDA driver; a stub of the driver
// is enough.
TEST(CuDnnEngines, that_would_be_compiled_are_not_taken) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) GTEST_SKIP() << "neither a driver nor its stub";
  dlclose(driver);
  const Backend device = described(kH200);
  const Target target{.description = &device};
  const ConvolutionGraph graph({.pass = Pass::forward,
                                .shape = kShapes[2],
                                .type = CUDNN_DATA_BFLOAT16,
                                .bias = true,
                                .relu = true},
                               target);
  int compiled = 0;
  for (const EngineConfig& config : engine_configs(graph, target))
    if (config.is_compiled) {
      ++compiled;
      EXPECT_FALSE(config.meets({}));
      EXPECT_TRUE(engine_config(graph, target, config.numbers).is_compiled);
    }
  EXPECT_GT(compiled, 0);
}

TEST(CuDnnEngines, are_found_again_by_their_numbers) {
  const Backend device = described(kH200);
  const Target target{.description = &device};
  const ConvolutionGraph graph(
      {.pass = Pass::backward_weights, .shape = kShapes[2], .type = CUDNN_DATA_BFLOAT16}, target);
  std::size_t found = 0;
  for (const EngineConfig& config : engine_configs(graph, target)) {
    const EngineConfig again = engine_config(graph, target, config.numbers);
    const ExecutionPlan plan(config, target), same(again, target);
    EXPECT_EQ(again.notes, config.notes);
    EXPECT_EQ(plan.status(), same.status());
    EXPECT_EQ(plan.workspace_bytes(), same.workspace_bytes());
    if (same.status() == CUDNN_STATUS_SUCCESS) ++found;
  }
  EXPECT_GE(found, 5u);
  for (const std::vector<std::uint64_t>& numbers :
       {std::vector<std::uint64_t>{}, {9999}, {~std::uint64_t{0}}, {0, 9999, 1}, {0, 1}})
    EXPECT_FALSE(succeeded(engine_config(graph, target, numbers).config.status()));
}

}  // namespace
}  // namespace omni::cudnn

#endif
