// A Layer submits the tasks of one layer, forward and backward, for one slice of the mini-batch at
// a time. It computes nothing itself. Its constructor infers shapes and declares tensors. This
// header also has a layer's named parameters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codelets/elementwise/sum_tree.hpp"
#include "codelets/loss/label_metrics.hpp"
#include "layers/net_description.hpp"
#include "runtime/extent.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/slices.hpp"
#include "runtime/tasks/tensor.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {

// GradientSums say which slices of this rank add their gradients to which sum.
struct GradientSums {
  int count = 1;
  // If `leaves` is not 0, the sums are the leaves `own` of a tree of sums, which all ranks of a
  // group share. A leaf sums one slice or some consecutive slices of the mini-batch. If `leaves` is
  // 0, slice i adds to sum i mod count.
  int leaves = 0;
  Leaves own{};
  int first_slice = 0, slices = 0;  // the first slice of this rank, and the number of all slices

  // Returns the number of the sum to which a slice of this rank adds its gradient.
  int sum_of(int slice) const {
    return leaves == 0 ? slice % count : leaf_of(first_slice + slice, slices, leaves) - own.first;
  }
};

// A Param is a named parameter (or running statistic) of a layer, with its tensors and its initial
// values.
struct Param {
  ParamRole role = ParamRole::weights;
  std::string name;      // "003.convolutional.weights"
  std::string owner{};   // the layer that has it in files that name layers; "": it has no name
  bool in_files = true;  // false: such files lack it, as it never changes
  // Channels are the last dimension, behind height and width. The first dimension of weights is the
  // filter or neuron. In local layers the filter's place comes before it. In deconvolutional layers
  // input and output channels are exchanged.
  std::vector<std::int64_t> shape;
  Filler filler;
  bool trainable = true;   // false: running statistics
  float decay = 0;         // multiplies the solver's
  float rate = 1;          // multiplies the learning rate
  bool load = true;        // false: keeps its initial value when weights are loaded
  bool divisible = false;  // ranks may divide it: divide_neurons()
  // Each rank computes this many whole parts and their steps; the last rank has the remaining
  // parts. If it is 0, every rank computes all parts.
  int parts_per_rank = 0;
  bool by_slice = false;             // its gradient is the sum over one task per slice
  bool can_overwrite_diff = false;   // its gradient task can also write instead of adding
  bool in_products = false;          // its layer reads Tensor::for_products()
  bool updated_in_backward = false;  // set by LayerBuilder::param
  // True: the gradient's task overwrites `diff`, so the update need not clear it.
  // LayerBuilder::param sets this.
  bool overwrites_diff = false;

  Tensor* value = nullptr;    // what the layers read: the master or the replica
  Tensor* master = nullptr;   // changed by updates, stored in files
  Tensor* replica = nullptr;  // a compute group's copy of the master; null: it has none
  Tensor* diff = nullptr;  // the gradient, in training only; null: a backward task makes the step
  // partial_diffs are partial sums of the gradient, so that slices wait less for each other. The
  // update first adds them to `diff`. There are none where few workers compete for the sum.
  std::vector<Tensor*> partial_diffs{};
  GradientSums sums{};  // which slices add to `diff` and to each of partial_diffs
  // True: every rank computes the gradient of the whole mini-batch and makes the same step.
  bool whole_on_each_rank = false;
  Tensor* velocity = nullptr;     // training only; with Adam: the mean gradient
  Tensor* mean_square = nullptr;  // with Adam: of the gradient
  // Strategies use these tensors for meetings, in which models are averaged
  // (codelets/elementwise/meeting.hpp).
  Tensor* change = nullptr;           // sum of the groups' contributions since the last meeting
  Tensor* centre_velocity = nullptr;  // of the master, which moves at meetings

