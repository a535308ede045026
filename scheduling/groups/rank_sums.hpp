// Messages of groups between ranks. Every part of a parameter has an owner. To sum, all ranks send
// their values to the owner. The owner adds them up in a fixed order, makes the step, and sends the
// new values back. So ranks share the work of the steps, and each sends and receives every
// parameter about once, for any number of ranks. Asynchronous groups send each gradient to the
// owner, which steps as gradients arrive, or in turn, and sends the new values to that group.
#pragma once

#include <functional>
#include <vector>

#include "codelets/elementwise/exchange.hpp"
#include "scheduling/groups/compute_groups.hpp"

namespace omni {

class RankSums {
 public:
  explicit RankSums(ComputeGroups& groups);

  std::size_t bytes() const { return incoming_.bytes(); }
  Status allocate() { return incoming_.allocate(); }
  // The step of a complete gradient, by the parameter's number in the net, behind its backward
  // tasks. False: it is this rank's alone, and the caller's.
  bool take(std::size_t number, int group, const Exchange& step, ExchangeOrder order, TaskTag tag);
  // The step that a group of another rank takes at what is owned here.
  void serve(std::size_t number, int group, ExchangeArgs args, ExchangeOrder order, TaskTag tag);
  // Sends activations and labels to the merged phase, on the first rank; `back`: their gradients to
  // the group. `guest`: called on the first rank, else on a rank of the group.
  void cross(int group, const BatchSlot& slot, bool guest, bool back);
  BatchSlot& slot_of_guest(int group, std::uint64_t number);
  // Adds up what the groups of all ranks contributed; `move` moves a part of the master.
  void meet(std::size_t number, const std::function<void(std::size_t part)>& move, TaskTag tag);

  // No task may be under way, in what follows. All ranks get the parameters, and the mean of the
  // ranks' running statistics.
  Status settle();
  // To the first rank: what updates and meetings remember, from its owners, and contributions.
  Status gather_memory();

 private:
  struct Part {
    int owner = 0, number = 0;  // of merged parameters the first rank is
    // Of the owner, by set of senders: of each sender, null for itself; for ranks elsewhere.
    std::vector<std::vector<Tensor*>> incoming{};
    std::vector<Tensor*> fresh{};
  };
  struct Sum {
    const Tensor& values;
    bool clears = true, in_pairs = false;
    const std::function<void(std::size_t part)>& step;
    std::function<void()> arrived{};
  };
  bool is_shared(const Param& param) const;
  // The ranks that send a gradient, of a group, or all: of what each computes whole, one.
  RankRange senders(const Param& param, const Part& part, int group) const;
  int tag_of(const Part& part, int group, bool values) const;
  void submit(std::size_t number, const Sum& sum, TaskTag tag);
  // Receives what others send, and adds it to `own`.
  void collect(const Part& part, RankRange from, int group, TensorPart own, bool in_pairs,
               TaskTag tag) const;
  static void add_in_turn(const Part& part, TensorPart own, TaskTag tag);

  ComputeGroups& groups_;
  std::vector<Param*> params_;
  bool by_group_;  // groups share one model: the ranks of each are a set of senders; else all are
  std::vector<std::vector<Part>> parts_;           // by parameter
  int crossing_tag_ = 0;                           // the first of cross()
  std::vector<std::vector<BatchSlot>> of_guests_;  // by group, then those under way
  TensorPool incoming_;
};

}  // namespace omni
