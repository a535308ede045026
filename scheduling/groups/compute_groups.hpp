// The compute groups of a training: a net each, and the workers it may use. Of several ranks each
// has the nets of some groups, and knows the others by number. Its first net holds its master
// copies of the parameters.
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

// With more groups gradients are too old to learn anything.
inline constexpr int kMostGroups = 64;

class RankSums;

class ComputeGroups {
 public:
  // `build` makes one net. It is called once per group of this rank, later with the slice size of
  // the first net; and for guests, with 0.
  using BuildNet =
      std::function<Result<std::unique_ptr<Net>>(const Sharing&, int slice, int group)>;
  // `like`: layout and sharing; by default replicas only with several groups. `ranks`: of each
  // group, ascending; none: all groups are here, wholly. `images`: per pass, by group; none: equal
  // for all.
  static Result<ComputeGroups> make(int count, Sharing like, const BuildNet& build,
                                    std::vector<RankRange> ranks = {},
                                    std::vector<int> images = {});
  explicit ComputeGroups(std::unique_ptr<Net> only);

  int count() const { return in_use_; }
  int most() const { return static_cast<int>(groups_.size()); }
  // Several ranks share each mini-batch of their group.
  RankRange ranks_of(int group) const { return ranks_.empty() ? RankRange() : ranks_[group]; }
  bool is_here(int group) const { return of(group).net != nullptr; }
  // On the first rank: the merged phase of a group that computes elsewhere, or there, too. Null:
  // there is none.
  Net* guest(int group) const { return of(group).guest.get(); }
  std::vector<int> here() const;  // of those in use
  std::uint64_t images_per_pass(int group) const {
    return images_.empty() ? net(group).slices().images_of_all() : images_[group];
  }
  bool on_several_ranks() const { return !ranks_.empty(); }
  // The first one here also stands for those elsewhere: all are built alike.
  Net& net() { return *groups_[first_]->net; }
  const Net& net() const { return *groups_[first_]->net; }
  Net& net(int group) const {
    const Group& own = of(group);
    return own.net ? *own.net : own.guest ? *own.guest : *groups_[first_]->net;
  }
  // The merged ones are those that the merged phase reads here.
  std::vector<Param*> params(int group) const;
  const WorkerSet& workers(int group) const { return of(group).workers; }

  // Until then every group may use all workers.
  void assign(const GroupLayout& layout);
  // From now on only the first `count` of them train, evenly spread over the workers; all start
  // from the masters. No task may be under way.
  void use(int count, Workers workers);

  // True when groups have a replicated phase; false when all layers are merged.
  bool has_replicated_phase() const { return count() > 1 && net().has(Net::Phase::replicated); }
  std::size_t tensor_bytes() const;
  std::vector<TensorSize> tensor_sizes() const;
  Status allocate();
  // Of the groups in use; all = master.
  void refresh_replicas() {
    for (const int group : here()) net(group).refresh_replicas();
  }
  // For strategies with own models: optimizer states of the groups, and tensors of meetings.
  void forget_updates();

  // Number of the parameter whose staleness is reported: the first replicated one, which a group
  // reads first and writes last. None: all trainable parameters are merged.
  std::optional<std::size_t> watched() const;
  // Messages between ranks; null with one rank.
  RankSums* sums = nullptr;

  // The net for evaluation: one whose passes hold the most images.
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
  std::size_t first_ = 0;  // here
  int in_use_ = 0;
};

}  // namespace omni
