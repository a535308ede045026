// RankSums submits the messages of groups between ranks. Parameters are cut into pieces
// (piece_values()), and each piece has a rank that owns it. To sum gradients, all ranks of a group
// send their values to the owner. The owner adds them up in a fixed order, makes the step, and
// sends the new values back. So ranks share the work of the steps. Each sends and receives every
// parameter about once, for any number of ranks. Asynchronous groups send each gradient to the
// owner, which makes steps as gradients arrive, or in turn. It sends the new values to that group.
// Where groups have models of their own, a piece has one owner for meetings, in which models are
// averaged. In each group of several ranks it has another owner for that group's steps.
//
// With a Coding, messages with gradients, contributions and new values are coded. A sender keeps
// what its messages leave out, and adds it to the next ones. An owner keeps the exact values, and
// sends how they differ from those that the other ranks know.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codelets/elementwise/coding.hpp"
#include "codelets/elementwise/exchange.hpp"
#include "runtime/communicator/transfers.hpp"
#include "runtime/tasks/tensor_pool.hpp"
#include "scheduling/groups/compute_groups.hpp"

namespace omni {

class RankSums {
 public:
  explicit RankSums(ComputeGroups& groups, const Coding& coding = {});

  std::size_t bytes() const { return incoming_.bytes(); }
  Status allocate();
  // Submits the step of a complete gradient, after its backward tasks. `number` is the parameter's
  // number in the net, and `own` the parameter of the group's net. Returns false if this rank needs
  // no values of other ranks; the caller then submits the step.
  bool take(std::size_t number, int group, const Param& own, const Exchange& step,
            ExchangeOrder order, TaskTag tag);
  // Returns how many times a parameter counts down the UpdateReport of a group's update on this
  // rank.
  int counted(std::size_t number, int group, const Param& own) const;
  // Submits the optimizer step of a group on other ranks, for the pieces of a parameter that this
  // rank owns. Does nothing if groups have models of their own. `number` is the parameter's number
  // in the net.
  void serve(std::size_t number, int group, ExchangeArgs args, ExchangeOrder order, TaskTag tag);
  // Submits the transfer of activations and labels to the merged phase on the first rank. With
  // `back` it transfers the activations' gradients to the group. Both sides call cross(): the first
  // rank with `guest`, each rank of the group without.
  void cross(int group, const BatchSlot& slot, bool guest, bool back);
  BatchSlot& slot_of_guest(int group, std::uint64_t number) {
    return of_guests_[group][number % 2];
  }
  // Calls use(part, exact) for the parts of a parameter that this rank contributes to meetings for
  // its groups. `exact` has a part's exact values of the group's model; null: they are the replica.
  void for_each_contributed(std::size_t number,
                            const std::function<void(TensorPart, const Tensor*)>& use) const;
  // Keeps the exact values of models equal to replicas, to which master copies were published.
  void publish_exact(std::size_t number, float keeps, TaskTag tag) const;
  // Adds up the contributions of the groups of all ranks to a meeting. `move` then moves a part of
  // the parameter by their sum. `centre` has the exact values of the part: the master copy, or a
  // tensor of only these values.
  using MovePart = std::function<void(const Tensor& centre, TensorPart part)>;
  void meet(std::size_t number, const MovePart& move, TaskTag tag);

  // No task may be under way during calls of the functions below.

  // Gives all ranks the owners' parameters, and the mean of the ranks' running statistics.
  Status settle();
  // Sends the first rank the state of the optimizer and of meetings, and the groups' contributions
  // to meetings; if messages are coded, each rank keeps its own. The optimizer state of a group
  // with a model of its own goes to that group's first rank.
  Status gather_memory();
  // Gives all ranks the owners' optimizer state, so that other groups may be made from it. Where
  // groups have models of their own, nothing is shared: new groups begin without such a state.
  // After an error that only this rank has, the job ends.
  Status share_memory();

  // Unsent values are those that coded messages have left out so far, and exact values of owners.
  bool is_coded() const { return coding_.kind != Coding::Kind::whole; }
  // Returns the number of unsent values of a rank, known since the last gather_memory().
  std::size_t unsent_of(int rank) const { return unsent_of_[rank]; }
  std::vector<float> unsent() const;
  // Restores the unsent values of this rank. Returns false, and changes nothing, if their number is
  // another one.
  bool restore_unsent(std::span<const float> values);
  // Starts anew from parameters that all ranks have: nothing is unsent.
  void forget_unsent();
  // Calls visit(group, parameter's number, values, copy) for each copy of a group's values that
  // this rank keeps, because it sends that group differences from them.
  using VisitKnown = std::function<void(int, std::size_t, TensorPart, const Tensor&)>;
  void for_each_known(const VisitKnown& visit) const;

