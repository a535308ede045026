// What layers end in: an activation, or batch normalisation and one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codelets/elementwise/activation_functors.hpp"
#include "layers/layer_builder.hpp"

namespace omni {

std::string fused_name(Activation activation);  // " relu"; "" for linear

// The activation at the end of a layer, Usually the layer's own task
// applies it in place. If its gradient needs its input, it is a task of its own, and the layer
// keeps the values before it.
class ActivationBlock {
 public:
  ActivationBlock() = default;
  ActivationBlock(LayerBuilder& builder, Activation kind, Extent extent);

  Activation kind() const { return kind_; }
  // The activation that the layer's own task applies, and the tensors that this task writes.
  Activation fused() const { return before_.empty() ? kind_ : Activation::linear; }
  const std::vector<Tensor*>& targets(const Blob& output) const {
    return before_.empty() ? output.value : before_;
  }
  const Tensor& target(const Blob& output, int slice) const { return *targets(output)[slice]; }

  // The gradient depends on the sign of the output only.
  bool allows_dropout_in_place() const;

  // The activation as a task of its own, if needed; `count` values.
  void forward(std::int64_t count, const Blob& output, int slice, TaskTag tag) const;
  // Turns the gradient of the output into that of the activation's input, in place.
  void backward(std::int64_t count, const Blob& output, int slice, TaskTag tag) const;
  // The same, with the bias's gradient in the same pass: for a slice whose sum no other slice uses.
  void backward(std::int64_t count, const Blob& output, int slice, const Tensor& diff_bias,
                TaskTag tag) const;

 private:
  Activation kind_ = Activation::linear;
  std::vector<Tensor*> before_;  // by slice; empty where the gradient needs only the output
};

// Batch normalisation and the activation after it as a part of a layer: the statistics, scale and
// shift, and the order of tasks that makes them exact over all slices; for a single one, one task.
// Used by [batchnorm], and by [convolutional] and [connected] with batch_normalize=1.
class BatchnormBlock {
 public:
  BatchnormBlock(LayerBuilder& builder, Extent extent, Activation activation);

  // Called slice by slice; the call for the last slice submits the normalisation of all slices from
  // src to dst.
  void forward(const Step& step, int slice, const std::vector<Tensor*>& src,
               const std::vector<Tensor*>& dst, TaskTag tag);

  // Likewise: the call for the last slice submits diff_src of all slices, and calls then(slice) for
  // each in order. diff_src may be dst.diff; if empty, only the parameters get gradients.
  void backward(int slice, const std::vector<Tensor*>& src, const Blob& dst,
                const std::vector<Tensor*>& diff_src, TaskTag tag,
                const std::function<void(int)>& then);

  // See Layer. From then on dst.diff already includes the gradient of the relu. False: no relu.
  bool leave_relu_gradient();
  // See Layer. From then on dst = activation(normalised + addend). False: this block has an
  // activation of its own.
  bool absorb_sum(const Input& addend, Activation activation);

  std::string in_one_task() const;  // see Layer

  Param *shift, *scale, *mean, *variance;  // mean and variance: rolling

 private:
  bool one_slice() const { return slices_.all_sizes.size() == 1; }
  std::int64_t rows(int slice) const;
  // Merges the slice's partial into the rank's total. The call for the last slice brings all ranks'
  // into total_. Returns the rows of the whole mini-batch.
  std::int64_t merge_partials(int slice, bool backward, TaskTag tag) const;

  // Sums that ranks exchange, in the order in which they are merged into `total`.
  struct Share {
    Tensor* sums;
    int owner, images;
  };
  struct Level {
    std::vector<Share> shares;
    Tensor* total;
  };
  void add_levels(const std::function<Tensor*()>& sums);
  void exchange(const Level& level, int kind, TaskTag tag) const;

  Extent extent_;
  Activation activation_, activation_of_gradient_;
  const Input* addend_ = nullptr;
  const Slices& slices_;
  // Training only.
  std::vector<Tensor*> partials_;  // by slice; none for one slice
  std::vector<Level> levels_;      // on several ranks
  Tensor* total_ = nullptr;
  Tensor* total_of_rank_ = nullptr;  // null: its only slice has it, or slices are exchanged
  Tensor *batch_mean_ = nullptr, *batch_inv_std_ = nullptr;
};

}  // namespace omni
