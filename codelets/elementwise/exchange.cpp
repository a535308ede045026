#include "codelets/elementwise/exchange.hpp"

#include <algorithm>
#include <array>

namespace omni {
namespace {

// Host side, of the CPU and of the CUDA implementation: StarPU keeps other exchanges of the same
// master out until this task is done.
void count_update(const ExchangeArgs& args) {
  if (args.ticket != nullptr) {
    Ticket& ticket = *args.ticket;
    const std::int64_t before = ticket.clock->load();
    const std::int64_t staleness = before - ticket.seen.load();
    *ticket.clock = before + 1;
    ticket.seen = before + 1;
    if (args.figure == Staleness::replicated) args.report->staleness = staleness;
    if (args.figure == Staleness::merged) {
      std::atomic<std::int64_t>& most = args.report->fc_staleness;
      for (std::int64_t known = most; known < staleness;)
        if (most.compare_exchange_weak(known, staleness)) break;
    }
  }
  if (args.report != nullptr && --args.report->left == 0)
    args.report->done(*args.report, args.report->argument);
}

void update(const ExchangeArgs& args, float* __restrict master, float* __restrict diff,
            float* __restrict velocity) {
  const std::int64_t count = args.count;
  const float learning_rate = args.learning_rate, momentum = args.momentum, decay = args.decay,
              gradient_scale = args.gradient_scale;
  for (std::int64_t i = 0; i < count; ++i) {
    const float gradient = gradient_scale * diff[i] + decay * master[i];
    velocity[i] = momentum * velocity[i] + gradient;
    master[i] -= learning_rate * velocity[i];
    diff[i] = 0;
  }
}

void exchange_vector(const ExchangeArgs& args, const Buffers& buffers, DeviceContext&) {
  // In pieces that stay in cache between the update and the copy.
  constexpr std::int64_t kPiece = 2048;
  for (std::int64_t first = 0; first < args.count; first += kPiece) {
    ExchangeArgs piece = args;
    piece.count = std::min(kPiece, args.count - first);
    update(piece, buffers.get(0) + first, buffers.get(1) + first, buffers.get(2) + first);
    if (args.refresh) std::copy_n(buffers.get(0) + first, piece.count, buffers.get(3) + first);
  }
  count_update(args);
}

void exchange_reference(const ExchangeArgs& args, const Buffers& buffers, DeviceContext&) {
  reference::exchange(args, buffers.get(0), buffers.get(1), buffers.get(2),
                      args.refresh ? buffers.get(3) : nullptr);
  count_update(args);
}

// Three are read and written, the replica is written.
Cost cost(const ExchangeArgs& args) {
  const auto count = static_cast<double>(args.count);
  return {.flops = 7 * count, .bytes = count * (args.refresh ? 7 : 6) * sizeof(float)};
}

// The rate changes every few iterations and must not start a new performance model.
std::uint64_t footprint(const ExchangeArgs& args) { return footprint_of(args.count, args.refresh); }

struct ReadNoteArgs {
  Ticket* ticket;
};

void note_read(const ReadNoteArgs& args, const Buffers&, DeviceContext&) {
  args.ticket->seen = args.ticket->clock->load();
}

Codelet<ReadNoteArgs> read_note({
    .name = "read_note",
    .color = 0xEDAE49,
    .implementations = {{"host", note_read}},
    .cost = [](const ReadNoteArgs&) { return Cost{}; },
    .footprint = [](const ReadNoteArgs&) { return footprint_of(0); },
});

}  // namespace

Codelet<ExchangeArgs> exchange({
    .name = "exchange",
    .color = 0xD1495B,
    .implementations = {{"vector", exchange_vector},
                        {"reference", exchange_reference, nullptr, Role::reference}},
    .cost = cost,
    .footprint = footprint,
});

void submit_exchange(ExchangeArgs args, const ExchangeTensors& tensors, ExchangeOrder order,
                     TaskTag tag) {
  args.refresh = tensors.replica != nullptr;
  const auto update_of = [order](TensorPart part) {
    return order == ExchangeOrder::arrival ? accumulate(part) : read_write(part);
  };
  for (std::size_t part = 0; part < tensors.master.parts(); ++part) {
    args.count = static_cast<std::int64_t>(tensors.master.count_of(part));
    const std::array accesses{update_of({tensors.master, part}), read_write({tensors.diff, part}),
                              update_of({tensors.velocity, part}),
                              write({args.refresh ? *tensors.replica : tensors.master, part})};
    exchange.submit(args, std::span(accesses).first(args.refresh ? 4 : 3), tag);
    args.ticket = nullptr;
    args.figure = Staleness::unwatched;
  }
}

void submit_read_note(Ticket& ticket, const Tensor& master, TaskTag tag) {
  read_note.submit({&ticket}, {read(master)}, tag);
}

}  // namespace omni
