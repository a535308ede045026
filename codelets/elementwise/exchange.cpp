#include "codelets/elementwise/exchange.hpp"

#include <algorithm>
#include <vector>

#include "codelets/elementwise/exchange_steps.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/when_ready.hpp"

namespace omni {

void count_update(const ExchangeArgs& args) {
  if (args.ticket == nullptr) return;
  Ticket& ticket = *args.ticket;
  const std::int64_t before = (*ticket.clock)++;
  const std::int64_t staleness = before - ticket.seen.load();
  ticket.seen = before + 1;
  if (args.figure == Staleness::replicated) {
    args.report->number = before + 1;
    args.report->staleness = staleness;
  }
  if (args.figure == Staleness::merged) {
    std::atomic<std::int64_t>& most = args.report->fc_staleness;
    for (std::int64_t known = most; known < staleness;)
      if (most.compare_exchange_weak(known, staleness)) break;
  }
}

void report_update(const ExchangeArgs& args) {
  if (args.report != nullptr) args.report->count_down();
}

namespace {

void exchange_vector(const ExchangeArgs& args, const Buffers& buffers, DeviceContext&) {
  // In pieces that stay in cache between the update and the copy.
  constexpr std::int64_t kPiece = 2048;
  with_step(args, [&](const auto& step) {
    for (std::int64_t first = 0; first < args.count; first += kPiece) {
      const std::int64_t count = std::min(kPiece, args.count - first);
      float* master = buffers.get(0) + first;
      update_values(step, count, master, buffers.get(1) + first, buffers.get(2) + first,
                    args.adam ? buffers.get(mean_square_index(args)) + first : nullptr);
      if (args.refresh) std::copy_n(master, count, buffers.get(3) + first);
    }
  });
}

void exchange_reference(const ExchangeArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::exchange(args, buffers.get(0), buffers.get(1), buffers.get(2),
                      args.refresh ? buffers.get(3) : nullptr,
                      args.adam ? buffers.get(mean_square_index(args)) : nullptr);
}

// Three or four are read and written, the replica is written.
Cost cost(const ExchangeArgs& args) {
  const auto count = static_cast<double>(args.count);
  return {.flops = flops_per_value(args) * count,
          .bytes = count * ((args.adam ? 8 : 6) + (args.refresh ? 1 : 0)) * sizeof(float)};
}

// The rate changes every few iterations and must not start a new performance model.
std::uint64_t footprint(const ExchangeArgs& args) {
  return footprint_of(args.count, args.refresh, args.adam);
}

}  // namespace

Codelet<ExchangeArgs> exchange({
    .name = "exchange",
    .color = 0xD1495B,
    .implementations = {{"vector", exchange_vector},
                        {"reference", exchange_reference, nullptr, Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::exchange)},
    .cost = cost,
    .footprint = footprint,
    .when_begun = count_update,
    .when_done = report_update,
});

void submit_exchange(ExchangeArgs args, const ExchangeTensors& tensors, ExchangeOrder order,
                     TaskTag tag) {
  args.refresh = tensors.replica != nullptr;
  args.adam = tensors.mean_square != nullptr;
  const auto update_of = [order](TensorPart part) {
    return order == ExchangeOrder::arrival ? accumulate(part) : read_write(part);
  };
  for (std::size_t part = 0; part < tensors.master.parts(); ++part) {
    args.count = static_cast<std::int64_t>(tensors.master.count_of(part));
    std::vector<Access> accesses{update_of({tensors.master, part}),
                                 read_write({tensors.diff, part}),
                                 update_of({tensors.velocity, part})};
    if (args.refresh) accesses.push_back(write({*tensors.replica, part}));
    if (args.adam) accesses.push_back(update_of({*tensors.mean_square, part}));
    exchange.submit(args, accesses, tag);
    args.leave_uncounted();
  }
}

void note_read(Ticket& ticket, const Tensor& master) {
  when_ready(TensorPart(master), [&ticket] { ticket.seen = ticket.clock->load(); });
}

}  // namespace omni
