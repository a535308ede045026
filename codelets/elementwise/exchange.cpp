#include "codelets/elementwise/exchange.hpp"

#include <algorithm>
#include <vector>

#include "runtime/tasks/calls/task_chain.hpp"
#include "runtime/tasks/calls/when_ready.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

void count_update(const ExchangeArgs& args) {
  if (args.seen == nullptr) return;
  SeenVersion& seen = *args.seen;
  const std::int64_t before = (*seen.count)++;
  const std::int64_t staleness = before - seen.version.load();
  seen.version = before + 1;
  if (args.reports == Staleness::replicated) args.report->staleness = staleness;
  if (args.reports == Staleness::merged) {
    std::atomic<std::int64_t>& most = args.report->fc_staleness;
    for (std::int64_t known = most; known < staleness;)
      if (most.compare_exchange_weak(known, staleness)) break;
  }
}

void report_update(const ExchangeArgs& args) {
  if (args.report != nullptr) args.report->count_down();
}

namespace {

void exchange_in_pieces(const ExchangeArgs& args, const Exchanged<float>& of) {
  // The kernel updates and copies pieces of this many values, so that a piece stays in the cache
  // between both.
  constexpr std::int64_t kPiece = 2048;
  use_step_of(args, [&](const auto& step) {
    for (std::int64_t first = 0; first < args.count; first += kPiece) {
      const std::int64_t count = std::min(kPiece, args.count - first);
      float* master = of.master + first;
      std::array<float, kPiece> corrections;
      if (args.corrects)
        for (std::int64_t i = 0; i < count; ++i)
          corrections[i] = args.pull * (master[i] - of.centre[first + i]);
      update_values(step, count, args.clears, master, of.diff + first, of.velocity + first,
                    args.adam ? of.mean_square + first : nullptr);
      if (args.corrects)
        for (std::int64_t i = 0; i < count; ++i) {
          master[i] -= corrections[i];
          of.change[first + i] += corrections[i];
        }
      if (args.refresh) std::copy_n(master, count, of.replica + first);
      if (args.rounds) std::copy_n(master, count, static_cast<float*>(of.rounded) + first);
    }
  });
}

template <void (*exchange_one)(const ExchangeArgs&, const Exchanged<float>&)>
void exchange_each(const ExchangeTaskArgs& args, const Buffers& buffers, DeviceContext&) {
  for_each_exchanged<float>(
      args, buffers, [](std::size_t, const auto& one, const auto& of) { exchange_one(one, of); });
}

// Returns the cost. Master, velocity, mean square and change are read and written. The gradient and
// the centre are read; the gradient is written only if it is cleared. Copies are only written.
Cost cost(const ExchangeTaskArgs& args) {
  Cost sum;
  for (const ExchangeArgs& one : args.all()) {
    const auto count = static_cast<double>(one.count);
    sum.flops += flops_per_value(one) * count;
    sum.bytes += count *
                 ((one.adam ? 7 : 5) + (one.clears ? 1 : 0) + (one.refresh ? 1 : 0) +
                  (one.corrects ? 3 : 0) + (one.rounds ? 1 : 0)) *
                 sizeof(float);
  }
  return sum;
}

// Returns the footprint without the rate. The rate changes every few iterations, and must not
// select another performance model.
std::uint64_t footprint(const ExchangeTaskArgs& args) {
  std::uint64_t hash = 0;
  for (const ExchangeArgs& one : args.all()) {
    std::uint64_t own = footprint_of(one.count, one.refresh, one.adam, one.rule);
    if (!one.clears) own = footprint_of(own, one.clears);
    if (one.corrects || one.rounds) own = footprint_of(own, one.corrects, one.rounds);
    hash = hash == 0 ? own : footprint_of(hash, own);
  }
  return hash;
}

// A small parameter has at most this many values. Its update takes less time than starting a task.
// If large parameters were in one task, they would wait for each other and all be fetched to one
// worker. On four and eight simulated GPUs that took 3 to 5 % of an iteration.
constexpr std::size_t kSmall = 16384;

template <void (*of_one)(const ExchangeArgs&)>
void for_all(const ExchangeTaskArgs& args) {
  for (const ExchangeArgs& one : args.all()) of_one(one);
}

}  // namespace

Codelet<ExchangeTaskArgs> exchange({
    .name = "exchange",
    .color = 0xD1495B,
    .implementations = {{"vector", exchange_each<exchange_in_pieces>},
                        {"reference", exchange_each<reference::exchange<float>>, nullptr,
                         Role::reference},
                        OMNI_GPU_IMPLEMENTATION_MAYBE(gpu::exchange, BufferSet(~0u))},
    .cost = cost,
    .footprint = footprint,
    .when_begun = for_all<count_update>,
    .when_done = for_all<report_update>,
});

void submit_exchanges(std::span<const Exchange> exchanges, ExchangeOrder order, TaskTag tag) {
  const auto update_of = [order](TensorPart part) {
    return order == ExchangeOrder::arrival ? accumulate(part) : read_write(part);
  };
  ExchangeTaskArgs together;
  std::vector<Access> accesses;
  const auto submit = [&] {
    if (together.count > 0) exchange.submit(together, accesses, tag);
    together.count = 0;
    accesses.clear();
  };
  const bool chained = TaskChain::open() != nullptr;  // a chain runs all updates one after another
  for (const auto& [rule, tensors, only] : exchanges) {
    ExchangeArgs args = rule;
    args.refresh = tensors.replica != nullptr;
    args.adam = tensors.mean_square != nullptr;
    args.corrects = tensors.centre != nullptr;
    args.rounds = tensors.master.rounded() != nullptr;
    const std::size_t most = chained         ? ExchangeTaskArgs::kMost
                             : args.corrects ? ExchangeTaskArgs::kMostCorrected
                                             : ExchangeTaskArgs::kMostAlone;
    const bool joins =
        chained || (tensors.master.parts() == 1 && tensors.master.count_of(0) <= kSmall);
    if (!joins) submit();
    for (std::size_t number = 0; number < tensors.master.parts(); ++number) {
      const TensorPart range = only.value_or(TensorPart(tensors.master, number)),
                       part = range.of(tensors.master);
      if (part.part != number) continue;
      args.count = static_cast<std::int64_t>(part.count());
      together.params[together.count++] = args;
      const TensorPart diff = range.of(tensors.diff);
      accesses.insert(accesses.end(), {update_of(part), args.clears ? read_write(diff) : read(diff),
                                       update_of(range.of(tensors.velocity))});
      if (args.refresh) accesses.push_back(write(range.of(*tensors.replica)));
      if (args.adam) accesses.push_back(update_of(range.of(*tensors.mean_square)));
      if (args.corrects)
        accesses.insert(accesses.end(),
                        {read(range.of(*tensors.centre)), update_of(range.of(*tensors.change))});
      if (args.rounds) accesses.push_back(write(*tensors.master.rounded()));
      if (!joins || together.count == most) submit();
      args.leave_uncounted();
    }
  }
  submit();
}

void note_read(SeenVersion& seen, const Tensor& master) {
  when_ready(TensorPart(master), [&seen] { seen.version = seen.count->load(); });
}

}  // namespace omni
