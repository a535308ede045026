// A ConvolutionPlan is the plan for one pass of a convolution by cuDNN. Its constructor chooses how
// cuDNN computes the shape. With --precision bf16, tensors that hold floats are copied to bf16.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "codelets/convolution/cudnn/engines.hpp"
#include "codelets/cuda/choice_table.hpp"
#include "codelets/cuda/fastest.hpp"
#include "codelets/cuda/trial_time.hpp"
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
  // Computes the pass. While there are ways that were not tried, it may first try one of them, but
  // not if the time of the call counts.
  void run(CudaWorker& worker, const ConvolutionTensors& tensors);

 private:
  // A Form tells what cuDNN computes besides the convolution, and on which tensors.
  struct Form {
    bool ends = false;   // true: also bias and activation; false: another kernel applies them
    bool folds = false;  // true: on folded copies of src and weights, see folded_tensors.hpp
    // True: one group after another, each as a convolution without groups on a part of the
    // channels.
    bool splits = false;

    bool operator==(const Form&) const = default;
  };
  // A Way is one way to compute the pass.
  struct Way {
    Form form;
    EngineConfig config;
    ExecutionPlan plan;
  };
  // An Offer is a way by the numbers of its engine.
  struct Offer {
    Form form;
    std::vector<std::uint64_t> engine;
  };

  // Numbers are a way as the ChoiceTable stores it: the numbers of its form and of its engine.
  using Numbers = ChoiceTable::Numbers;

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
  bool may_split() const;
  ConvShape shape_of_group() const;
  // Returns how many values of the tensor lie before its second group.
  std::int64_t step(std::size_t tensor) const;
  std::vector<Form> forms() const;  // those to be tried
  ConvolutionGraph graph(Form form, const Target& target) const;
  // Returns nullopt if cuDNN cannot compute the pass in this way, or if the way does not meet the
  // demands or needs too much workspace.
  std::optional<Way> way(const Target& target, const Offer& offer) const;
  // Returns what cuDNN offers for a form, the most promising first, and for all forms in turns.
  std::vector<Offer> offers(const Target& target, Form form) const;
  std::deque<Offer> offers(const Target& target) const;

  // Chooses a way. Trials write to the result among the tensors unless the task adds to it.
  void choose(CudaWorker& worker, const ConvolutionTensors& tensors);
  bool succeeds(cudnnStatus_t status) const;
  bool works(CudaWorker& worker, const Way& way, ConvolutionTensors tensors,
             std::byte* memory) const;
  bool take(CudaWorker& worker, const ConvolutionTensors& tensors, Way way);  // false: it fails
  bool take_numbers(CudaWorker& worker, const ConvolutionTensors& tensors, const Numbers& numbers);

  // The following functions try ways: the first few at the start, the others while a training goes
  // on.
  ChoiceTable& table(const CudaWorker& worker) const;
  Numbers numbers() const;  // of the way that is used
  std::optional<ChoiceTable::Choice> search(CudaWorker& worker, const ConvolutionTensors& tensors);
  ChoiceTable::Choice choice() const;  // the way that is used, and what the trials are worth
  bool count(bool at_rest);
  bool has_waited();
  void go_on(CudaWorker& worker, const ConvolutionTensors& tensors);
  // Takes the way that is offered if it is faster than the one that is used. Returns whether it
  // ran.
  bool try_one(CudaWorker& worker, const ConvolutionTensors& tensors, const Offer& offer);
  float time(CudaWorker& worker, const Way& way, const ConvolutionTensors& tensors,
             std::byte* memory, float best = kNever) const;

  ConvolutionTask task_;
  Precision precision_;
  bool multiplies_bf16_;
  Demands demands_;
  std::size_t result_;  // number of the tensor that is written
  std::array<std::int64_t, 3> counts_;
  ConvShape folded_;  // the task's shape folded, if it may be folded
  std::size_t most_workspace_;
  std::optional<Way> way_;
  float milliseconds_ = kNever;  // that the way takes, as far as is known
  std::deque<Offer> untried_;
  std::size_t tried_ = 0;       // so many offers at the beginning of the list were tried
  bool all_count_ = true;       // false: an offer behind those must be tried again in another run
  bool lacked_memory_ = false;  // true: there was too little memory to try an offer
  bool accepts_disturbed_ = false;  // true: trials may decide although others computed
  std::optional<TrialTime::Clock::time_point> waits_since_;  // since when others compute
};

}  // namespace omni::cudnn