 private:
  // An Addend is one of the sums that a rank sends.
  struct Addend {
    int rank = 0;
    Leaves of{};                 // of the tree in which the owner adds up gradients
    Tensor* incoming = nullptr;  // on the owner: for the values of another rank; else null
  };
  // A Coded has the tensors that this rank needs for the coded messages of a piece's senders.
  struct Coded {
    // A sender codes its values into `message`; `left` are the values that its messages left out.
    // Null: it sends its values whole. A guest does, as it sends contributions only once.
    Tensor *message = nullptr, *left = nullptr;
    std::vector<Tensor*> incoming{};  // on the owner: messages, by sender; null: not coded
    // `change` is the message by which the new values return. The owner codes into it how `exact`
    // differs from the values that the receivers know; an owner outside the group has these in
    // `known`.
    Tensor *change = nullptr, *exact = nullptr, *known = nullptr;
  };
  struct Senders {
    int owner = 0;  // the rank to which they send
    std::vector<int> ranks{};
    std::vector<Addend> addends{};  // in the order of the ranks
    int leaves = 0;
    Tensor* fresh = nullptr;  // on an owner outside the group: its new values; else null
    std::optional<Coded> coded{};
    bool has(int rank) const { return std::ranges::find(ranks, rank) != ranks.end(); }
  };
  struct Piece {
    TensorPart values;            // of the master
    int owner = 0, number = 0;    // `number` counts all pieces, for message tags
    bool first_is_guest = false;  // the first rank only sends gathered contributions to meetings
    // If groups share one model, sets[g] are the senders of group g. If they have models of their
    // own, sets[0] are the senders of meetings; sets[1] are those of this rank's group if it has
    // several ranks. If `sets` is empty, ranks do not share the piece.
    std::vector<Senders> sets{};
  };
  using Pieces = std::span<const Piece>;
  // Shared has the pieces of one parameter.
  struct Shared {
    std::vector<Piece> pieces;
    // True: the first rank has all contributions to meetings, gathered or read from a checkpoint,
    // and sends them.
    bool first_has_all = true;
    // Returns the pieces of each part of the parameter's tensors. A part is one datum of StarPU, so
    // its pieces are transferred together.
    std::vector<Pieces> parts() const;
  };
  bool is_shared(const Param& param) const;
  bool is_summed(const Param& param, int group) const {
    return is_shared(param) && !(meets_ && members(group).count == 1);
  }
  RankRange members(int group) const;
  // Returns the ranks that send a group's gradient. It is only one rank if each rank of the group
  // computes the whole gradient.
  Senders senders(const Param& param, int owner, int group) const;
  void deal(Piece& piece, const Param& param, bool watched);
  RankRange audience(std::size_t set) const;  // the ranks to which new values return
  void declare_coded(const std::string& name, const Piece& piece, std::size_t set, Senders& from);
  void for_each_coded(const auto& visit) const;
  std::vector<const Tensor*> unsent_tensors() const;
  std::size_t unsent_count() const;
  int tag_of(const Piece& piece, std::size_t set, bool values) const;
  // Sends the values of this rank to the owner of the piece: at once if they are coded, otherwise
  // with `leaving`.
  void contribute(const Piece& piece, std::size_t set, TensorPart own, bool clears,
                  std::vector<Transfer>& leaving, TaskTag tag) const;
  // Receives the addends of other ranks, from index `first` on, and adds them up with those of this
  // rank, `own`. Then the total is in the first of `own`, and the others are 0. If this rank has
  // none, the total is in the first addend.
  void collect(const Piece& piece, std::size_t set, std::size_t first,
               const std::vector<TensorPart>& own, TaskTag tag) const;
  // Sends the pieces of a part that this rank owns, and receives its other pieces. `report` counts
  // the received ones. If it `codes`, pieces are coded where that makes them smaller.
  void spread(Pieces part, std::size_t set, const Tensor& values, RankRange among, TaskTag tag,
              bool codes = false, UpdateReport* report = nullptr) const;
  void spread_change(const Senders& from, TensorPart own, const std::vector<int>& peers,
                     int its_tag, TaskTag tag, UpdateReport* report) const;
  // Makes the step of a piece that this rank owns.
  void step_owned(const Piece& piece, std::size_t set, const Exchange& step, ExchangeOrder order,
                  TaskTag tag) const;
  // Transfers a piece from one rank to another. Does nothing on other ranks, or if `tensor` is
  // null.
  void hand(const Tensor* tensor, const Piece& piece, int from, int to, int tag) const;

  ComputeGroups& groups_;
  Coding coding_;
  std::vector<Param*> params_;
  bool meets_;     // groups have models of their own
  bool by_group_;  // several groups share one model: each group has a set of senders
  std::size_t sets_;
  std::vector<int> leaves_;                        // by group: of the tree of its slices' gradients
  std::vector<std::size_t> owned_, stepped_;       // by rank: values that it owns, that it steps
  std::vector<Shared> params_of_ranks_;            // by parameter
  int crossing_tag_ = 0;                           // the first message tag of cross()
  std::vector<std::vector<BatchSlot>> of_guests_;  // by group, then by mini-batch under way
  TensorPool incoming_;
  std::vector<std::size_t> unsent_of_;  // by rank
};

}  // namespace omni
