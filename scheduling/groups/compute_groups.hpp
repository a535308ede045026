// ComputeGroups are the compute groups of a training. Each group has a net and the workers that it
// may use. With several ranks, each rank has the nets of some groups and knows the others by
// number. The rank's first net holds its master copies of the parameters.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "layers/net.hpp"
#include "runtime/tasks/tensor_pool.hpp"
#include "runtime/tasks/worker_set.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {

// With more groups gradients are too stale to learn from.
inline constexpr int kMostGroups = 64;

class RankSums;

class ComputeGroups {
 public:
  // Makes one net. It is called for each group of this rank; the first call has slice 0, later ones
  // the slice size of the first net. For guests (see guest()) it is called with slice 0.
  using BuildNet =
      std::function<Result<std::unique_ptr<Net>>(const Sharing&, int slice, int group)>;
  // `like` says how nets share parameters; several groups have replicas in any case. `ranks` are by
  // group, ascending; empty: this rank has all groups. `images` are those per pass, by group;
  // empty: equal for all.
  static Result<ComputeGroups> make(int count, Sharing like, const BuildNet& build,
                                    std::vector<RankRange> ranks = {},
                                    std::vector<int> images = {});
  explicit ComputeGroups(std::unique_ptr<Net> only);

  int count() const { return in_use_; }                          // groups in use
  int most() const { return static_cast<int>(groups_.size()); }  // groups that use() allows
  // If a group has several ranks, they share each of its mini-batches.
  RankRange ranks_of(int group) const { return ranks_.empty() ? RankRange() : ranks_[group]; }
  bool is_here(int group) const { return of(group).net != nullptr; }
  // Returns a net with which the first rank computes the merged phase of a group that is also, or
  // only, on other ranks. Null: there is none.
  Net* guest(int group) const { return of(group).guest.get(); }
  std::vector<int> here() const;  // groups in use that are on this rank
  std::uint64_t images_per_pass(int group) const {
    return images_.empty() ? net(group).slices().images_of_all() : images_[group];
  }
  bool on_several_ranks() const { return !ranks_.empty(); }
  // Returns the first net of this rank. It also stands for nets elsewhere, as all are built alike.
  Net& net() { return *groups_[first_]->net; }
  const Net& net() const { return *groups_[first_]->net; }
  Net& net(int group) const {
    const Group& own = of(group);
    return own.net ? *own.net : own.guest ? *own.guest : *groups_[first_]->net;
  }
  // Returns the group's parameters. Merged ones are those of the guest, if there is one.
  std::vector<Param*> params(int group) const;
  const WorkerSet& workers(int group) const { return of(group).workers; }

  // Assigns workers to groups. Before the call every group may use all workers.
  void assign(const GroupLayout& layout);
  // From now on only the first `count` groups train, evenly spread over the workers. All of them
  // start from the masters. No task may be under way.
  void use(int count, Workers workers);

  // True when groups have a replicated phase; false when all layers are merged.
  bool has_replicated_phase() const { return count() > 1 && net().has(Net::Phase::replicated); }
  std::size_t tensor_bytes() const;
  std::vector<TensorSize> tensor_sizes() const;
  Status allocate();
  // Copies the masters to the replicas of the groups in use.
  void refresh_replicas() {
    for (const int group : here()) net(group).refresh_replicas();
  }
  // Resets the optimizer states of groups with models of their own, and the tensors of meetings.
  void forget_updates();

  // Returns the number of the parameter whose staleness is reported: the first replicated one,
  // which a group reads first and writes last. None: all trainable parameters are merged.
  std::optional<std::size_t> watched() const;
  // `sums` submits the messages between ranks; null with one rank.
  RankSums* sums = nullptr;

  // Returns the net for evaluation: one whose passes have the most images.
  Net& evaluating_net();

 private:
  struct Group {
    std::unique_ptr<Net> net, guest{};
    WorkerSet workers{};
  };
  ComputeGroups() = default;
  const Group& of(int group) const { return *groups_[group]; }
  std::vector<Net*> nets() const;

  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<RankRange> ranks_;
  std::vector<int> images_;
  std::size_t first_ = 0;  // the first group of this rank
  int in_use_ = 0;
};

}  // namespace omni