  // Returns the rank that computes a part of the parameter, unless every rank does.
  int rank_of(std::size_t part) const {
    return parts_per_rank == 0 ? 0 : static_cast<int>(part) / parts_per_rank;
  }
  int parts_of(int rank) const {
    const auto parts = static_cast<int>(master->parts());
    return parts_per_rank == 0 ? parts
                               : std::clamp(parts - rank * parts_per_rank, 0, parts_per_rank);
  }
  Tensor* partial_sum(int which) const { return which == 0 ? diff : partial_diffs[which - 1]; }
  // Returns the partial or whole sum to which the slice adds its gradient.
  const Tensor& gradient(int slice) const { return *partial_sum(sums.sum_of(slice)); }
};

struct ExchangeArgs;

// A Blob has the activations of one layer for a mini-batch, in one tensor per slice. So a slice can
// run ahead through the net without waiting for other slices.
struct Blob {
  Extent extent;
  std::vector<Tensor*> value, diff;  // by slice; diff is empty where no gradient is wanted
};

// An Input is a blob that a layer reads. The layer writes its share of the blob's gradient to
// `diff`. If only one layer reads the blob, these are the blob's own tensors. Otherwise they may be
// private tensors, which the net adds up.
struct Input {
  Blob* blob = nullptr;
  std::vector<Tensor*> diff;
  bool adds = false;  // adds to `diff`, which a later consumer wrote; see Layer::adds_gradients()

  const Extent& extent() const { return blob->extent; }
  const Tensor& value(int slice) const { return *blob->value[slice]; }
  bool wants_gradient() const { return !diff.empty(); }
  // Returns true if this layer writes the blob's own gradient before any other layer adds to it.
  bool writes_gradient() const { return wants_gradient() && diff == blob->diff && !adds; }
  const Tensor& gradient(int slice) const { return *diff[slice]; }
};

// An UpdateOf returns the arguments of the update of a parameter.
using UpdateOf = std::function<ExchangeArgs(const Param&)>;

// A Step has what all layers need to know about the mini-batch that is being submitted.
struct Step {
  bool training = false;
  std::uint64_t seed = 0;
  // Global number of the mini-batch's first image, on which random numbers depend.
  std::uint64_t first_sample = 0;
  BatchSlot* slot = nullptr;
  // In backward, update_of returns the update of each parameter that is updated in backward. If it
  // is null, these parameters do not change.
  const UpdateOf* update_of = nullptr;
};

class LayerBuilder;

class Layer {
 public:
  explicit Layer(LayerBuilder& builder);
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // forward() and backward() submit the tasks of a slice. They are called for all slices in
  // ascending order.
  virtual void forward(const Step& step, int slice) = 0;
  virtual void backward(const Step& step, int slice) = 0;

  // Returns true if the layer's result for any slice needs all slices (batch statistics). The layer
  // then submits that part when it is called with the last slice. The net does not run single
  // slices past such a layer.
  virtual bool joins_slices() const { return false; }
  // Returns true if a task computes some neurons for all slices, instead of all neurons for one
  // slice.
  virtual bool computes_in_blocks() const { return false; }
  virtual bool is_loss() const { return false; }
  // Returns whether each value of the output stands for a class; false for a loss of other targets.
  virtual bool has_classes() const { return true; }
  virtual float label_smoothing() const { return 0; }          // of a loss
  virtual float loss_weight() const { return 1; }              // likewise, in the sum of losses
  virtual IgnoredLabels ignored_labels() const { return {}; }  // likewise

  // Returns whether backward obeys Input::adds. Then this layer needs no private gradient tensors.
  virtual bool adds_gradients() const { return false; }

  // The gradient of a relu is a pass over the largest tensors, unless the backward pass of the next
  // layer includes it. The net fuses the two under three conditions. The next layer can do it, the
  // layer with the relu agrees, and no other layer reads the relu's output.
  virtual bool can_take_relu_gradient() const { return false; }
  virtual void take_relu_gradient() {}
  virtual bool leave_relu_gradient() { return false; }  // false: this layer has no relu

