// One pass of a convolution by cuDNN: how it is computed is chosen once per shape, by measuring. In
// bf16, tensors that are floats are copied.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codelets/convolution/cudnn/engines.hpp"
#include "codelets/elementwise/activation_functors.hpp"
#include "runtime/cuda/worker.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni::cudnn {

struct ConvolutionTask {
  Pass pass;
  ConvShape shape;
  int alignment = 16;         // of src, weights and dst as cuDNN sees them, in bytes
  bool bf16_values = false;   // src and dst are in bf16; else they are floats
  bool bf16_weights = false;  // likewise; never as the result, and not without bf16_values
  bool adds = false;          // to what is there; not forward
  bool may_end = false;       // forward: in its bias and activation
  Activation activation = Activation::linear;

  auto operator<=>(const ConvolutionTask&) const = default;
};

// Of src, weights and dst: whether cuDNN sees a copy in bf16.
bool is_copied(const ConvolutionTask& task, std::size_t tensor);

class ConvolutionPlan {
 public:
  // Chooses by computing with these tensors, but into memory of its own.
  ConvolutionPlan(CudaWorker& worker, const ConvolutionTask& task,
                  const ConvolutionTensors& tensors);

  // False: cuDNN can do nothing with this shape.
  bool usable() const { return way_.has_value(); }
  void run(CudaWorker& worker, const ConvolutionTensors& tensors) const;

 private:
  // What cuDNN is asked for.
  struct Form {
    bool ends = false;   // in bias and activation; else they are passes of their own
    bool folds = false;  // on copies of src and weights that are folded, see folded_tensors.hpp
  };
  // How it may be computed.
  struct Way {
    Form form;
    EngineConfig config;
    ExecutionPlan plan;
  };

  // As the table of choices keeps one: its form, and the engine's.
  using Numbers = std::vector<std::uint64_t>;

  std::string description() const;
  bool is_folded(Form form, std::size_t tensor) const;
  std::size_t bytes_of_copy(Form form, std::size_t tensor) const;
  std::size_t bytes_of_bias_copy(const Way& way) const;
  std::size_t memory_for(const Way& way) const;
  std::size_t bytes_of_result_value() const;
  // Into the memory of a copy, and what was computed in one back to its tensor.
  void copy_tensor(CudaWorker& worker, Form form, std::size_t tensor, const void* from,
                   std::byte* to) const;
  void copy_result(CudaWorker& worker, Form form, const void* from, void* to) const;
  cudnnStatus_t enqueue(CudaWorker& worker, const Way& way, const ConvolutionTensors& tensors,
                        std::byte* memory) const;

  bool may_fold() const;
  std::vector<Form> forms() const;  // to be tried
  ConvolutionGraph graph(Form form, const Target& target) const;
  // Nothing: cuDNN cannot, or not as we want it.
  std::optional<Way> way(const Target& target, Form form, EngineConfig config) const;
  // Those that need no more memory than that, the more promising first, for as long as visit()
  // wants more.
  void for_each_way(const Target& target, Form form, std::size_t most_memory,
                    const std::function<bool(Way)>& visit) const;

  // tensors: their result may be written.
  void choose(CudaWorker& worker, ConvolutionTensors tensors);
  bool succeeds(cudnnStatus_t status) const;
  bool works(CudaWorker& worker, const Way& way, ConvolutionTensors tensors,
             std::byte* memory) const;
  bool take(CudaWorker& worker, const ConvolutionTensors& tensors, Way way);  // if it works
  std::optional<Numbers> take_fastest(CudaWorker& worker, const Target& target,
                                      const ConvolutionTensors& tensors);
  std::optional<Numbers> take_fastest_with(std::size_t most_memory, CudaWorker& worker,
                                           const Target& target, const ConvolutionTensors& tensors);

  ConvolutionTask task_;
  Precision precision_;
  bool multiplies_bf16_;
  Demands demands_;
  std::size_t result_;  // which of the tensors is written
  std::array<std::int64_t, 3> counts_;
  ConvShape folded_;  // of the task's shape, if that may be folded
  std::size_t most_workspace_;
  std::optional<Way> way_;
};

}  // namespace omni::cudnn
