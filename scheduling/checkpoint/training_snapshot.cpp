#include "scheduling/checkpoint/training_snapshot.hpp"

#include <algorithm>

#include "runtime/tasks/host_access.hpp"
#include "scheduling/groups/rank_sums.hpp"

namespace omni {
namespace {

// These visitors copy all tensors into a list of copies, and from that list back into the tensors.
auto copying_to(std::vector<std::vector<float>>& copies) {
  return [&copies, next = std::size_t{0}](const auto&, const Param&, const Tensor& tensor) mutable {
    if (next == copies.size()) copies.emplace_back();
    const HostAccess access(tensor, HostAccess::Mode::read);
    copies[next++].assign(access.f32().begin(), access.f32().end());
  };
}

auto copying_from(const std::vector<std::vector<float>>& copies) {
  return [&copies, next = std::size_t{0}](const auto&, const Param&, const Tensor& tensor) mutable {
    const HostAccess access(tensor, HostAccess::Mode::write);
    std::ranges::copy(copies[next++], access.f32().begin());
  };
}

}  // namespace

void TrainingSnapshot::take(ComputeGroups& groups, const TrainingState& state, bool with_replicas) {
  state_ = state;
  state_.kept.clear();
  for_each_array(groups.net(), copying_to(arrays_));
  if (with_replicas) for_each_replica(groups, copying_to(replicas_));
  groups_ = with_replicas ? groups.count() : 0;
}

void TrainingSnapshot::restore(ComputeGroups& groups) const {
  for_each_array(groups.net(), copying_from(arrays_));
  // With several ranks, replicas are what the owners' messages lead to.
  if (groups_ != groups.count() || groups.sums != nullptr) return groups.refresh_replicas();
  for_each_replica(groups, copying_from(replicas_));
}

std::size_t TrainingSnapshot::bytes(ComputeGroups& groups, bool with_replicas) {
  std::size_t bytes = 0;
  const auto add = [&](const auto&, const Param&, const Tensor& tensor) {
    bytes += tensor.bytes();
  };
  for_each_array(groups.net(), add);
  if (with_replicas) for_each_replica(groups, add);
  for (int group = 0; with_replicas && group < groups.count(); ++group)
    if (!groups.is_here(group)) for_each_of_group(groups.net(group), group, add);
  return bytes;
}

}  // namespace omni
