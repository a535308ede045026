// RankSums::settle(), gather_memory() and share_memory() exchange the state that only some ranks
// have: parameters, running statistics, optimizer state, and contributions to meetings.
#include <algorithm>
#include <span>
#include <vector>

#include "runtime/communicator/ranks.hpp"
#include "runtime/communicator/transfers.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/groups/rank_sums.hpp"

namespace omni {

Status RankSums::settle() {
  for (std::size_t i = 0; i < params_.size(); ++i)
    if (by_group_ || params_[i]->parts_per_rank > 0)
      for (const Pieces part : params_of_ranks_[i].parts())
        spread(part, 0, *params_[i]->master, {0, ranks::size()}, {});
  OMNI_CHECK(wait_for_tasks());
  if (!groups_.on_several_ranks()) return {};  // all ranks have the same running statistics
  std::vector<double> values;
  const auto visit = [&](HostAccess::Mode mode, auto use) {
    for (const Param* param : params_)
      if (!param->trainable) use(HostAccess(*param->master, mode).f32());
  };
  visit(HostAccess::Mode::read,
        [&](std::span<float> own) { values.insert(values.end(), own.begin(), own.end()); });
  if (values.empty()) return {};
  ranks::sum(values);
  visit(HostAccess::Mode::write, [&, next = values.begin()](std::span<float> own) mutable {
    for (float& value : own) value = static_cast<float>(*next++ / ranks::size());
  });
  return {};
}

void RankSums::hand(const Tensor* tensor, const Piece& piece, int from, int to, int tag) const {
  const bool sends = from == ranks::rank();
  if (tensor == nullptr || from == to || !(sends || to == ranks::rank())) return;
  submit_transfers({{sends ? Transfer::Kind::send : Transfer::Kind::receive,
                     piece.values.of(*tensor),
                     {sends ? to : from},
                     tag}});
}

Status RankSums::gather_memory() {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Param& param = *params_[i];
    auto& [pieces, first_has_all] = params_of_ranks_[i];
    first_has_all = first_has_all || !is_coded();
    const bool divided = param.parts_per_rank > 0;
    if (!divided && !is_shared(param)) continue;
    for (const Piece& piece : pieces) {
      const std::size_t set = divided ? 0 : piece.sets.size() - 1;
      const int steps = divided ? piece.owner : piece.sets[set].owner;
      if (meets_) hand(param.centre_velocity, piece, piece.owner, 0, tag_of(piece, 0, false));
      if (meets_ && piece.sets.size() < 2) continue;
      const int to = meets_ ? members(groups_.here().front()).first : 0;
      hand(param.velocity, piece, steps, to, tag_of(piece, set, false));
      hand(param.mean_square, piece, steps, to, tag_of(piece, set, true));
    }
  }
  OMNI_CHECK(wait_for_tasks());
  if (is_coded()) {  // contributions stay on their ranks, as the values that messages leave out do
    std::vector<double> counts(ranks::size());
    counts[ranks::rank()] = static_cast<double>(unsent_count());
    ranks::sum(counts);
    unsent_of_.assign(counts.begin(), counts.end());
    return {};
  }
  for (const Param* param : params_) {
    if (!is_shared(*param) || param->change == nullptr) continue;
    const HostAccess access(*param->change, HostAccess::Mode::write);
    const std::span<float> own = access.f32();
    for (int rank = 1; ranks::first() && rank < ranks::size(); ++rank)
      ranks::fetch(rank, own.size(), [to = own.begin()](std::span<const float> piece) mutable {
        for (const float value : piece) *to++ += value;
      });
    if (ranks::first()) continue;
    ranks::bring(own);
    std::ranges::fill(own, 0.0f);
  }
  return {};
}

// Owners send pieces as settle() sends those of the parameters. Both kinds of state have the same
// tags, so the second one follows when the first one has arrived.
Status RankSums::share_memory() {
  if (meets_) return {};
  for (Tensor* Param::*const state : {&Param::velocity, &Param::mean_square}) {
    for (std::size_t i = 0; i < params_.size(); ++i) {
      const Param& param = *params_[i];
      const bool everywhere = param.whole_on_each_rank && !groups_.on_several_ranks();
      if (param.*state == nullptr || everywhere) continue;
      for (const Pieces part : params_of_ranks_[i].parts())
        spread(part, 0, *(param.*state), {0, ranks::size()}, {});
    }
    if (Status arrived = wait_for_tasks(); !arrived) {
      ranks::leave_for(arrived.error());
      return arrived;
    }
  }
  return {};
}

}  // namespace omni
