// Batch normalisation and the activation after it as a part of a layer: the statistics, scale and
// shift, and the order of tasks that makes them exact over all slices; for a single one, one task.
// Used by [batchnorm], and by [convolutional] and [connected] with batch_normalize=1.
#pragma once

#include <functional>
#include <vector>

#include "codelets/elementwise/activation_functors.hpp"
#include "layers/layer_builder.hpp"

namespace omni {

class BatchnormBlock {
 public:
  BatchnormBlock(LayerBuilder& builder, Extent extent, Activation activation);

  // Called slice by slice; with the last one it submits the normalising of all slices from src to
  // dst.
  void forward(const Step& step, int slice, const std::vector<Tensor*>& src,
               const std::vector<Tensor*>& dst, TaskTag tag);

  // Likewise: with the last slice it submits diff_src of every slice, then calls `then(slice)` for
  // each in order. Without diff_src only the parameters get their gradient; it may be dst.diff.
  void backward(int slice, const std::vector<Tensor*>& src, const Blob& dst,
                const std::vector<Tensor*>& diff_src, TaskTag tag,
                const std::function<void(int)>& then);

  // From now on dst.diff has the activation's gradient in it. False: it is no relu.
  bool leave_relu_gradient();
  // From now on dst = activation(normalised + addend). Where the addend's gradient is to be written
  // here, that is done; else dst.diff is that of the sum. False: there is an activation before.
  bool absorb_sum(const Input& addend, Activation activation);

  std::string in_one_task() const;  // see Layer

  Param *shift, *scale, *mean, *variance;  // mean and variance: rolling

 private:
  bool one_slice() const { return slices_.all_sizes.size() == 1; }
  std::int64_t rows(int slice) const;
  // Of any slice of the mini-batch, on whichever rank.
  struct Part {
    std::int64_t rows_before, rows;
    const Tensor* partial;
  };
  const Tensor& own_partial(int slice) const {
    return *partials_[static_cast<std::size_t>(slices_.first + slice)];
  }
  // Behind the slice's partial; with the last slice, all ranks get the partials of all others.
  std::vector<Part> gathered(int slice, bool backward, TaskTag tag,
                             const std::function<void(const Part&)>& merge) const;

  Extent extent_;
  Activation activation_, activation_of_gradient_;
  const Input* addend_ = nullptr;
  const Slices& slices_;
  // Training only.
  std::vector<Tensor*> partials_;  // by slice, of all ranks; none for one slice
  Tensor* total_ = nullptr;
  Tensor *batch_mean_ = nullptr, *batch_inv_std_ = nullptr;
};

}  // namespace omni
