#include "layers/types/blocks/output_blocks.hpp"

#include <fmt/format.h>

#include <optional>

#include "codelets/elementwise/activation.hpp"
#include "codelets/elementwise/channel_bias.hpp"
#include "codelets/normalise/batchnorm.hpp"
#include "codelets/normalise/batchnorm_whole.hpp"
#include "layers/slice_choice.hpp"
#include "runtime/communicator/transfers.hpp"

namespace omni {

ActivationBlock::ActivationBlock(LayerBuilder& builder, Activation kind, Extent extent)
    : kind_(kind) {
  if (gradient_needs_input(kind_))
    before_ = builder.per_slice("before", extent.count(), builder.values());
}

std::string fused_name(Activation activation) {
  if (activation == Activation::linear) return "";
  return fmt::format(" {}", activation_name(activation));
}

bool ActivationBlock::allows_dropout_in_place() const {
  return !before_.empty() || kind_ == Activation::linear || kind_ == Activation::relu ||
         kind_ == Activation::leaky;
}

void ActivationBlock::forward(std::int64_t count, const Blob& output, int slice,
                              TaskTag tag) const {
  if (!before_.empty())
    activation_forward.submit({.count = count, .activation = kind_},
                              {read(*before_[slice]), write(*output.value[slice])}, tag);
}

void ActivationBlock::backward(std::int64_t count, const Blob& output, int slice,
                               TaskTag tag) const {
  if (kind_ != Activation::linear)
    activation_backward.submit({.count = count, .activation = kind_},
                               {read(target(output, slice)), read_write(*output.diff[slice])}, tag);
}

void ActivationBlock::backward(std::int64_t count, const Blob& output, int slice,
                               const Tensor& diff_bias, TaskTag tag) const {
  submit_channel_bias_backward(
      {.rows = count / output.extent.c, .c = output.extent.c, .activation = kind_},
      *output.diff[slice], diff_bias, &target(output, slice), tag);
}

BatchnormBlock::BatchnormBlock(LayerBuilder& builder, Extent extent,
                               const BatchnormOptions& options)
    : extent_(extent),
      options_(options),
      activation_(options.activation),
      activation_of_gradient_(options.activation),
      slices_(builder.slices()) {
  const std::size_t channels = extent.c;
  const auto param = [&](ParamRole role, const char* name, float start, bool trainable) {
    return &builder.param({.role = role,
                           .name = name,
                           .shape = {extent.c},
                           .filler = {.kind = Filler::Kind::constant, .scale = start},
                           .trainable = trainable});
  };
  shift_ = param(ParamRole::bias, "shift", 0, true);
  scale_ = param(ParamRole::scale, "scale", 1, true);
  mean_ = param(ParamRole::mean, "rolling_mean", 0, false);
  variance_ = param(ParamRole::variance, "rolling_variance", 1, false);
  if (options.counts) averaged_ = param(ParamRole::averaged, "rolling_batches", 0, false);
  if (!builder.training()) return;
  shift_->whole_on_each_rank = scale_->whole_on_each_rank = true;
  const auto sums = [&] { return &builder.tensor("batchnorm.sums", 2 * channels); };
  total_ = sums();
  for (int left = whole() ? 0 : slices_.count(); left > 0; --left) partials_.push_back(sums());
  if (slices_.ranks == 1)
    total_of_rank_ = total_;
  else
    add_levels(sums);
  batch_mean_ = &builder.tensor("batchnorm.mean", channels);
  batch_inv_std_ = &builder.tensor("batchnorm.inv_std", channels);
}

std::vector<Param*> BatchnormBlock::params() const {
  std::vector<Param*> all{shift_, scale_, mean_, variance_};
  if (averaged_ != nullptr) all.push_back(averaged_);
  return all;
}

std::int64_t BatchnormBlock::rows(int slice) const {
  return std::int64_t{slices_.sizes[slice]} * extent_.h * extent_.w;
}

// Each rank exchanges its total with the ranks of its row, then the row's total with the ranks of
// its column. If results must have the same bits as on one rank, each rank instead exchanges the
// partial results of its slices with all ranks.
void BatchnormBlock::add_levels(const std::function<Tensor*()>& sums) {
  const auto add = [&](std::vector<Share> shares, Tensor* total) {
    for (Share& each : shares)
      if (each.sums == nullptr) each.sums = sums();
    levels_.push_back({std::move(shares), total});
    return total;
  };
  const int own = slices_.rank, width = ranks_in_a_row(slices_.ranks);
  std::vector<Share> slices, row, column;
  std::vector<int> images(static_cast<std::size_t>(slices_.ranks));
  for (std::size_t at = 0; at < slices_.owners.size(); ++at) {
    const int owner = slices_.owners[at], size = slices_.all_sizes[at];
    images[owner] += size;
    slices.push_back({owner == own ? partials_[at - slices_.first] : nullptr, owner, size});
  }
  if (slices_.as_one_rank) {
    add(slices, total_);
    return;
  }
  Tensor* total = partials_.front();
  if (slices_.count() > 1) total = total_of_rank_ = sums();
  for (int rank = 0; rank < slices_.ranks; ++rank) {
    if (rank / width == own / width)
      row.push_back({rank == own ? total : nullptr, rank, images[rank]});
    if (rank % width == 0) column.push_back({nullptr, rank + own % width, 0});
    column.back().images += images[rank];
  }
  if (width > 1) total = add(std::move(row), sums());
  column[own / width].sums = total;
  add(std::move(column), total_);
}

void BatchnormBlock::exchange(const Level& level, int kind, TaskTag tag) const {
  const int first = ranks::rank() - slices_.rank;  // the ranks that share the mini-batch begin here
  std::vector<int> others;
  for (const Share& each : level.shares)
    if (each.owner != slices_.rank && (others.empty() || others.back() != first + each.owner))
      others.push_back(first + each.owner);
  std::vector<Transfer> transfers;
  for (const Share& each : level.shares) {
    const bool own = each.owner == slices_.rank;
    transfers.push_back({own ? Transfer::Kind::send : Transfer::Kind::receive, *each.sums,
                         own ? others : std::vector{first + each.owner},
                         layer_tag(tag.layer, kind, static_cast<int>(transfers.size()))});
  }
  submit_transfers(std::move(transfers), tag);
}

std::int64_t BatchnormBlock::merge_partials(int slice, bool backward, TaskTag tag) const {
  const std::int64_t area = std::int64_t{extent_.h} * extent_.w;
  const auto merge = [&](int before, int images, const Tensor& partial, const Tensor& total) {
    submit_batchnorm_merge(backward ? batchnorm_merge_sums : batchnorm_merge,
                           {.c = extent_.c, .rows_before = before * area, .rows = images * area},
                           partial, total, tag);
  };
  if (total_of_rank_ != nullptr)
    merge(slices_.offsets[slice], slices_.sizes[slice], *partials_[slice], *total_of_rank_);
  for (std::size_t at = 0; slice + 1 == slices_.count() && at < levels_.size(); ++at) {
    exchange(levels_[at], static_cast<int>(2 * at) + (backward ? 1 : 0), tag);
    for (int before = 0; const Share& each : levels_[at].shares) {
      merge(before, each.images, *each.sums, *levels_[at].total);
      before += each.images;
    }
  }
  return slices_.images_of_all() * area;
}

void BatchnormBlock::apply(const Step& step, std::size_t slice, const Tensor& src,
                           const Tensor& dst, TaskTag tag) const {
  submit_batchnorm_apply({.rows = rows(static_cast<int>(slice)),
                          .c = extent_.c,
                          .from_variance = !step.training,
                          .activation = activation_,
                          .epsilon = options_.epsilon},
                         src, step.training ? *batch_mean_ : *mean_->value,
                         step.training ? *batch_inv_std_ : *variance_->value, *scale_->value,
                         *shift_->value, addend_ != nullptr ? addend_->blob->value[slice] : nullptr,
                         dst, {tag.priority, tag.layer, static_cast<int>(slice)});
}

void BatchnormBlock::forward(const Step& step, int slice, const std::vector<Tensor*>& src,
                             const std::vector<Tensor*>& dst, TaskTag tag) {
  const int c = extent_.c;
  if (!step.training) return apply(step, slice, *src[slice], *dst[slice], tag);
  if (whole())
    return submit_batchnorm_forward(
        {.rows = rows(slice), .c = c, .activation = activation_}, *src[slice], *total_,
        *batch_mean_, *batch_inv_std_, *mean_->value, *variance_->value, *scale_->value,
        *shift_->value, addend_ != nullptr ? addend_->blob->value[slice] : nullptr, *dst[slice],
        tag);
  const bool frozen = options_.frozen;
  if (!frozen)
    batchnorm_partial.submit({.rows = rows(slice), .c = c},
                             {read(*src[slice]), write(*partials_[slice])}, tag);
  const std::int64_t batch_rows = frozen ? 1 : merge_partials(slice, false, tag);
  if (slice + 1 < slices_.count()) return;
  // With frozen averages the total is not read, so any tensor takes its place.
  submit_batchnorm_finish({.c = c,
                           .rows = batch_rows,
                           .momentum = options_.momentum,
                           .epsilon = options_.epsilon,
                           .frozen = frozen},
                          frozen ? *scale_->value : *total_, *batch_mean_, *batch_inv_std_,
                          *mean_->value, *variance_->value,
                          averaged_ != nullptr ? averaged_->value : nullptr, tag);
  for (std::size_t each = 0; each < src.size(); ++each)
    apply(step, each, *src[each], *dst[each], tag);
}

void BatchnormBlock::backward(int slice, const std::vector<Tensor*>& src, const Blob& dst,
                              const std::vector<Tensor*>& diff_src, TaskTag tag,
                              const std::function<void(int)>& then) {
  const int c = extent_.c;
  const bool of_sum = addend_ != nullptr && addend_->writes_gradient();
  const Activation activation = of_sum ? activation_ : activation_of_gradient_;
  if (whole()) {
    const auto sum = of_sum
                         ? std::optional<BatchnormSum>({*dst.value[slice], *addend_->diff[slice]})
                         : std::nullopt;
    submit_batchnorm_backward(
        {.rows = rows(slice), .c = c, .activation = activation}, *src[slice], *dst.diff[slice],
        *batch_mean_, *batch_inv_std_, *scale_->value, *shift_->value, *total_, *scale_->diff,
        *shift_->diff, diff_src.empty() ? nullptr : diff_src[slice], sum ? &*sum : nullptr, tag);
    return then(slice);
  }
  const BatchnormReduceArgs reduce{.rows = rows(slice), .c = c, .activation = activation};
  if (of_sum)
    batchnorm_residual_reduce.submit(
        reduce,
        {read(*src[slice]), read(*dst.value[slice]), read(*dst.diff[slice]), read(*batch_mean_),
         read(*batch_inv_std_), write(*partials_[slice]), write(*addend_->diff[slice])},
        tag);
  else
    batchnorm_backward_reduce.submit(
        reduce,
        {read(*src[slice]), read(*dst.diff[slice]), read(*batch_mean_), read(*batch_inv_std_),
         read(*scale_->value), read(*shift_->value), write(*partials_[slice])},
        tag);
  const std::int64_t all_rows = merge_partials(slice, true, tag),
                     batch_rows = options_.frozen ? BatchnormBackwardArgs::kFrozen : all_rows;
  if (slice + 1 < slices_.count()) return;
  batchnorm_parameter_gradient.submit(
      {.c = c}, {read(*total_), accumulate(*scale_->diff), accumulate(*shift_->diff)}, tag);
  const std::vector<Tensor*>& diffs = of_sum ? addend_->diff : dst.diff;
  for (int each = 0; each < slices_.count(); ++each) {
    if (!diff_src.empty())
      submit_batchnorm_backward_data({.rows = rows(each),
                                      .c = c,
                                      .batch_rows = batch_rows,
                                      .activation = activation_of_gradient_},
                                     *src[each], *diffs[each], *batch_mean_, *batch_inv_std_,
                                     *scale_->value, *shift_->value, *total_, *diff_src[each],
                                     {tag.priority, tag.layer, each});
    then(each);
  }
}

std::string BatchnormBlock::in_one_task() const {
  return std::string("norm") + (addend_ != nullptr ? " sum" : "") + fused_name(activation_);
}

bool BatchnormBlock::absorb_sum(const Input& addend, Activation activation) {
  if (activation_ != Activation::linear) return false;
  activation_ = activation;
  addend_ = &addend;
  return true;
}

bool BatchnormBlock::leave_relu_gradient() {
  if (activation_of_gradient_ != Activation::relu) return false;
  activation_of_gradient_ = Activation::linear;
  return true;
}

}  // namespace omni
