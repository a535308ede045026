// The neurons of a connected layer, divided among the ranks that share a mini-batch: each rank
// computes some of them for the images of all ranks. Inputs, outputs and their gradients travel;
// weights and gradients of weights do not. Where there are too many ranks, only the first compute.
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

  // Of this rank: its blocks, and their images, which are those of all ranks.
  std::size_t first_block() const { return static_cast<std::size_t>(rank_ * per_rank_); }
  int blocks() const { return computes_ ? by_block(0).parts() : 0; }
  int images() const { return slices_.images_of_all(); }
  const Tensor& src() const { return *src_; }  // their inputs

  // Each is called for one slice of this rank after another, or once for all. The blocks are those
  // of this rank.
  void bring_inputs(const Tensor& src, int slice, TaskTag tag) const;
  void bring_outputs(std::span<Tensor* const> dst, TaskTag tag) const;
  // In evaluation each rank has the blocks of all, of its own images. A task has not enough buffers
  // to join them at once.
  void gather_outputs(int slice, std::span<Tensor* const> all_blocks, TaskTag tag) const;
  void join_outputs(int slice, const Tensor& dst, TaskTag tag) const;
  void bring_gradients(const Tensor& diff_dst, int slice, std::span<Tensor* const> blocks,
                       TaskTag tag) const;
  void bring_shares(std::span<Tensor* const> diff_src, TaskTag tag) const;
  void sum_shares(int slice, const Tensor& diff_src, TaskTag tag) const;

 private:
  // By slice of the mini-batch. Of a slice of this rank: what each rank computes of it, by rank. Of
  // another one: what this rank computes of it, if anything.
  using Matrices = std::vector<std::vector<Tensor*>>;
  enum class Message { inputs, outputs, gradients, shares };
  // columns 0: as many as each rank has neurons.
  Matrices matrices(LayerBuilder& builder, const char* name, int columns) const;
  std::size_t own(int slice) const { return static_cast<std::size_t>(slices_.first + slice); }
  // All ranks submit the messages of all slices in one order, a slice with its neighbours of other
  // ranks: none waits for a message that another rank submits later.
  std::size_t first_with(int slice) const { return slice == 0 ? 0 : own(slice); }
  std::size_t end_with(int slice) const {
    return slice + 1 < slices_.count() ? own(slice) + 1 : slices_.owners.size();
  }
  bool is_own(std::size_t at) const { return slices_.owners[at] == rank_; }
  Tensor& computed(const Matrices& of, std::size_t at) const {
    return *of[at][is_own(at) ? rank_ : 0];
  }
  int columns_of(int rank) const { return by_rank({}).width_of(rank); }
  // How the ranks' neurons, and the blocks of this rank, lie in the rows of a slice.
  ColumnPartsArgs by_rank(std::size_t at) const;
  ColumnPartsArgs by_block(std::size_t at) const;
  // `turn`: what transfers that must begin in order have in common.
  void carry(bool sends, const Tensor& tensor, std::vector<int> peers, Message what, std::size_t at,
             TaskTag tag, const Tensor* turn = nullptr) const;
  // From or to the rank that has the images.
  void carry_all(const Matrices& of, bool to_owner, Message what, std::size_t at,
                 TaskTag tag) const;

  const Slices& slices_;
  int rank_, inputs_, outputs_, width_, per_rank_;
  int computing_;  // so many first ranks
  bool computes_;  // this is one of them
  std::vector<int> first_rows_;
  Tensor* src_ = nullptr;
  std::vector<Tensor*> inputs_of_;  // by slice, of other ranks
  std::vector<Tensor*> turns_;      // by own slice: inputs may be a tensor of each mini-batch
  Matrices outputs_of_, gradients_of_, shares_of_;
};

}  // namespace omni
