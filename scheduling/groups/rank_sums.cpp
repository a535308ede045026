#include "scheduling/groups/rank_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "codelets/elementwise/accumulate.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/communicator/transfers.hpp"

namespace omni {
namespace {

std::vector<int> others() {
  std::vector<int> ranks;
  for (int rank = 0; rank < ranks::size(); ++rank)
    if (rank != ranks::rank()) ranks.push_back(rank);
  return ranks;
}

bool is_shared(const Param& param) { return param.trainable && !param.whole_on_each_rank; }

}  // namespace

// The largest parts first, each to the rank that owns the fewest values so far.
RankSums::RankSums(Net& net) : params_(net.params()) {
  struct Place {
    std::size_t count, param, part;
  };
  std::vector<Place> places;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    parts_.emplace_back(params_[i]->master->parts());
    if (!is_shared(*params_[i])) continue;
    for (std::size_t part = 0; part < parts_[i].size(); ++part)
      places.push_back({params_[i]->master->count_of(part), i, part});
  }
  std::ranges::stable_sort(places, std::ranges::greater(), &Place::count);
  std::vector<std::size_t> owned(static_cast<std::size_t>(ranks::size()));
  for (const Place& place : places) {
    const auto owner = std::ranges::min_element(owned) - owned.begin();
    owned[static_cast<std::size_t>(owner)] += place.count;
    Part& part = parts_[place.param][place.part];
    part.owner = static_cast<int>(owner);
    if (part.owner != ranks::rank()) continue;
    for (int rank = 0; rank < ranks::size(); ++rank)
      part.incoming.push_back(
          rank == part.owner
              ? nullptr
              : &incoming_.declare(
                    fmt::format("{}.{}.of_rank{}", params_[place.param]->name, place.part, rank),
                    place.count));
  }
}

void RankSums::submit(std::size_t number, const Exchange& step, TaskTag tag) {
  using Kind = Transfer::Kind;
  const Param& param = *params_[number];
  for (std::size_t at = 0; at < parts_[number].size(); ++at) {
    const Part& part = parts_[number][at];
    const TensorPart diff{*param.diff, at}, master{*param.master, at};
    const int gradient_tag = parameter_tag(number, at, false);
    const int values_tag = parameter_tag(number, at, true);
    if (part.owner == ranks::rank()) {
      for (const int peer : others())
        submit_transfers(
            {{Kind::receive, *part.incoming[static_cast<std::size_t>(peer)], {peer}, gradient_tag}},
            tag);
      add_up(part, diff, 0, ranks::size(), tag);
      Exchange own = step;
      own.args.leave_uncounted();
      own.only = at;
      submit_exchanges({&own, 1}, ExchangeOrder::submission, tag);
      submit_transfers({{Kind::send, master, others(), values_tag}}, tag);
    } else {
      const Kind send = step.args.clears ? Kind::send_and_clear : Kind::send;
      submit_transfers({{send, diff, {part.owner}, gradient_tag}}, tag);
      submit_transfers({{Kind::receive, master, {part.owner}, values_tag}}, tag,
                       [report = step.args.report] { report->count_down(); });
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
  accumulate_sum.submit({.count = static_cast<std::int64_t>(sum.count())},
                        {accumulate(sum), read(other)}, tag);
  return sum;
}

void RankSums::gather_memory() {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (!is_shared(*params_[i])) continue;
    for (std::size_t at = 0; at < parts_[i].size(); ++at) {
      const int owner = parts_[i][at].owner;
      const bool sends = owner == ranks::rank();
      if (owner == 0 || !(sends || ranks::first())) continue;
      const std::array memory{params_[i]->velocity, params_[i]->mean_square};
      for (std::size_t which = 0; which < memory.size(); ++which)
        if (memory[which] != nullptr)
          submit_transfers({{sends ? Transfer::Kind::send : Transfer::Kind::receive,
                             {*memory[which], at},
                             {sends ? 0 : owner},
                             parameter_tag(i, at, which > 0)}});
    }
  }
}

}  // namespace omni
