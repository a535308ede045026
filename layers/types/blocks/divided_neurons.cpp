#include "layers/types/blocks/divided_neurons.hpp"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "runtime/communicator/transfers.hpp"

namespace omni {

DividedNeurons::DividedNeurons(LayerBuilder& builder, int inputs, int outputs,
                               const ConnectedBlocks& blocks, bool wants_gradient)
    : slices_(builder.slices()),
      rank_(slices_.rank),
      inputs_(inputs),
      outputs_(outputs),
      width_(blocks.width),
      per_rank_(blocks.per_rank),
      computing_(by_rank(0).parts()),
      computes_(rank_ < computing_),
      first_rows_(slices_.all_sizes.size()) {
  if (computes_) src_ = &builder.matrix("inputs", images(), inputs);
  std::exclusive_scan(slices_.all_sizes.begin(), slices_.all_sizes.end(), first_rows_.begin(), 0);
  for (std::size_t at = 0; at < slices_.all_sizes.size(); ++at)
    inputs_of_.push_back(computes_ && !is_own(at)
                             ? &builder.matrix(fmt::format("inputs.{}", at), slices_.all_sizes[at],
                                               inputs, builder.values())
                             : nullptr);
  for (int slice = 0; slice < slices_.count(); ++slice)
    turns_.push_back(&builder.matrix(fmt::format("turn.{}", slice), 1, 1));
  outputs_of_ = matrices(builder, "outputs", 0);
  gradients_of_ = matrices(builder, "outputs.diff", 0);
  if (wants_gradient) shares_of_ = matrices(builder, "share", inputs);
}

DividedNeurons::Matrices DividedNeurons::matrices(LayerBuilder& builder, const char* name,
                                                  int columns) const {
  Matrices all;
  for (std::size_t at = 0; at < slices_.all_sizes.size(); ++at) {
    std::vector<Tensor*>& of_slice = all.emplace_back();
    for (int rank = 0; rank < computing_; ++rank)
      if (is_own(at) || rank == rank_)
        of_slice.push_back(&builder.matrix(fmt::format("{}.{}.{}", name, at, rank),
                                           slices_.all_sizes[at],
                                           columns > 0 ? columns : columns_of(rank)));
  }
  return all;
}

ColumnPartsArgs DividedNeurons::by_rank(std::size_t at) const {
  return {.rows = slices_.all_sizes[at], .columns = outputs_, .width = width_ * per_rank_};
}

ColumnPartsArgs DividedNeurons::by_block(std::size_t at) const {
  return {.rows = slices_.all_sizes[at],
          .first_row = first_rows_[at],
          .columns = columns_of(rank_),
          .width = width_};
}

void DividedNeurons::carry(bool sends, const Tensor& tensor, std::vector<int> peers, Message what,
                           std::size_t at, TaskTag tag, const Tensor* turn) const {
  for (int& peer : peers)
    peer += ranks::rank() - rank_;  // from numbers among the ranks that share the mini-batch
  std::vector<Transfer> transfers{
      {sends ? Transfer::Kind::send : Transfer::Kind::receive, tensor, std::move(peers),
       layer_tag(tag.layer, static_cast<int>(what), static_cast<int>(at))}};
  if (turn != nullptr) transfers.push_back({Transfer::Kind::send_and_clear, *turn, {}, 0});
  submit_transfers(std::move(transfers), tag);
}

void DividedNeurons::carry_all(const Matrices& of, bool to_owner, Message what, std::size_t at,
                               TaskTag tag) const {
  if (!is_own(at)) {
    if (computes_) carry(to_owner, *of[at].front(), {slices_.owners[at]}, what, at, tag);
    return;
  }
  for (int rank = 0; rank < computing_; ++rank)
    if (rank != rank_)
      carry(!to_owner, *of[at][static_cast<std::size_t>(rank)], {rank}, what, at, tag);
}

void DividedNeurons::bring_inputs(const Tensor& src, int slice, TaskTag tag) const {
  std::vector<int> others;
  for (int rank = 0; rank < computing_; ++rank)
    if (rank != rank_) others.push_back(rank);
  for (std::size_t at = first_with(slice); at < end_with(slice); ++at) {
    if (!computes_ && !is_own(at)) continue;
    const Tensor& rows = is_own(at) ? src : *inputs_of_[at];
    if (is_own(at))
      carry(true, rows, others, Message::inputs, at, tag, turns_[at - own(0)]);
    else
      carry(false, rows, {slices_.owners[at]}, Message::inputs, at, tag);
    if (computes_)
      submit_split_columns({slices_.all_sizes[at], first_rows_[at], inputs_, inputs_}, rows,
                           {&src_, 1}, tag);
  }
}

void DividedNeurons::bring_outputs(std::span<Tensor* const> dst, TaskTag tag) const {
  for (std::size_t at = 0; at < first_rows_.size(); ++at) {
    if (computes_) submit_join_columns(by_block(at), dst, computed(outputs_of_, at), tag);
    carry_all(outputs_of_, true, Message::outputs, at, tag);
  }
}

void DividedNeurons::gather_outputs(int slice, std::span<Tensor* const> all_blocks,
                                    TaskTag tag) const {
  for (int rank = 0; rank < computing_; ++rank) {
    const ColumnPartsArgs columns{.rows = slices_.sizes[slice],
                                  .first_row = slices_.offsets[slice],
                                  .columns = columns_of(rank),
                                  .width = width_};
    submit_join_columns(columns, all_blocks.subspan(rank * per_rank_, columns.parts()),
                        *outputs_of_[own(slice)][rank], tag);
  }
}

void DividedNeurons::join_outputs(int slice, const Tensor& dst, TaskTag tag) const {
  submit_join_columns(by_rank(own(slice)), outputs_of_[own(slice)], dst, tag);
}

void DividedNeurons::bring_gradients(const Tensor& diff_dst, int slice,
                                     std::span<Tensor* const> blocks, TaskTag tag) const {
  for (std::size_t at = first_with(slice); at < end_with(slice); ++at) {
    if (is_own(at)) submit_split_columns(by_rank(at), diff_dst, gradients_of_[at], tag);
    carry_all(gradients_of_, false, Message::gradients, at, tag);
    if (computes_) submit_split_columns(by_block(at), computed(gradients_of_, at), blocks, tag);
  }
}

void DividedNeurons::bring_shares(std::span<Tensor* const> diff_src, TaskTag tag) const {
  for (std::size_t at = 0; at < first_rows_.size(); ++at) {
    if (computes_)
      submit_sum_parts(
          {.rows = slices_.all_sizes[at], .first_row = first_rows_[at], .columns = inputs_},
          diff_src, computed(shares_of_, at), tag);
    carry_all(shares_of_, true, Message::shares, at, tag);
  }
}

void DividedNeurons::sum_shares(int slice, const Tensor& diff_src, TaskTag tag) const {
  submit_sum_parts({.rows = slices_.all_sizes[own(slice)], .columns = inputs_},
                   shares_of_[own(slice)], diff_src, tag);
}

}  // namespace omni
