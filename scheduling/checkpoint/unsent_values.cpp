#include "scheduling/checkpoint/unsent_values.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/communicator/ranks.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/host_access.hpp"
#include "scheduling/checkpoint/saved_values.hpp"
#include "scheduling/groups/rank_sums.hpp"

namespace omni {
namespace {

constexpr const char* kRanks = "unsent_of_ranks";  // field: the number of ranks
constexpr int kMostRanks = 1 << 20;

std::string unsent_name(int rank) { return fmt::format("rank{}/unsent", rank); }
std::string change_name(int rank, const Param& param) {
  return fmt::format("rank{}/change/{}", rank, param.name);
}

void for_each_change(ComputeGroups& groups, const auto& visit) {
  for (const Param* param : groups.net().params())
    if (param->change != nullptr) visit(*param);
}

bool is_coded(const ComputeGroups& groups) {
  return groups.sums != nullptr && groups.sums->is_coded();
}

Status add_change(const Checkpoint& checkpoint, int rank, const Param& param) {
  OMNI_TRY(const std::span<const float> saved,
           saved_values(checkpoint, change_name(rank, param), param));
  const HostAccess access(*param.change, HostAccess::Mode::write);
  std::ranges::transform(saved, access.f32(), access.f32().begin(), std::plus());
  return {};
}

// Each owner keeps the values that groups on other ranks have; these are the groups' replicas.
Status restore_known(ComputeGroups& groups, const Checkpoint& checkpoint) {
  Status status;
  groups.sums->for_each_known([&](int group, std::size_t number, const TensorPart& values,
                                  const Tensor& copy) {
    const Param& param = *groups.net().params()[number];
    const auto all = saved_values(checkpoint, fmt::format("group{}/{}", group, param.name), param);
    if (!all) return void(status = all.error());
    const std::size_t first = values.part * param.master->count_of(0) + values.first;
    std::ranges::copy(all->subspan(first, values.count()),
                      HostAccess(copy, HostAccess::Mode::write).f32().begin());
  });
  return status;
}

}  // namespace

std::vector<float> save_unsent(Snapshot& snapshot, ComputeGroups& groups) {
  if (!is_coded(groups)) return {};
  snapshot.fields.set(kRanks, ranks::size());
  std::vector<float> own = groups.sums->unsent();
  if (!own.empty()) snapshot.arrays.push_back({unsent_name(0), {std::ssize(own)}, own});
  return own;
}

void fetch_unsent(ComputeGroups& groups, const FetchLater& fetch_later) {
  for (int rank = 1; is_coded(groups) && rank < ranks::size(); ++rank) {
    for_each_change(groups, [&](const Param& param) {
      fetch_later(change_name(rank, param), param.shape, rank, param.change->count());
    });
    if (const std::size_t count = groups.sums->unsent_of(rank); count > 0)
      fetch_later(unsent_name(rank), {static_cast<std::int64_t>(count)}, rank, count);
  }
}

void bring_unsent(ComputeGroups& groups) {
  if (!is_coded(groups)) return;
  for_each_change(groups, [](const Param& param) {
    ranks::bring(HostAccess(*param.change, HostAccess::Mode::read).f32());
  });
  if (std::vector<float> own = groups.sums->unsent(); !own.empty()) ranks::bring(own);
}

Status restore_unsent(ComputeGroups& groups, const Checkpoint& checkpoint) {
  int saved = 0;  // the number of ranks
  if (checkpoint.fields.text(kRanks)) {
    OMNI_TRY(saved, checkpoint.fields.number(kRanks, 1, kMostRanks));
  }
  bool fits = false;
  if (is_coded(groups)) {
    const NamedArray* const own = checkpoint.arrays.find(unsent_name(ranks::rank()));
    fits = saved == ranks::size() &&
           groups.sums->restore_unsent(own == nullptr ? std::span<const float>() : own->values);
    fits = !ranks::any(!fits);
    if (!fits) groups.sums->forget_unsent();
    OMNI_CHECK(restore_known(groups, checkpoint));
  }
  if (saved > 0 && !fits && ranks::first())
    log::info(
        "{}: what its messages had left out is not sent any more: it was trained with "
        "--send on {} ranks",
        checkpoint.path.string(), saved);
  Status status;
  for (int rank = 1; rank < saved; ++rank)
    for_each_change(groups, [&](const Param& param) {
      if (status && (fits ? rank == ranks::rank() : ranks::first()))
        status = add_change(checkpoint, rank, param);
    });
  return status;
}

}  // namespace omni
