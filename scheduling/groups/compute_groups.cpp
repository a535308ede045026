#include "scheduling/groups/compute_groups.hpp"

#include <algorithm>

namespace omni {

Result<ComputeGroups> ComputeGroups::make(int count, FullyConnected fully_connected,
                                          const BuildNet& build) {
  ComputeGroups groups;
  for (int group = 0; group < count; ++group) {
    const Net* master = group == 0 ? nullptr : &groups.net();
    const int slice = group == 0 ? 0 : master->slices().sizes.front();
    OMNI_TRY(auto net,
             build({.replicas = count > 1, .fully_connected = fully_connected, .master = master},
                   slice));
    groups.add(std::move(net));
  }
  return groups;
}

ComputeGroups::ComputeGroups(std::unique_ptr<Net> only) { add(std::move(only)); }

void ComputeGroups::add(std::unique_ptr<Net> net) {
  const std::size_t params = net->params().size();
  if (groups_.empty()) clocks_ = std::make_unique<std::vector<UpdateClock>>(params);
  auto group = std::make_unique<Group>();
  group->net = std::move(net);
  group->tickets = std::vector<Ticket>(params);
  for (std::size_t i = 0; i < params; ++i) group->tickets[i].clock = &(*clocks_)[i];
  groups_.push_back(std::move(group));
  in_use_ = most();
}

std::span<Ticket> ComputeGroups::tickets(int group) {
  return groups_[static_cast<std::size_t>(group)]->tickets;
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
  for (int group = 0; group < count; ++group) set_age(group, 0);
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

std::int64_t ComputeGroups::age(int group) const {
  const auto number = watched();
  if (!number) return 0;
  const Ticket& ticket = groups_[static_cast<std::size_t>(group)]->tickets[*number];
  return *ticket.clock - ticket.seen;
}

void ComputeGroups::set_age(int group, std::int64_t age) {
  for (Ticket& ticket : groups_[static_cast<std::size_t>(group)]->tickets)
    ticket.seen = *ticket.clock - age;
}

void ComputeGroups::refresh_replicas() {
  for (int group = 0; group < count(); ++group) net(group).refresh_replicas();
}

}  // namespace omni
