#include "scheduling/groups/rank_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "codelets/elementwise/accumulate.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/communicator/transfers.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {
namespace {

std::vector<int> others(RankRange of) {
  std::vector<int> ranks;
  for (int rank = of.first; rank < of.end(); ++rank)
    if (rank != ranks::rank()) ranks.push_back(rank);
  return ranks;
}

RankRange all_ranks() { return {0, ranks::size()}; }

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

// The sum of senders [first, end), in pairs; where `own` is among them it holds it.
TensorPart add_up(std::span<Tensor* const> incoming, TensorPart own, std::size_t first,
                  std::size_t end, TaskTag tag) {
  if (end - first == 1) return incoming[first] != nullptr ? TensorPart(*incoming[first]) : own;
  const std::size_t middle = first + (end - first + 1) / 2;
  TensorPart sum = add_up(incoming, own, first, middle, tag);
  TensorPart other = add_up(incoming, own, middle, end, tag);
  if (other.tensor == own.tensor) std::swap(sum, other);
  add(sum, other, tag);
  return sum;
}

}  // namespace

// The largest parts first, each to the rank that owns the fewest values so far. Staleness is
// measured where the watched parameter is, and told by the first rank.
RankSums::RankSums(ComputeGroups& groups)
    : groups_(groups),
      params_(groups.net().params()),
      by_group_(groups.count() > 1 &&
                std::ranges::none_of(params_, [](const Param* each) { return each->change; })) {
  const int sets = by_group_ ? groups.count() : 1;
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
    const Param& param = *params_[place.param];
    for (int set = 0; set < sets; ++set) {
      const auto declare = [&](const char* what, int rank) {
        return &incoming_.declare(
            fmt::format("{}.{}.{}{}.{}", param.name, place.part, what, set, rank), place.count);
      };
      std::vector<Tensor*>& incoming = part.incoming.emplace_back();
      const RankRange from = senders(param, part, set);
      for (int rank = from.first; rank < from.end(); ++rank)
        incoming.push_back(rank == part.owner ? nullptr : declare("of", rank));
      part.fresh.push_back(from.has(part.owner) ? nullptr : declare("for", from.first));
    }
  }
  crossing_tag_ = ranks::kFirstTag + number * sets * 2;
  of_guests_.resize(static_cast<std::size_t>(groups.count()));
  for (int group = 0; group < groups.count(); ++group)
    while (groups.guest(group) && of_guests_[static_cast<std::size_t>(group)].size() < 2) {
      BatchSlot& slot = of_guests_[static_cast<std::size_t>(group)].emplace_back();
      for (const int images : groups.guest(group)->slices().sizes) {
        slot.labels.push_back(&incoming_.declare(fmt::format("group{}.labels", group),
                                                 static_cast<std::size_t>(images), DataType::i32));
        slot.metrics.push_back(&incoming_.declare(fmt::format("group{}.metrics", group), kMetrics));
      }
    }
}

BatchSlot& RankSums::slot_of_guest(int group, std::uint64_t number) {
  return of_guests_[static_cast<std::size_t>(group)][number % 2];
}

