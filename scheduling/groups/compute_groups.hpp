// The compute groups of a training: a net each, and the workers it may use. The first group's net
// holds the master copies of the parameters.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "layers/net.hpp"
#include "runtime/tasks/submission.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {

// With more groups gradients are too old to learn anything.
inline constexpr int kMostGroups = 64;

class ComputeGroups {
 public:
  // `build` makes one net. It is called once per group, later with the slice size of the first net.
  using BuildNet =
      std::function<Result<std::unique_ptr<Net>>(const Sharing&, int slice, int group)>;
  // `like`: layout and sharing; by default replicas only with several groups.
  static Result<ComputeGroups> make(int count, Sharing like, const BuildNet& build);
  explicit ComputeGroups(std::unique_ptr<Net> only);

  int count() const { return in_use_; }
  int most() const { return static_cast<int>(groups_.size()); }
  Net& net(int group = 0) { return *groups_[static_cast<std::size_t>(group)]->net; }
  const Net& net(int group = 0) const { return *groups_[static_cast<std::size_t>(group)]->net; }
  const WorkerSet& workers(int group) const {
    return groups_[static_cast<std::size_t>(group)]->workers;
  }

  // Until then every group may use all workers.
  void assign(const GroupLayout& layout);
  // From now on only the first `count` of them train, evenly spread over the workers; all start
  // from the masters. No task may be under way.
  void use(int count, Workers workers);

  // True when groups have a replicated phase; false when all layers are merged.
  bool has_replicated_phase() const;
  std::size_t tensor_bytes() const;
  std::vector<TensorSize> tensor_sizes() const;
  Status allocate();
  void refresh_replicas();  // of the groups in use; all = master
  // For strategies with own models: optimizer states of the groups, and tensors of meetings.
  void forget_updates();

  // Number of the parameter whose staleness is reported: the first replicated one, which a group
  // reads first and writes last. None: all trainable parameters are merged.
  std::optional<std::size_t> watched() const;
  // The net for evaluation: one whose passes hold the most images.
  Net& evaluating_net();

 private:
  struct Group {
    std::unique_ptr<Net> net;
    WorkerSet workers;
  };
  ComputeGroups() = default;
  void add(std::unique_ptr<Net> net);

  std::vector<std::unique_ptr<Group>> groups_;
  int in_use_ = 0;
};

}  // namespace omni
