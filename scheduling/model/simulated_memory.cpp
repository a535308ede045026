#include "scheduling/model/simulated_memory.hpp"

#include <algorithm>
#include <bit>
#include <tuple>

namespace omni {
namespace {

// What a GPU's driver needs to start a transfer, s; StarPU's simulation supposes the same.
constexpr double kToStart = 10e-6;

}  // namespace

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
  const std::uint32_t there = data_[datum].valid | data_[datum].on_its_way;
  if ((there >> memory & 1u) != 0) return 0;
  return seconds(datum, static_cast<unsigned>(std::countr_zero(there)), memory);
}

void SimulatedMemory::fetch(std::size_t datum, unsigned memory, int priority,
                            std::function<void()> arrived) {
  if (is_in(datum, memory)) {
    if (arrived) arrived();
    return;
  }
  auto transfer = std::ranges::find_if(
      transfers_, [&](const Transfer& each) { return each.datum == datum && each.to == memory; });
  if (transfer == transfers_.end()) {
    data_[datum].on_its_way |= 1u << memory;
    transfer = transfers_.insert(transfers_.end(), {.datum = datum,
                                                    .from = source_of(datum, memory),
                                                    .to = memory,
                                                    .priority = priority,
                                                    .number = count_++});
  }
  transfer->priority = std::max(transfer->priority, priority);
  if (arrived) {
    transfer->awaited = true;
    transfer->arrived.push_back(std::move(arrived));
  }
  start_next(driver_of(*transfer));
}

// The thread that drives a GPU starts the transfers to it, and those from it to the first memory.
unsigned SimulatedMemory::driver_of(const Transfer& transfer) {
  return transfer.to != 0 ? transfer.to : transfer.from;
}

// Who must pass one after the other, as StarPU has observed it on GPUs: what goes the same way or
// there and back, and what reaches an end of a transfer between two of them.
bool SimulatedMemory::exclude(const Transfer& one, const Transfer& other) {
  const auto between_gpus = [](const Transfer& each) { return each.from != 0 && each.to != 0; };
  const auto reaches = [](const Transfer& each, const Transfer& end) {
    return each.to == end.from || each.to == end.to;
  };
  return (one.from == other.from && one.to == other.to) ||
         (between_gpus(one) && reaches(other, one)) || (between_gpus(other) && reaches(one, other));
}

// First what a task waits for.
void SimulatedMemory::start_next(unsigned driver) {
  if (driver_is_busy_[driver]) return;
  Transfer* next = nullptr;
  const auto rank = [](const Transfer& each) {
    return std::tuple(!each.awaited, -each.priority, each.number);
  };
  for (Transfer& each : transfers_)
    if (each.state == Transfer::State::requested && driver_of(each) == driver &&
        (next == nullptr || rank(each) < rank(*next)))
      next = &each;
  if (next == nullptr) return;
  driver_is_busy_[driver] = true;
  next->state = Transfer::State::being_started;
  clock_.at(clock_.now() + kToStart, [this, driver, next] {
    driver_is_busy_[driver] = false;
    start(*next);
    start_next(driver);
  });
}

void SimulatedMemory::start(Transfer& transfer) {
  for (Transfer& other : transfers_)
    if (other.state == Transfer::State::started && exclude(transfer, other)) {
      other.before.push_back(&transfer);
      ++transfer.waits_for;
    }
  transfer.state = Transfer::State::started;
  if (transfer.waits_for == 0) travel(transfer);
}

void SimulatedMemory::travel(Transfer& transfer) {
  clock_.at(clock_.now() + seconds(transfer.datum, transfer.from, transfer.to),
            [this, &transfer] { finish(transfer); });
}

void SimulatedMemory::finish(Transfer& transfer) {
  const std::uint32_t there = 1u << transfer.to;
  data_[transfer.datum].valid |= there;
  data_[transfer.datum].on_its_way &= ~there;
  for (Transfer* next : transfer.before)
    if (--next->waits_for == 0) travel(*next);
  const auto arrived = std::move(transfer.arrived);
  transfers_.remove_if([&](const Transfer& each) { return &each == &transfer; });
  for (const auto& tell : arrived) tell();
}

}  // namespace omni