  // fuse_sum_into() asks the layer of a sum to let `before`, a normalisation that no other layer
  // reads, compute the sum. It calls before.absorb_sum(), after which `before` outputs
  // activation(output + addend). Both functions return false if the sum is not fused. If
  // Input::writes_gradient() is true for the addend, the normalisation also computes the addend's
  // gradient from that of the sum.
  virtual bool fuse_sum_into(Layer& /*before*/) { return false; }
  virtual bool absorb_sum(const Input& /*addend*/, Activation) { return false; }
  void share_output(Layer& before, TensorPool& tensors);
  // A dropout layer works in place on the output of the layer before it and on its gradient. It
  // does so if no other layer reads them and that layer allows it. work_in_place() returns whether
  // it does.
  virtual bool work_in_place(const Layer& /*before*/) { return false; }
  virtual bool allows_dropout_in_place() const { return false; }
  // Drops the private gradient tensors of the inputs if this layer can add to the blobs' own
  // gradients.
  void add_gradients_in_place(TensorPool& tensors);

  virtual double forward_flops_per_image() const { return 0; }
  // These texts are for the table of layers. detail() is, for example, "64 3x3/1". in_one_task()
  // names what a task computes besides the layer's product or sum, as "bias relu".
  virtual std::string detail() const { return ""; }
  virtual std::string in_one_task() const { return ""; }

  int index() const { return index_; }
  const std::string& type() const { return type_; }
  const std::string& where() const { return where_; }  // "lenet.cfg:12"
  const std::vector<Input*>& inputs() const { return inputs_; }
  std::size_t tensor_bytes() const { return tensor_bytes_; }  // of everything it declared
  Blob& output() { return output_; }
  const Blob& output() const { return output_; }
  // Returns the blob that later layers read as this layer's output. It is its own output, or the
  // blob of which the output is an alias.
  Blob& read_by_others() { return is_alias() ? *aliased_ : output_; }
  const std::vector<Param*>& params() const { return params_; }

 protected:
  // Makes the output of this layer an alias of the blob. Since this layer reads the blob, no other
  // layer changes its tensors in place (see share_output).
  void alias_output(Blob& blob) {
    aliased_ = &blob;
    output_ = blob;
  }
  bool is_alias() const { return aliased_ != nullptr; }

  const Slices& slices() const { return *slices_; }
  int images(int slice) const { return slices_->sizes[slice]; }
  double values_per_image() const { return static_cast<double>(output_.extent.count()); }
  // Returns the number of output values of a slice, over all its images.
  std::int64_t values(int slice) const {
    return static_cast<std::int64_t>(output_.extent.count()) * images(slice);
  }
  std::uint64_t first_sample(const Step& step, int slice) const {
    return step.first_sample + slices_->before + slices_->offsets[slice];
  }
  const Tensor& value(int slice) const { return *output_.value[slice]; }
  const Tensor& diff(int slice) const { return *output_.diff[slice]; }
  const Input& input(std::size_t which = 0) const { return *inputs_[which]; }

  // In forward, tasks of later layers come first. In backward, gradients of the data, for which
  // other tasks wait, come before gradients of weights.
  TaskTag forward_tag(int slice) const { return {index_, index_, slice}; }
  TaskTag data_gradient_tag(int slice) const { return {kBackward - index_, index_, slice}; }
  TaskTag weight_gradient_tag(int slice) const { return {-index_, index_, slice}; }

  // These functions submit the tasks of layers with one input and one output. The forward task
  // computes the output from the input. The backward task computes the gradient of the input from
  // that of the output, if it is needed.
  template <class Args>
  void submit_forward(Codelet<Args>& codelet, const Args& args, int slice) const {
    codelet.submit(args, {read(input().value(slice)), write(value(slice))}, forward_tag(slice));
  }
  template <class Args>
  void submit_backward(Codelet<Args>& codelet, const Args& args, int slice) const {
    if (input().wants_gradient())
      codelet.submit(args, {read(diff(slice)), write(input().gradient(slice))},
                     data_gradient_tag(slice));
  }

  static constexpr int kBackward = 1 << 16;  // above every forward priority

  Blob output_;
  std::vector<Param*> params_;

 private:
  friend class LayerBuilder;
  int index_;
  std::string type_, where_;
  const Slices* slices_;
  std::vector<Input*> inputs_;  // set once the constructor is done
  Blob* aliased_ = nullptr;
  std::size_t tensor_bytes_ = 0;
};

}  // namespace omni
