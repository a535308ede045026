#include "scheduling/groups/rank_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "codelets/elementwise/accumulate.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/communicator/transfers.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {
namespace {

std::vector<int> others() {
  std::vector<int> ranks;
  for (int rank = 0; rank < ranks::size(); ++rank)
    if (rank != ranks::rank()) ranks.push_back(rank);
  return ranks;
}

void add(TensorPart to, TensorPart from, TaskTag tag) {
  accumulate_sum.submit({.count = static_cast<std::int64_t>(to.count())},
                        {accumulate(to), read(from)}, tag);
}

constexpr int kCrossingPriority = 1 << 19;  // others wait for them, as for updates

// Of a parameter that is updated in parts, the first is counted.
void step_part(Exchange step, std::size_t part, ExchangeOrder order, TaskTag tag) {
  if (part > 0) step.args.leave_uncounted();
  step.only = part;
  submit_exchanges({&step, 1}, order, tag);
}

}  // namespace

// The largest parts first, each to the rank that owns the fewest values so far. Staleness is
// measured where the watched parameter is, and told by the first rank.
RankSums::RankSums(ComputeGroups& groups)
    : groups_(groups),
      params_(groups.net().params()),
      by_group_(groups.count() > 1 &&
                std::ranges::none_of(params_, [](const Param* each) { return each->change; })),
      senders_(static_cast<std::size_t>(by_group_ ? groups.count() : ranks::size())) {
  struct Place {
    std::size_t count, param, part;
  };
  std::vector<Place> places;
  int number = 0;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    parts_.emplace_back(params_[i]->master->parts());
    if (!params_[i]->trainable) continue;
    for (Part& part : parts_[i]) part.number = number++;
    if (!is_shared(*params_[i])) continue;
    for (std::size_t part = 0; part < parts_[i].size(); ++part)
      places.push_back({params_[i]->master->count_of(part), i, part});
  }
  std::ranges::stable_sort(places, std::ranges::greater(), &Place::count);
  std::vector<std::size_t> owned(static_cast<std::size_t>(ranks::size()));
  for (const Place& place : places) {
    const bool watched = by_group_ && place.param == groups.watched() && place.part == 0;
    const auto owner = watched ? 0 : std::ranges::min_element(owned) - owned.begin();
    owned[static_cast<std::size_t>(owner)] += place.count;
    Part& part = parts_[place.param][place.part];
    part.owner = static_cast<int>(owner);
    if (part.owner != ranks::rank()) continue;
    for (std::size_t sender = 0; sender < senders_; ++sender) {
      const auto declare = [&](const char* what) {
        return rank_of(sender) == part.owner
                   ? nullptr
                   : &incoming_.declare(fmt::format("{}.{}.{}{}", params_[place.param]->name,
                                                    place.part, what, sender),
                                        place.count);
      };
      part.incoming.push_back(declare("of"));
      if (by_group_) part.fresh.push_back(declare("for"));
    }
  }
  crossing_tag_ = ranks::kFirstTag + number * static_cast<int>(senders_) * 2;
  of_guests_.resize(static_cast<std::size_t>(groups.count()));
  for (int group = 0; group < groups.count(); ++group)
    while (groups.is_guest(group) && of_guests_[static_cast<std::size_t>(group)].size() < 2) {
      BatchSlot& slot = of_guests_[static_cast<std::size_t>(group)].emplace_back();
      for (const int images : groups.net(group).slices().sizes) {
        slot.labels.push_back(&incoming_.declare(fmt::format("group{}.labels", group),
                                                 static_cast<std::size_t>(images), DataType::i32));
        slot.metrics.push_back(&incoming_.declare(fmt::format("group{}.metrics", group), kMetrics));
      }
    }
}

BatchSlot& RankSums::slot_of_guest(int group, std::uint64_t number) {
  return of_guests_[static_cast<std::size_t>(group)][number % 2];
}

