// ComputeGroups are the compute groups of a training. Each group has a net and the workers that it
// may use. If groups are divided over ranks, each rank has the nets of some groups and knows the
// others only by number. The rank's first net holds its master copies of the parameters.
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

// With more groups than this, gradients are too stale to learn from.
inline constexpr int kMostGroups = 64;

class RankSums;

class ComputeGroups {
 public:
  // BuildNet makes the net of a group of this rank. For the first net `slice` is 0, for later ones
  // the slice size of the first net. For guests (see guest()) `slice` is 0.
  using BuildNet =
      std::function<Result<std::unique_ptr<Net>>(const Sharing&, int slice, int group)>;
  // `like` says how nets share parameters; several groups have replicas in any case. `ranks` are
  // the ranks of each group, ascending. If `ranks` is empty, every rank has all groups and computes
  // a part of each mini-batch. `images` are the images per pass of each group; if it is empty, all
  // groups have the same number. `weights` are GroupsPlan::weights.
  static Result<ComputeGroups> make(int count, Sharing like, const BuildNet& build,
                                    std::vector<RankRange> ranks = {}, std::vector<int> images = {},
                                    std::vector<int> weights = {});
  explicit ComputeGroups(std::unique_ptr<Net> only);

  int count() const { return in_use_; }  // groups in use
  int most() const { return most_; }     // the largest number that a training may use
  void allow(int most) { most_ = most; }
  // Returns the ranks of a group, which share each of its mini-batches. Call it only if
  // on_several_ranks(); otherwise all ranks share them.
  RankRange ranks_of(int group) const { return ranks_.empty() ? RankRange() : ranks_[group]; }
  // Returns RankShares::weights of these ranks, or of all ranks.
  std::vector<int> weights_of(const RankRange& of) const;
  const std::vector<RankRange>& ranks() const { return ranks_; }  // by group, as given to make()
  bool is_here(int group) const { return of(group).net != nullptr; }
  // A guest is a net on the first rank for the merged phase of a group that is also, or only, on
  // other ranks. Returns null if the group has no guest.
  Net* guest(int group) const { return of(group).guest.get(); }
  std::vector<int> here() const;  // groups in use that are on this rank
  std::uint64_t images_per_pass(int group) const {
    return images_.empty() ? net(group).slices().images_of_all() : images_[group];
  }
  // Returns true if groups are divided over ranks, and false if every rank has all groups.
  bool on_several_ranks() const { return !ranks_.empty(); }
  // Returns the first net of this rank. It also stands for nets on other ranks, as all nets are
  // built alike.
  Net& net() { return *groups_[first_]->net; }
  const Net& net() const { return *groups_[first_]->net; }
  Net& net(int group) const {
    const Group& own = of(group);
    return own.net ? *own.net : own.guest ? *own.guest : *groups_[first_]->net;
  }
  // Returns the group's parameters. The merged ones are the guest's if there is a guest, otherwise
  // the net's.
  std::vector<Param*> params(int group) const;
  const WorkerSet& workers(int group) const { return of(group).workers; }

  // Assigns workers to groups. Before the first call every group may use all workers.
  void assign(const GroupLayout& layout);
  // From now on only the first `count` groups train, evenly spread over the workers. All of them
  // start from the master copies. No task may be under way. Where several ranks train together,
  // Training::use_groups() makes other groups instead.
  void use(int count, Workers workers);

  // Returns true if there are several groups with a replicated phase, and false if all layers are
  // merged.
  bool has_replicated_phase() const { return count() > 1 && net().has(Net::Phase::replicated); }
  std::size_t tensor_bytes() const;
  std::vector<TensorSize> tensor_sizes() const;
  Status allocate();
  // Copies the master copies of parameters to the replicas of the groups in use.
  void refresh_replicas();
  // Sets to 0 the optimizer states of groups with models of their own, and the tensors for
  // meetings, in which models are averaged. Groups that share a model keep their states.
  void forget_updates();
  // Returns copies of the master copies and of the optimizer state that goes with them, to
  // begin_from() them in other groups of the same net. There, groups with models of their own
  // have no optimizer state.
  std::vector<std::vector<float>> shared_values() const;
  void begin_from(std::vector<std::vector<float>> values);

  // Returns the number of the parameter whose staleness is reported. It is the first trainable one
  // that is replicated, which a group reads first and writes last. Returns nothing if all trainable
  // parameters are merged.
  std::optional<std::size_t> watched() const;
  // `sums` submits the messages between ranks; it is null with one rank.
  RankSums* sums = nullptr;

  // Returns the net with which evaluations run: of this rank's nets, the one whose passes have the
  // most images.
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
  std::vector<int> images_, weights_;
  std::size_t first_ = 0;  // the first group of this rank
  int in_use_ = 0, most_ = 0;
};

}  // namespace omni
