// A pass of a convolution as cuDNN's graph interface wants it told, channels last; the ways that it
// knows to compute such a graph on a device, and what runs one of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "codelets/convolution/convolution_shape.hpp"
#include "codelets/convolution/cudnn/backend.hpp"

namespace omni::cudnn {

// How cuDNN and we call the tensors of a graph. Backward, src, weights and dst are the gradients of
// what they are forward, where they are not the values themselves.
enum class TensorName : std::int64_t { src = 1, weights, dst, bias };

// What is planned for: the GPU of a handle; or one that is only described, where nothing runs. The
// header of cuDNN 9.8 calls handles old-fashioned here, but they are what others plan with, too.
struct Target {
  cudnnHandle_t handle = nullptr;
  const Backend* description = nullptr;
};

// Sums, and what operations hand on, are floats.
struct ConvolutionWork {
  Pass pass;
  ConvShape shape;
  cudnnDataType_t type;             // of all tensors
  int alignment = 16;               // in bytes; but of the bias, which is where vectors may be
  bool adds = false;                // to what is there; not forward
  bool bias = false, relu = false;  // forward: what the convolution ends in
};

class ConvolutionGraph {
 public:
  ConvolutionGraph(const ConvolutionWork& work, const Target& target);

  // Its status says whether cuDNN understood.
  const Backend& operations() const { return parts_.back(); }

 private:
  using Size = std::array<std::int64_t, 4>;  // n c h w

  Backend& add(cudnnBackendDescriptorType_t type) { return parts_.emplace_back(type); }
  const Backend& tensor(TensorName name, const Size& size, cudnnDataType_t type, int alignment);
  Backend& add_tensor(std::int64_t name, const Size& size, cudnnDataType_t type, int alignment);
  const Backend& convolution(const ConvolutionWork& work, const Backend& src,
                             const Backend& weights, const Backend& dst);
  const Backend& pointwise(cudnnPointwiseMode_t mode, const Backend& src, const Backend* second,
                           const Backend& dst);

  std::deque<Backend> parts_;  // cuDNN's documentation does not say that it keeps them itself
};

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