void RankSums::cross(int group, const BatchSlot& slot, bool guest, bool back) {
  const Net& net = guest ? *groups_.guest(group) : groups_.net(group);
  const Slices& slices = net.slices();
  const Blob& blob = net.replicated_output();
  const auto of_all = static_cast<int>(slices.all_sizes.size());
  for (int slice = 0; slice < slices.count(); ++slice) {
    const auto at = static_cast<std::size_t>(slice);
    const auto carry = [&](const Tensor& tensor, int kind) {
      submit_transfers({{guest == back ? Transfer::Kind::send : Transfer::Kind::receive,
                         tensor,
                         {guest ? groups_.ranks_of(group).first + slices.owners[at] : 0},
                         crossing_tag_ + (group * of_all + slices.first + slice) * 3 + kind}},
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

RankRange RankSums::senders(const Param& param, const Part& part, int group) const {
  const RankRange all = by_group_ ? groups_.ranks_of(group) : all_ranks();
  if (!by_group_ || !param.whole_on_each_rank) return all;
  return {all.has(part.owner) ? part.owner : all.first, 1};
}

int RankSums::tag_of(const Part& part, int group, bool values) const {
  const int sets = by_group_ ? groups_.most() : 1;
  return ranks::kFirstTag + (part.number * sets + group) * 2 + (values ? 1 : 0);
}

bool RankSums::is_shared(const Param& param) const {
  return param.trainable && !groups_.net().is_merged(param) &&
         (groups_.on_several_ranks() || !param.whole_on_each_rank);
}

bool RankSums::take(std::size_t number, int group, const Exchange& step, ExchangeOrder order,
                    TaskTag tag) {
  using Kind = Transfer::Kind;
  const Param& param = *params_[number];
  if (!is_shared(param) || (groups_.on_several_ranks() && !by_group_)) return false;
  for (std::size_t at = 0; by_group_ && at < parts_[number].size(); ++at) {
    const Part& part = parts_[number][at];
    const RankRange from = senders(param, part, group);
    const TensorPart gradient{step.tensors.diff, at}, values{*step.tensors.replica, at};
    if (part.owner == ranks::rank()) {
      collect(part, from, group, gradient, true, tag);
      step_part(step, at, order, tag);
      if (const std::vector<int> members = others(groups_.ranks_of(group)); !members.empty())
        submit_transfers({{Kind::send, values, members, tag_of(part, group, true)}}, tag);
      continue;
    }
    const Kind send = step.args.clears ? Kind::send_and_clear : Kind::send;
    const auto to = from.has(ranks::rank()) ? std::vector{part.owner} : std::vector<int>();
    submit_transfers({{send, gradient, to, tag_of(part, group, false)}}, tag);
    submit_transfers({{Kind::receive, values, {part.owner}, tag_of(part, group, true)}}, tag,
                     [report = step.args.report] { report->count_down(); });
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
  const Param& param = *params_[number];
  args.clears = false;
  for (std::size_t at = 0; by_group_ && is_shared(param) && at < parts_[number].size(); ++at) {
    const Part& part = parts_[number][at];
    if (part.owner != ranks::rank()) continue;
    const auto set = static_cast<std::size_t>(group);
    const Tensor &gradient = *part.incoming[set].front(), &fresh = *part.fresh[set];
    collect(part, senders(param, part, group), group, gradient, true, tag);
    step_part({args, {*param.master, gradient, *param.velocity, &fresh, param.mean_square}}, at,
              order, tag);
    submit_transfers(
        {{Transfer::Kind::send, fresh, others(groups_.ranks_of(group)), tag_of(part, group, true)}},
        tag);
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
      collect(part, all_ranks(), 0, own, sum.in_pairs, tag);
      sum.step(at);
      submit_transfers({{Kind::send, master, others(all_ranks()), down}}, tag);
    } else {
      const Kind send = sum.clears ? Kind::send_and_clear : Kind::send;
      submit_transfers({{send, own, {part.owner}, up}}, tag);
      submit_transfers({{Kind::receive, master, {part.owner}, down}}, tag, sum.arrived);
    }
  }
}

void RankSums::collect(const Part& part, RankRange from, int group, TensorPart own, bool in_pairs,
                       TaskTag tag) const {
  const std::vector<Tensor*>& incoming = part.incoming[static_cast<std::size_t>(group)];
  for (std::size_t i = 0; i < incoming.size(); ++i)
    if (incoming[i] != nullptr)
      submit_transfers({{Transfer::Kind::receive,
                         *incoming[i],
                         {from.first + static_cast<int>(i)},
                         tag_of(part, group, false)}},
                       tag);
  in_pairs ? (void)add_up(incoming, own, 0, incoming.size(), tag) : add_in_turn(part, own, tag);
}

// As groups of one process add theirs up.
void RankSums::add_in_turn(const Part& part, TensorPart own, TaskTag tag) {
  const auto of = [&](int rank) -> const Tensor& {
    return *part.incoming.front()[static_cast<std::size_t>(rank)];
  };
  for (int rank = 1; rank < part.owner; ++rank) add(of(0), of(rank), tag);
  if (part.owner > 0) add(own, of(0), tag);
  for (int rank = part.owner + 1; rank < ranks::size(); ++rank) add(own, of(rank), tag);
}

Status RankSums::settle() {
  using Kind = Transfer::Kind;
  if (!groups_.on_several_ranks()) return {};
  for (std::size_t i = 0; by_group_ && i < params_.size(); ++i)
    for (std::size_t at = 0; params_[i]->trainable && at < parts_[i].size(); ++at) {
      const Part& part = parts_[i][at];
      const bool owns = part.owner == ranks::rank();
      submit_transfers({{owns ? Kind::send : Kind::receive,
                         {*params_[i]->master, at},
                         owns ? others(all_ranks()) : std::vector{part.owner},
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

}  // namespace omni
