// DividedNeurons are the neurons of a connected layer, divided among the ranks that share a
// mini-batch. Each rank computes some neurons for the images of all ranks. Inputs, outputs and
// their gradients are sent; weights and their gradients are not. If there are too many ranks, only
// the first ones compute.
#pragma once

#include <span>
#include <vector>

#include "codelets/dense/column_parts.hpp"
#include "layers/layer_builder.hpp"

namespace omni {

class DividedNeurons {
 public:
  DividedNeurons(LayerBuilder& builder, int inputs, int outputs, const ConnectedBlocks& blocks,
                 bool wants_gradient);

  // first_block() and blocks() return which blocks of neurons this rank computes. The images are
  // those of all ranks.
  std::size_t first_block() const { return static_cast<std::size_t>(rank_ * per_rank_); }
  int blocks() const { return computes_ ? by_block(0).parts() : 0; }
  int images() const { return slices_.images_of_all(); }
  const Tensor& src() const { return *src_; }  // the blocks' inputs

  // Functions with the argument `slice` are called for this rank's slices in order, other functions
  // once for all slices. `blocks` are those of this rank.
  void bring_inputs(const Tensor& src, int slice, TaskTag tag) const;
  void bring_outputs(std::span<Tensor* const> dst, TaskTag tag) const;
  // In evaluation each rank computes the blocks of all ranks, for its own images. gather_outputs()
  // joins the blocks of each rank, and join_outputs() then joins the ranks' outputs. One task has
  // not enough buffers for all blocks.
  void gather_outputs(int slice, std::span<Tensor* const> all_blocks, TaskTag tag) const;
  void join_outputs(int slice, const Tensor& dst, TaskTag tag) const;
  void bring_gradients(const Tensor& diff_dst, int slice, std::span<Tensor* const> blocks,
                       TaskTag tag) const;
  void bring_shares(std::span<Tensor* const> diff_src, TaskTag tag) const;
  void sum_shares(int slice, const Tensor& diff_src, TaskTag tag) const;

 private:
  // Matrices has tensors by slice of the mini-batch. A slice of this rank has one tensor for each
  // rank that computes part of it. A slice of another rank has one tensor for what this rank
  // computes of it, if anything.
  using Matrices = std::vector<std::vector<Tensor*>>;
  enum class Message { inputs, outputs, gradients, shares };
  // Declares matrices with `columns` columns; 0 means one column for each neuron of the rank.
  Matrices matrices(LayerBuilder& builder, const char* name, int columns) const;
  std::size_t own(int slice) const { return static_cast<std::size_t>(slices_.first + slice); }
  // All ranks submit the messages of all slices in the same order. With its first and last own
  // slice a rank also submits the messages of other ranks' slices before or after it. So no rank
  // waits for a message that another rank submits later.
  std::size_t first_with(int slice) const { return slice == 0 ? 0 : own(slice); }
  std::size_t end_with(int slice) const {
    return slice + 1 < slices_.count() ? own(slice) + 1 : slices_.owners.size();
  }
  bool is_own(std::size_t at) const { return slices_.owners[at] == rank_; }
  Tensor& computed(const Matrices& of, std::size_t at) const {
    return *of[at][is_own(at) ? rank_ : 0];
  }
  int columns_of(int rank) const { return by_rank({}).width_of(rank); }
  // These functions return how the neurons of all ranks, or the blocks of this rank, lie in the
  // rows of a slice.
  ColumnPartsArgs by_rank(std::size_t at) const;
  ColumnPartsArgs by_block(std::size_t at) const;
  // Submits transfers of a tensor. Transfers with the same tensor `turn` begin in the order of
  // their submission.
  void carry(bool sends, const Tensor& tensor, std::vector<int> peers, Message what, std::size_t at,
             TaskTag tag, const Tensor* turn = nullptr) const;
  // Sends or receives the matrices of a slice. The other rank is the one that has the images, or
  // those that compute.
  void carry_all(const Matrices& of, bool to_owner, Message what, std::size_t at,
                 TaskTag tag) const;

  const Slices& slices_;
  int rank_, inputs_, outputs_, width_, per_rank_;
  int computing_;  // number of ranks, from the first on, that compute
  bool computes_;  // whether this rank is one of them
  std::vector<int> first_rows_;
  Tensor* src_ = nullptr;
  std::vector<Tensor*> inputs_of_;  // by slice; those of other ranks
  std::vector<Tensor*> turns_;      // by own slice; the tensor of inputs may change by mini-batch
  Matrices outputs_of_, gradients_of_, shares_of_;
};

}  // namespace omni
