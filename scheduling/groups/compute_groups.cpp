#include "scheduling/groups/compute_groups.hpp"

#include <algorithm>

#include "runtime/communicator/ranks.hpp"

namespace omni {

Result<ComputeGroups> ComputeGroups::make(int count, Sharing like, const BuildNet& build,
                                          std::vector<int> ranks, std::vector<int> images) {
  ComputeGroups groups;
  like.replicas = like.replicas || count > 1;
  for (int group = 0; group < count; ++group) {
    const bool here = ranks.empty() || ranks[static_cast<std::size_t>(group)] == ranks::rank();
    like.guest = !here && ranks::first() && groups.net().has(Net::Phase::merged) &&
                 groups.net().has(Net::Phase::replicated);
    std::unique_ptr<Net> own;
    if (here || like.guest) {
      const int slice = like.master != nullptr ? like.master->slices().sizes.front() : 0;
      OMNI_TRY(own, build(like, slice, group));
    }
    groups.add(std::move(own), here);
    if (!here || like.master != nullptr) continue;
    groups.first_ = static_cast<std::size_t>(group);
    like.master = &groups.net();
  }
  groups.ranks_ = std::move(ranks);
  groups.images_ = std::move(images);
  return groups;
}

ComputeGroups::ComputeGroups(std::unique_ptr<Net> only) { add(std::move(only)); }

void ComputeGroups::add(std::unique_ptr<Net> net, bool here) {
  groups_.push_back(std::make_unique<Group>(Group{std::move(net), {}, here}));
  in_use_ = most();
}

std::vector<int> ComputeGroups::here() const {
  std::vector<int> all;
  for (int group = 0; group < count(); ++group)
    if (is_here(group)) all.push_back(group);
  return all;
}

std::uint64_t ComputeGroups::images_per_pass(int group) const {
  return static_cast<std::uint64_t>(images_.empty() ? net(group).slices().images_of_all()
                                                    : images_[static_cast<std::size_t>(group)]);
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
  for (const auto& group : groups_)
    if (group->net) bytes += group->net->tensor_bytes();
  return bytes;
}

std::vector<TensorSize> ComputeGroups::tensor_sizes() const {
  std::vector<TensorSize> all;
  for (const auto& group : groups_) {
    if (!group->net) continue;
    const std::vector<TensorSize> own = group->net->tensor_sizes();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

Status ComputeGroups::allocate() {
  for (const auto& group : groups_)
    if (group->net) OMNI_CHECK(group->net->allocate());
  return {};
}

std::optional<std::size_t> ComputeGroups::watched() const {
  const auto params = groups_[first_]->net->params();
  const auto found = std::ranges::find_if(
      params, [&](const Param* each) { return each->trainable && !net().is_merged(*each); });
  if (found == params.end()) return {};
  return static_cast<std::size_t>(found - params.begin());
}

Net& ComputeGroups::evaluating_net() {
  Net* largest = &net();
  for (const int group : here())
    if (net(group).slices().images() > largest->slices().images()) largest = &net(group);
  return *largest;
}

void ComputeGroups::forget_updates() {
  for (const int group : here())
    for (const Param* param : net(group).params())
      for (Tensor* tensor :
           {param->velocity, param->mean_square, param->change, param->centre_velocity})
        if (param->change != nullptr && tensor != nullptr)
          std::ranges::fill(HostAccess(*tensor, HostAccess::Mode::write).f32(), 0.0f);
}

void ComputeGroups::refresh_replicas() {
  for (const int group : here()) net(group).refresh_replicas();
}

}  // namespace omni
