// Messages of groups between ranks. Parameters are cut into pieces (piece_values()), each with an
// owner. To sum, all ranks send their values to the owner. The owner adds them up in a fixed order,
// makes the step, and sends the new values back. So ranks share the work of the steps, and each
// sends and receives every parameter about once, for any number of ranks. Asynchronous groups send
// each gradient to the owner, which steps as gradients arrive, or in turn, and sends the new values
// to that group. Where groups have models of their own, a piece has one owner for meetings. In each
// group of several ranks it has another owner, for that group's steps.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "codelets/elementwise/exchange.hpp"
#include "runtime/tasks/tensor_pool.hpp"
#include "scheduling/groups/compute_groups.hpp"

namespace omni {

class RankSums {
 public:
  explicit RankSums(ComputeGroups& groups);

  std::size_t bytes() const { return incoming_.bytes(); }
  Status allocate();
  // The step of a complete gradient, by the parameter's number in the net, behind its backward
  // tasks. False: it is this rank's alone, and the caller's.
  bool take(std::size_t number, int group, const Exchange& step, ExchangeOrder order, TaskTag tag);
  // How often the report of a group's update is counted down for its parameter here.
  int counted(std::size_t number, int group, const Param& own) const;
  // The step that a group of another rank takes at what is owned here.
  void serve(std::size_t number, int group, ExchangeArgs args, ExchangeOrder order, TaskTag tag);
  // Sends activations and labels to the merged phase, on the first rank; `back`: their gradients to
  // the group. `guest`: called on the first rank, else on a rank of the group.
  void cross(int group, const BatchSlot& slot, bool guest, bool back);
  BatchSlot& slot_of_guest(int group, std::uint64_t number) {
    return of_guests_[group][number % 2];
  }
  // The parts of the master whose counterparts this rank contributes to meetings, of its groups.
  std::vector<TensorPart> contributed(std::size_t number) const;
  // Adds up what the groups of all ranks contributed; `move` moves a part of the master.
  void meet(std::size_t number, const std::function<void(TensorPart part)>& move, TaskTag tag);

  // No task may be under way, in what follows. All ranks get the parameters, and the mean of the
  // ranks' running statistics.
  Status settle();
  // To the first rank: what updates and meetings remember, from its owners, and contributions.
  Status gather_memory();

 private:
  struct Senders {
    int owner = 0;  // to whom they send
    std::vector<int> ranks{};
    // Of the owner: of each sender, null for itself; for ranks elsewhere.
    std::vector<Tensor*> incoming{};
    Tensor* fresh = nullptr;
    bool has(int rank) const { return std::ranges::find(ranks, rank) != ranks.end(); }
  };
  struct Piece {
    TensorPart values;            // of the master
    int owner = 0, number = 0;    // of merged parameters the first rank is
    bool first_is_guest = false;  // in meetings, to which it sends what it has gathered
    // Of a shared one. The groups have one model: by group. Own ones: those of meetings, then of
    // this rank's group, if it has several ranks.
    std::vector<Senders> sets{};
  };
  using Pieces = std::span<const Piece>;
  // The first rank sends to meetings what it has gathered, or read from a checkpoint.
  struct Shared {
    std::vector<Piece> pieces;
    bool first_has_all = true;
    // Of each part of the tensors, which is one datum of StarPU: for its pieces' transfers
    // together.
    std::vector<Pieces> parts() const;
  };
  bool is_shared(const Param& param) const;
  bool is_summed(const Param& param, int group) const {
    return is_shared(param) && !(meets_ && members(group).count == 1);
  }
  RankRange members(int group) const;
  // The ranks that send a group's gradient: of what each computes whole, one.
  Senders senders(const Param& param, int owner, int group) const;
  void deal(Piece& piece, const Param& param, bool watched);
  int tag_of(const Piece& piece, std::size_t set, bool values) const;
  // Receives what others send from the set's sender `first` on, and adds it to `own`.
  void collect(const Piece& piece, std::size_t set, std::size_t first, TensorPart own,
               TaskTag tag) const;
  // Sends the pieces of a part that are owned here, and receives the others, which it counts.
  void spread(Pieces part, std::size_t set, const Tensor& values, RankRange among, TaskTag tag,
              UpdateReport* report = nullptr) const;
  // From one rank to another; nothing on any other rank, or without a tensor.
  void hand(const Tensor* tensor, const Piece& piece, int from, int to, int tag) const;

  ComputeGroups& groups_;
  std::vector<Param*> params_;
  bool meets_;     // groups have models of their own
  bool by_group_;  // groups share one model: the ranks of each are a set of senders; else all are
  std::size_t sets_;
  std::vector<std::size_t> owned_, stepped_;       // values, by rank, as they are dealt
  std::vector<Shared> params_of_ranks_;            // by parameter
  int crossing_tag_ = 0;                           // the first of cross()
  std::vector<std::vector<BatchSlot>> of_guests_;  // by group, then those under way
  TensorPool incoming_;
};

}  // namespace omni
