// These blocks are the last part of a layer: an activation, or batch normalisation and an
// activation.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codelets/elementwise/activation_functors.hpp"
#include "codelets/normalise/batchnorm.hpp"
#include "layers/layer_builder.hpp"

namespace omni {

std::string fused_name(Activation activation);  // for example " relu"; "" for linear

// An ActivationBlock is the activation at the end of a layer, as its description says. Usually the
// layer's own task applies it in place. If the activation's gradient needs its input, a separate
// task applies it, and the layer keeps its input.
class ActivationBlock {
 public:
  ActivationBlock() = default;
  ActivationBlock(LayerBuilder& builder, Activation kind, Extent extent);

  Activation kind() const { return kind_; }
  // fused() is the activation that the layer's own task applies. targets() are the tensors that
  // this task writes.
  Activation fused() const { return before_.empty() ? kind_ : Activation::linear; }
  const std::vector<Tensor*>& targets(const Blob& output) const {
    return before_.empty() ? output.value : before_;
  }
  const Tensor& target(const Blob& output, int slice) const { return *targets(output)[slice]; }

  // Returns true if the gradient needs no more of the output than its sign, which dropout keeps.
  bool allows_dropout_in_place() const;

  // Submits the activation of `count` values if it needs a task of its own.
  void forward(std::int64_t count, const Blob& output, int slice, TaskTag tag) const;
  // Replaces the gradient of the output by that of the activation's input, in place.
  void backward(std::int64_t count, const Blob& output, int slice, TaskTag tag) const;
  // This backward() also adds to the bias's gradient in the same pass. It may only be used if no
  // other slice adds to diff_bias.
  void backward(std::int64_t count, const Blob& output, int slice, const Tensor& diff_bias,
                TaskTag tag) const;

 private:
  Activation kind_ = Activation::linear;
  std::vector<Tensor*> before_;  // by slice; empty if the gradient needs only the output
};

// A BatchnormBlock is batch normalisation and the activation after it, as a part of a layer. It has
// the statistics, scale and shift. It submits tasks that compute them exactly over all slices. If
// there is only one slice, and the options are the usual ones, it submits a single task. Batchnorm
// layers use it, and so do convolutional and connected layers that normalise.
class BatchnormBlock {
 public:
  BatchnormBlock(LayerBuilder& builder, Extent extent, const BatchnormOptions& options);

  // forward() has to be called slice by slice. The call for the last slice submits the
  // normalisation of all slices from src to dst.
  void forward(const Step& step, int slice, const std::vector<Tensor*>& src,
               const std::vector<Tensor*>& dst, TaskTag tag);

  // backward() has to be called slice by slice. The call for the last slice submits diff_src of all
  // slices, and calls then(slice) for each in order. diff_src may be dst.diff. If it is empty, only
  // the parameters get gradients.
  void backward(int slice, const std::vector<Tensor*>& src, const Blob& dst,
                const std::vector<Tensor*>& diff_src, TaskTag tag,
                const std::function<void(int)>& then);

  // Does what Layer::leave_relu_gradient() does. From then on dst.diff includes the gradient of the
  // relu. Returns false if the block has no relu.
  bool leave_relu_gradient();
  // Does what Layer::absorb_sum() does. From then on dst = activation(normalised + addend). Returns
  // false if the block already has an activation.
  bool absorb_sum(const Input& addend, Activation activation);

  std::string in_one_task() const;  // as Layer's

  // Returns scale and shift, the rolling mean and variance, and, if it is counted, the number of
  // mini-batches in these averages.
  std::vector<Param*> params() const;

 private:
  // Returns whether one task does the whole batch normalisation.
  bool whole() const {
    return slices_.all_sizes.size() == 1 && averaged_ == nullptr && !options_.frozen &&
           options_.momentum == BatchnormFinishArgs().momentum &&
           options_.epsilon == kBatchnormEpsilon;
  }
  void apply(const Step& step, std::size_t slice, const Tensor& src, const Tensor& dst,
             TaskTag tag) const;
  std::int64_t rows(int slice) const;
  // Merges the partial result of a slice into the total of the rank. The call for the last slice
  // merges the totals of all ranks into total_. Returns the number of rows in the whole mini-batch.
  std::int64_t merge_partials(int slice, bool backward, TaskTag tag) const;

  // A Share is a sum that one rank sends to others. A Level merges its shares into `total` in their
  // order.
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

  Param *shift_, *scale_, *mean_, *variance_;
  Param* averaged_ = nullptr;
  Extent extent_;
  BatchnormOptions options_;
  Activation activation_, activation_of_gradient_;
  const Input* addend_ = nullptr;
  const Slices& slices_;
  // Only training needs the following tensors.
  std::vector<Tensor*> partials_;  // by slice; empty if all is done in one task
  std::vector<Level> levels_;      // empty on one rank
  Tensor* total_ = nullptr;
  Tensor* total_of_rank_ = nullptr;  // null: the rank's only slice has it, or slices are exchanged
  Tensor *batch_mean_ = nullptr, *batch_inv_std_ = nullptr;
};

}  // namespace omni