void RankSums::cross(int group, const BatchSlot& slot, bool back) {
  const bool here = groups_.is_here(group);
  const Net& net = groups_.net(group);
  const Blob& blob = net.replicated_output();
  for (int slice = 0; slice < net.slices().count(); ++slice) {
    const auto at = static_cast<std::size_t>(slice);
    const auto carry = [&](const Tensor& tensor, int kind) {
      submit_transfers({{here == back ? Transfer::Kind::receive : Transfer::Kind::send,
                         tensor,
                         {here ? 0 : groups_.rank_of(group)},
                         crossing_tag_ + (group * net.slices().count() + slice) * 3 + kind}},
                       {.priority = kCrossingPriority, .slice = slice});
    };
    if (!back) {
      carry(*blob.value[at], 0);
      carry(*slot.labels[at], 1);
    } else if (groups_.watched()) {  // else nothing before it learns
      carry(*blob.diff[at], 2);
    }
  }
}

int RankSums::rank_of(std::size_t sender) const {
  return by_group_ ? groups_.rank_of(static_cast<int>(sender)) : static_cast<int>(sender);
}

int RankSums::tag_of(const Part& part, int sender, bool values) const {
  const int senders = by_group_ ? groups_.count() : 1;
  return ranks::kFirstTag + (part.number * senders + sender) * 2 + (values ? 1 : 0);
}

bool RankSums::is_shared(const Param& param) const {
  return param.trainable && !groups_.net().is_merged(param) &&
         (groups_.count() > 1 || !param.whole_on_each_rank);
}

bool RankSums::take(std::size_t number, int group, const Exchange& step, ExchangeOrder order,
                    TaskTag tag) {
  using Kind = Transfer::Kind;
  if (!is_shared(*params_[number]) || (groups_.count() > 1 && !by_group_)) return false;
  for (std::size_t at = 0; by_group_ && at < parts_[number].size(); ++at) {
    const Part& part = parts_[number][at];
    if (part.owner == ranks::rank()) {
      step_part(step, at, order, tag);
      continue;
    }
    const Kind send = step.args.clears ? Kind::send_and_clear : Kind::send;
    submit_transfers({{send, {step.tensors.diff, at}, {part.owner}, tag_of(part, group, false)}},
                     tag);
    submit_transfers(
        {{Kind::receive, {*step.tensors.replica, at}, {part.owner}, tag_of(part, group, true)}},
        tag, [report = step.args.report] { report->count_down(); });
  }
  if (by_group_) return true;
  const auto step_sum = [&](std::size_t part) {
    step_part(step, part, ExchangeOrder::submission, tag);
  };
  submit(number,
         {.values = step.tensors.diff,
          .clears = step.args.clears,
          .in_pairs = true,
          .step = step_sum,
          .arrived = [report = step.args.report] { report->count_down(); }},
         tag);
  return true;
}

void RankSums::serve(std::size_t number, int group, ExchangeArgs args, ExchangeOrder order,
                     TaskTag tag) {
  using Kind = Transfer::Kind;
  const Param& param = *params_[number];
  args.clears = false;
  for (std::size_t at = 0; by_group_ && is_shared(param) && at < parts_[number].size(); ++at) {
    const Part& part = parts_[number][at];
    if (part.owner != ranks::rank()) continue;
    const auto sender = static_cast<std::size_t>(group);
    const Tensor &gradient = *part.incoming[sender], &fresh = *part.fresh[sender];
    submit_transfers({{Kind::receive, gradient, {rank_of(sender)}, tag_of(part, group, false)}},
                     tag);
    step_part({args, {*param.master, gradient, *param.velocity, &fresh, param.mean_square}}, at,
              order, tag);
    submit_transfers({{Kind::send, fresh, {rank_of(sender)}, tag_of(part, group, true)}}, tag);
  }
}

void RankSums::meet(std::size_t number, const std::function<void(std::size_t part)>& move,
                    TaskTag tag) {
  submit(number, {.values = *params_[number]->change, .step = move}, tag);
}

