// A ConvolutionPlan is the plan for one pass of a convolution by cuDNN. Its constructor chooses how
// cuDNN computes the shape. With --precision bf16, tensors that hold floats are copied to bf16.
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
  int alignment = 16;         // in bytes, of src, weights and dst as cuDNN gets them
  bool bf16_values = false;   // src and dst hold bf16; false: floats
  bool bf16_weights = false;  // only with bf16_values, and never where weights are the result
  bool adds = false;          // true: adds to the result's old values; never in forward
  bool may_end = false;       // forward: cuDNN may add the bias and apply the activation
  Activation activation = Activation::linear;

  auto operator<=>(const ConvolutionTask&) const = default;
};

// Returns whether cuDNN gets a copy in bf16 of src (`tensor` 0), weights (1) or dst (2).
bool is_copied(const ConvolutionTask& task, std::size_t tensor);

class ConvolutionPlan {
 public:
  // Chooses a way by computing with these tensors. Overwrites the result unless the task adds.
  ConvolutionPlan(CudaWorker& worker, const ConvolutionTask& task,
                  const ConvolutionTensors& tensors);

  // usable() returns false if cuDNN cannot compute this shape.
  bool usable() const { return way_.has_value(); }
  void run(CudaWorker& worker, const ConvolutionTensors& tensors) const;

 private:
  // A Form tells what cuDNN computes besides the convolution, and on which tensors.
  struct Form {
    bool ends = false;   // true: also bias and activation; false: another kernel applies them
    bool folds = false;  // true: on folded copies of src and weights, see folded_tensors.hpp
  };
  // A Way is one way to compute the pass.
  struct Way {
    Form form;
    EngineConfig config;
    ExecutionPlan plan;
  };

  // Numbers are a way as the ChoiceTable stores it: the numbers of its form and of its engine.
  using Numbers = std::vector<std::uint64_t>;

  std::string description() const;
  bool is_folded(Form form, std::size_t tensor) const;
  std::size_t bytes_of_copy(Form form, std::size_t tensor) const;
  std::size_t bytes_of_bias_copy(const Way& way) const;
  std::size_t memory_for(const Way& way) const;
  std::size_t bytes_of_result_value() const;
  // copy_tensor() fills the memory of a tensor's copy. copy_result() copies a result from its copy
  // to the tensor, or adds it if the task adds.
  void copy_tensor(CudaWorker& worker, Form form, std::size_t tensor, const void* from,
                   std::byte* to) const;
  void copy_result(CudaWorker& worker, Form form, const void* from, void* to) const;
  cudnnStatus_t enqueue(CudaWorker& worker, const Way& way, const ConvolutionTensors& tensors,
                        std::byte* memory) const;

  bool may_fold() const;
  std::vector<Form> forms() const;  // those to be tried
  ConvolutionGraph graph(Form form, const Target& target) const;
  // Returns nullopt if cuDNN cannot compute the pass in this way, or if the way does not meet the
  // demands or needs too much workspace.
  std::optional<Way> way(const Target& target, Form form, EngineConfig config) const;
  // Visits the ways that need at most most_memory bytes, the most promising ones first, until
  // visit() returns false.
  void for_each_way(const Target& target, Form form, std::size_t most_memory,
                    const std::function<bool(Way)>& visit) const;

  // Chooses a way. Trials write to the result among the tensors unless the task adds to it.
  void choose(CudaWorker& worker, ConvolutionTensors tensors);
  bool succeeds(cudnnStatus_t status) const;
  bool works(CudaWorker& worker, const Way& way, ConvolutionTensors tensors,
             std::byte* memory) const;
  bool take(CudaWorker& worker, const ConvolutionTensors& tensors, Way way);  // false: it fails
  std::optional<Numbers> take_fastest(CudaWorker& worker, const Target& target,
                                      const ConvolutionTensors& tensors);
  std::optional<Numbers> take_fastest_with(std::size_t most_memory, CudaWorker& worker,
                                           const Target& target, const ConvolutionTensors& tensors);

  ConvolutionTask task_;
  Precision precision_;
  bool multiplies_bf16_;
  Demands demands_;
  std::size_t result_;  // number of the tensor that is written
  std::array<std::int64_t, 3> counts_;
  ConvShape folded_;  // the task's shape folded, if it may be folded
  std::size_t most_workspace_;
  std::optional<Way> way_;
};

}  // namespace omni::cudnn
