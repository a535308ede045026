#include "scheduling/groups/compute_groups.hpp"

#include <algorithm>

#include "runtime/communicator/ranks.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/tensor_pool.hpp"
#include "scheduling/groups/rank_sums.hpp"

namespace omni {

Result<ComputeGroups> ComputeGroups::make(int count, Sharing like, const BuildNet& build,
                                          std::vector<RankRange> ranks, std::vector<int> images,
                                          std::vector<int> weights) {
  ComputeGroups groups;
  groups.ranks_ = std::move(ranks);
  groups.images_ = std::move(images);
  groups.weights_ = std::move(weights);
  like.replicas = like.replicas || count > 1;
  const Net* merged_master = nullptr;  // the first guest, whose merged parameters all guests share
  for (int group = 0; group < count; ++group) {
    Group& own = *groups.groups_.emplace_back(std::make_unique<Group>());
    const RankRange on = groups.ranks_of(group);
    if (!groups.on_several_ranks() || on.has(ranks::rank())) {
      const int slice = like.master != nullptr ? like.master->slices().sizes.front() : 0;
      OMNI_TRY(own.net, build(like, slice, group));
      if (like.master == nullptr) groups.first_ = static_cast<std::size_t>(group);
      like.master = &groups.net();
    }
    const bool elsewhere = groups.on_several_ranks() && (on.first > 0 || on.count > 1);
    if (!elsewhere || !ranks::first() || !like.master->has(Net::Phase::merged) ||
        !like.master->has(Net::Phase::replicated))
      continue;
    Sharing guest = like;
    guest.guest = true;
    if (merged_master != nullptr) guest.master = merged_master;
    OMNI_TRY(own.guest, build(guest, 0, group));
    if (merged_master == nullptr) merged_master = own.guest.get();
  }
  groups.in_use_ = groups.most_ = count;
  return groups;
}

ComputeGroups::ComputeGroups(std::unique_ptr<Net> only) {
  groups_.push_back(std::make_unique<Group>(Group{.net = std::move(only)}));
  in_use_ = most_ = 1;
}

std::vector<int> ComputeGroups::weights_of(const RankRange& of) const {
  return weights_.empty() ? weights_
                          : std::vector(weights_.begin() + of.first, weights_.begin() + of.end());
}

std::vector<Net*> ComputeGroups::nets() const {
  std::vector<Net*> all;
  for (const auto& group : groups_)
    for (Net* net : {group->net.get(), group->guest.get()})
      if (net != nullptr) all.push_back(net);
  return all;
}

std::vector<Param*> ComputeGroups::params(int group) const {
  std::vector<Param*> all = net(group).params();
  if (guest(group) == nullptr) return all;
  const std::vector<Param*> merged = guest(group)->params();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (guest(group)->is_merged(*merged[i])) all[i] = merged[i];
  return all;
}

std::vector<int> ComputeGroups::here() const {
  std::vector<int> all;
  for (int group = 0; group < count(); ++group)
    if (is_here(group)) all.push_back(group);
  return all;
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

void ComputeGroups::refresh_replicas() {
  for (const int group : here()) net(group).refresh_replicas();
  if (sums != nullptr) sums->forget_unsent();
}

std::size_t ComputeGroups::tensor_bytes() const {
  std::size_t bytes = 0;
  for (const Net* net : nets()) bytes += net->tensor_bytes();
  return bytes;
}

std::vector<TensorSize> ComputeGroups::tensor_sizes() const {
  std::vector<TensorSize> all;
  for (const Net* net : nets()) {
    const std::vector<TensorSize> own = net->tensor_sizes();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

Status ComputeGroups::allocate() {
  for (Net* net : nets()) OMNI_CHECK(net->allocate());
  return {};
}

std::optional<std::size_t> ComputeGroups::watched() const {
  const auto params = groups_[first_]->net->params();
  const auto found = std::ranges::find_if(
      params, [&](const Param* each) { return each->trainable && !net().is_merged(*each); });
  if (found == params.end()) return {};
  return found - params.begin();
}

Net& ComputeGroups::evaluating_net() {
  Net* largest = &net();
  for (const int group : here())
    if (net(group).slices().images() > largest->slices().images()) largest = &net(group);
  return *largest;
}

std::vector<std::vector<float>> ComputeGroups::shared_values() const {
  std::vector<std::vector<float>> all;
  for (const Param* param : groups_[first_]->net->params())
    for (const Tensor* tensor : {param->master, param->velocity, param->mean_square})
      if (tensor != nullptr) all.push_back(HostAccess(*tensor, HostAccess::Mode::read).values());
  return all;
}

void ComputeGroups::begin_from(std::vector<std::vector<float>> values) {
  auto next = values.begin();
  for (const Param* param : net().params())
    for (const Tensor* tensor : {param->master, param->velocity, param->mean_square}) {
      if (tensor == nullptr) continue;
      std::ranges::copy(*next, HostAccess(*tensor, HostAccess::Mode::write).f32().begin());
      *next++ = {};  // their memory is not needed any more
    }
  refresh_replicas();
  forget_updates();
}

void ComputeGroups::forget_updates() {
  for (const int group : here())
    for (const Param* param : net(group).params())
      for (Tensor* tensor :
           {param->velocity, param->mean_square, param->change, param->centre_velocity})
        if (param->change != nullptr && tensor != nullptr)
          std::ranges::fill(HostAccess(*tensor, HostAccess::Mode::write).f32(), 0.0f);
}

}  // namespace omni
