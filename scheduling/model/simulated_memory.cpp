#include "scheduling/model/simulated_memory.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace omni {

std::size_t SimulatedMemory::add(std::size_t bytes) {
  data_.push_back({.bytes = static_cast<double>(bytes)});
  return data_.size() - 1;
}

double SimulatedMemory::seconds(std::size_t datum, unsigned from, unsigned to) const {
  const MachineModel::Link& link = links_[from][to];
  return link.latency + data_[datum].bytes * link.seconds_per_byte;
}

// The nearest, as StarPU chooses it.
unsigned SimulatedMemory::source_of(std::size_t datum, unsigned memory) const {
  unsigned best = memory;
  for (unsigned from = 0; from < links_.size(); ++from)
    if (is_in(datum, from) &&
        (best == memory || seconds(datum, from, memory) < seconds(datum, best, memory)))
      best = from;
  return best;
}

double SimulatedMemory::transfer_seconds(std::size_t datum, unsigned memory) const {
  if (is_in(datum, memory)) return 0;
  unsigned first = 0;
  while (!is_in(datum, first)) ++first;
  return seconds(datum, first, memory);
}

void SimulatedMemory::fetch(std::size_t datum, unsigned memory, int priority,
                            std::function<void()> arrived) {
  if (is_in(datum, memory)) {
    if (arrived) arrived();
    return;
  }
  Transfer* transfer = nullptr;
  Link* way = nullptr;
  for (unsigned from = 0; from < links_.size() && transfer == nullptr; ++from) {
    way = &link(from, memory);
    const auto found = std::ranges::find(*way, datum, &Transfer::datum);
    if (found != way->end()) transfer = &*found;
  }
  if (transfer == nullptr) {
    const unsigned from = source_of(datum, memory);
    way = &link(from, memory);
    transfer = &way->emplace_back(Transfer{.datum = datum,
                                           .from = from,
                                           .to = memory,
                                           .priority = priority,
                                           .number = count_++,
                                           .awaited = false,
                                           .under_way = false,
                                           .arrived = {}});
  }
  transfer->priority = std::max(transfer->priority, priority);
  if (arrived) {
    transfer->awaited = true;
    transfer->arrived.push_back(std::move(arrived));
  }
  start_next(*way);
}

// From one memory to another goes one datum at a time: what a task waits for first.
void SimulatedMemory::start_next(Link& link) {
  const auto rank = [](const Transfer& each) {
    return std::tuple(!each.under_way, !each.awaited, -each.priority, each.number);
  };
  const auto next = std::ranges::min_element(link, {}, rank);
  if (next == link.end() || next->under_way) return;
  next->under_way = true;
  clock_.at(clock_.now() + seconds(next->datum, next->from, next->to),
            [this, &link, number = next->number] { finish(link, number); });
}

void SimulatedMemory::finish(Link& link, std::uint64_t number) {
  const auto transfer = std::ranges::find(link, number, &Transfer::number);
  data_[transfer->datum].valid |= 1u << transfer->to;
  const auto arrived = std::move(transfer->arrived);
  link.erase(transfer);
  start_next(link);
  for (const auto& tell : arrived) tell();
}

}  // namespace omni
