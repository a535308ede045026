#include "scheduling/groups/compute_groups.hpp"

#include <algorithm>

namespace omni {

Result<ComputeGroups> ComputeGroups::make(int count, Sharing like, const BuildNet& build) {
  ComputeGroups groups;
  like.replicas = like.replicas || count > 1;
  for (int group = 0; group < count; ++group) {
    like.master = group == 0 ? nullptr : &groups.net();
    const int slice = group == 0 ? 0 : like.master->slices().sizes.front();
    OMNI_TRY(auto net, build(like, slice, group));
    groups.add(std::move(net));
  }
  return groups;
}

ComputeGroups::ComputeGroups(std::unique_ptr<Net> only) { add(std::move(only)); }

void ComputeGroups::add(std::unique_ptr<Net> net) {
  groups_.push_back(std::make_unique<Group>(Group{std::move(net), {}}));
  in_use_ = most();
}

void ComputeGroups::assign(const GroupLayout& layout) {
  for (std::size_t group = 0; group < layout.size(); ++group)
    groups_[group]->workers = WorkerSet(layout[group]);
}

void ComputeGroups::use(int count, Workers workers) {
  in_use_ = count;
  if (count == 1)
    groups_.front()->workers = WorkerSet();
  else
    assign(spread_groups(count, workers));
  refresh_replicas();
}

bool ComputeGroups::has_replicated_phase() const {
  return count() > 1 && net().has(Net::Phase::replicated);
}

std::size_t ComputeGroups::tensor_bytes() const {
  std::size_t bytes = 0;
  for (const auto& group : groups_) bytes += group->net->tensor_bytes();
  return bytes;
}

std::vector<TensorSize> ComputeGroups::tensor_sizes() const {
  std::vector<TensorSize> all;
  for (const auto& group : groups_) {
    const std::vector<TensorSize> own = group->net->tensor_sizes();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

Status ComputeGroups::allocate() {
  for (const auto& group : groups_) OMNI_CHECK(group->net->allocate());
  return {};
}

std::optional<std::size_t> ComputeGroups::watched() const {
  Net& net = *groups_.front()->net;
  const auto params = net.params();
  const auto found = std::ranges::find_if(
      params, [&](const Param* each) { return each->trainable && !net.is_merged(*each); });
  if (found == params.end()) return {};
  return static_cast<std::size_t>(found - params.begin());
}

Net& ComputeGroups::evaluating_net() {
  int largest = 0;
  for (int group = 1; group < count(); ++group)
    if (net(group).slices().images() > net(largest).slices().images()) largest = group;
  return net(largest);
}

void ComputeGroups::forget_updates() {
  for (int group = 0; group < count(); ++group)
    for (const Param* param : net(group).params())
      for (Tensor* tensor :
           {param->velocity, param->mean_square, param->change, param->centre_velocity})
        if (param->change != nullptr && tensor != nullptr)
          std::ranges::fill(HostAccess(*tensor, HostAccess::Mode::write).f32(), 0.0f);
}

void ComputeGroups::refresh_replicas() {
  for (int group = 0; group < count(); ++group) net(group).refresh_replicas();
}

}  // namespace omni