void RankSums::submit(std::size_t number, const Sum& sum, TaskTag tag) {
  using Kind = Transfer::Kind;
  for (std::size_t at = 0; at < parts_[number].size(); ++at) {
    const Part& part = parts_[number][at];
    const TensorPart own{sum.values, at}, master{*params_[number]->master, at};
    const int up = tag_of(part, 0, false), down = tag_of(part, 0, true);
    if (part.owner == ranks::rank()) {
      for (const int peer : others())
        submit_transfers(
            {{Kind::receive, *part.incoming[static_cast<std::size_t>(peer)], {peer}, up}}, tag);
      if (sum.in_pairs)
        add_up(part, own, 0, ranks::size(), tag);
      else
        add_in_turn(part, own, tag);
      sum.step(at);
      submit_transfers({{Kind::send, master, others(), down}}, tag);
    } else {
      const Kind send = sum.clears ? Kind::send_and_clear : Kind::send;
      submit_transfers({{send, own, {part.owner}, up}}, tag);
      submit_transfers({{Kind::receive, master, {part.owner}, down}}, tag, sum.arrived);
    }
  }
}

TensorPart RankSums::add_up(const Part& part, TensorPart own, int first, int end,
                            TaskTag tag) const {
  if (end - first == 1) {
    const Tensor* incoming = part.incoming[static_cast<std::size_t>(first)];
    return incoming != nullptr ? TensorPart(*incoming) : own;
  }
  const int middle = first + (end - first + 1) / 2;
  TensorPart sum = add_up(part, own, first, middle, tag);
  TensorPart other = add_up(part, own, middle, end, tag);
  if (other.tensor == own.tensor) std::swap(sum, other);
  add(sum, other, tag);
  return sum;
}

// As groups of one process add theirs up.
void RankSums::add_in_turn(const Part& part, TensorPart own, TaskTag tag) const {
  const auto of = [&](int rank) -> const Tensor& {
    return *part.incoming[static_cast<std::size_t>(rank)];
  };
  for (int rank = 1; rank < part.owner; ++rank) add(of(0), of(rank), tag);
  if (part.owner > 0) add(own, of(0), tag);
  for (int rank = part.owner + 1; rank < ranks::size(); ++rank) add(own, of(rank), tag);
}

Status RankSums::settle() {
  using Kind = Transfer::Kind;
  if (groups_.count() == 1) return {};
  for (std::size_t i = 0; by_group_ && i < params_.size(); ++i)
    for (std::size_t at = 0; params_[i]->trainable && at < parts_[i].size(); ++at) {
      const Part& part = parts_[i][at];
      const bool owns = part.owner == ranks::rank();
      submit_transfers({{owns ? Kind::send : Kind::receive,
                         {*params_[i]->master, at},
                         owns ? others() : std::vector{part.owner},
                         tag_of(part, 0, true)}});
    }
  OMNI_CHECK(wait_for_tasks());
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

Status RankSums::gather_memory() {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Param& param = *params_[i];
    if (!is_shared(param)) continue;
    for (std::size_t at = 0; at < parts_[i].size(); ++at) {
      const int owner = parts_[i][at].owner;
      const bool sends = owner == ranks::rank();
      if (owner == 0 || !(sends || ranks::first())) continue;
      const bool meets = param.change != nullptr;
      const std::array memory{meets ? param.centre_velocity : param.velocity,
                              meets ? nullptr : param.mean_square};
      for (std::size_t which = 0; which < memory.size(); ++which)
        if (memory[which] != nullptr)
          submit_transfers({{sends ? Transfer::Kind::send : Transfer::Kind::receive,
                             {*memory[which], at},
                             {sends ? 0 : owner},
                             tag_of(parts_[i][at], 0, which > 0)}});
    }
  }
  OMNI_CHECK(wait_for_tasks());
  for (const Param* param : params_) {
    if (!is_shared(*param) || param->change == nullptr) continue;
    const HostAccess access(*param->change, HostAccess::Mode::write);
    const std::span<float> own = access.f32();
    std::vector<float> other(own.size());
    for (int rank = 1; rank < ranks::size(); ++rank) {
      if (ranks::first()) {
        ranks::bring(other, rank);
        for (std::size_t i = 0; i < own.size(); ++i) own[i] += other[i];
      } else if (rank == ranks::rank()) {
        ranks::bring(own, rank);
        std::ranges::fill(own, 0.0f);
      }
    }
  }
  return {};
}

}  // namespace omni
