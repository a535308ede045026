// This header has cuDNN's engines for a pass of a convolution. The pass is described as a graph,
// channels last. cuDNN lists the engines that can compute the graph on a device. An execution plan
// runs one of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "codelets/convolution/convolution_shape.hpp"
#include "codelets/convolution/cudnn/backend.hpp"

namespace omni::cudnn {

// A graph identifies its tensors by these numbers. In backward, dst is the gradient of dst, and the
// result is the gradient of src or weights.
enum class TensorName : std::int64_t { src = 1, weights, dst, bias };

// A Target is the GPU for which an engine is chosen. It is the GPU of a handle, or one that is only
// described, where nothing can run. The header of cuDNN 9.8 calls handles deprecated for this, but
// other programs use them as well.
struct Target {
  cudnnHandle_t handle = nullptr;
  const Backend* description = nullptr;
};

// A ConvolutionWork describes a pass. Sums, and values between operations, are floats.
struct ConvolutionWork {
  Pass pass;
  ConvShape shape;
  cudnnDataType_t type;  // of all tensors
  // The channels that src and dst have in memory; 0: those of the shape. With more, the shape's are
  // a part of them: those of one group.
  int stored_c = 0, stored_filters = 0;
  int alignment = 16;               // in bytes, of all tensors but the bias, which has 16
  bool adds = false;                // true: adds to the result's old values; never in forward
  bool bias = false, relu = false;  // forward: applied to the convolution's result
};

class ConvolutionGraph {
 public:
  ConvolutionGraph(const ConvolutionWork& work, const Target& target);

  // Returns the descriptor of the operation graph. Its status() tells whether cuDNN accepts the
  // graph.
  const Backend& operations() const { return parts_.back(); }

 private:
  using Size = std::array<std::int64_t, 4>;  // n c h w

  Backend& add(cudnnBackendDescriptorType_t type) { return parts_.emplace_back(type); }
  const Backend& tensor(TensorName name, const Size& size, std::int64_t channels,
                        cudnnDataType_t type, int alignment);
  // `channels` are those in memory.
  Backend& add_tensor(std::int64_t name, const Size& size, std::int64_t channels,
                      cudnnDataType_t type, int alignment);
  const Backend& convolution(const ConvolutionWork& work, const Backend& src,
                             const Backend& weights, const Backend& dst);
  const Backend& pointwise(cudnnPointwiseMode_t mode, const Backend& src, const Backend* second,
                           const Backend& dst);

  std::deque<Backend> parts_;  // kept, since cuDNN's documentation does not say that it keeps them
};

struct Demands {
  bool single_precision =
      false;  // floats must not be rounded to TensorFloat-32, as tensor cores do
  bool deterministic = false;
};

// An EngineConfig is an engine of cuDNN and the values of its knobs.
struct EngineConfig {
  Backend config;  // its status also has errors in reading the other members
  std::vector<cudnnBackendNumericalNote_t> notes{};  // how the engine rounds and adds
  bool is_compiled = false;                          // true: its code is compiled for each plan
  std::vector<std::uint64_t> numbers{};  // cuDNN's: engine, knob, value, knob, value, ...

  // Returns whether the engine meets the demands. An engine that must be compiled never does:
  // compiling takes up to a second for every worker in every run, and needs NVRTC. cuDNN has other
  // engines for all passes that are used.
  bool meets(const Demands& demands) const;
};

// Returns each engine that can compute the graph once. Those that cuDNN expects to be fastest come
// first.
std::vector<EngineConfig> engine_configs(const ConvolutionGraph& graph, const Target& target);

// Returns the engine with these numbers. If cuDNN does not know it, the status of `config` says so.
EngineConfig engine_config(const ConvolutionGraph& graph, const Target& target,
                           const std::vector<std::uint64_t>& numbers);

struct ConvolutionTensors {
  std::array<void*, 3> values{};  // src, weights, dst
  const void* bias = nullptr;     // null: the graph has none
};

class ExecutionPlan {
 public:
  ExecutionPlan(const EngineConfig& config, const Target& target);

  cudnnStatus_t status() const { return plan_.status(); }
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // Enqueues the computation in the handle's stream.
  cudnnStatus_t run(cudnnHandle_t handle, const ConvolutionTensors& tensors, void* workspace) const;

 private:
  Backend plan_;
  std::size_t workspace_bytes_ = 0;
};

}  // namespace omni::cudnn
