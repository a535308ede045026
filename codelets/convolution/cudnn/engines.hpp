// The ways that cuDNN knows to compute a graph on a device, and what runs one of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "codelets/convolution/cudnn/convolution_graph.hpp"

namespace omni::cudnn {

struct Demands {
  bool single_precision = false;  // of floats; tensor cores round them to TensorFloat-32
  bool deterministic = false;
};

// An engine of cuDNN's, and how its knobs are turned.
struct EngineConfig {
  Backend config;  // its status is that of all that is known of it
  std::vector<cudnnBackendNumericalNote_t> notes{};  // on how it computes
  bool is_compiled = false;                          // when a plan is made
  std::vector<std::uint64_t> numbers{};  // by which cuDNN knows it: the engine, knob, value, ...

  // Never if compiled: that takes up to a second, for every worker in every run, and NVRTC. All
  // that we ask for is among what cuDNN brings along.
  bool meets(const Demands& demands) const;
};

// Those that can compute it, each once, best first, as cuDNN guesses.
std::vector<EngineConfig> engine_configs(const ConvolutionGraph& graph, const Target& target);

// The one with these numbers; cuDNN may not know it, as the config's status then says.
EngineConfig engine_config(const ConvolutionGraph& graph, const Target& target,
                           const std::vector<std::uint64_t>& numbers);

struct ConvolutionTensors {
  std::array<void*, 3> values{};  // src, weights, dst
  const void* bias = nullptr;     // where the graph has one
};

class ExecutionPlan {
 public:
  ExecutionPlan(const EngineConfig& config, const Target& target);

  cudnnStatus_t status() const { return plan_.status(); }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // Into the handle's stream.
  cudnnStatus_t run(cudnnHandle_t handle, const ConvolutionTensors& tensors, void* workspace) const;

 private:
  Backend plan_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace omni::cudnn
