#include "codelets/elementwise/exchange.hpp"

#include <algorithm>
#include <vector>

#include "codelets/elementwise/exchange_steps.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/when_ready.hpp"

namespace omni {

void count_update(const ExchangeArgs& args) {
  if (args.ticket != nullptr) {
    Ticket& ticket = *args.ticket;
    const std::int64_t before = (*ticket.clock)++;
    const std::int64_t staleness = before - ticket.seen.load();
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

namespace {

void update_vector(const ExchangeArgs& args, const ExchangeBuffers<float>& buffers) {
  // In pieces that stay in cache between the update and the copy.
  constexpr std::int64_t kPiece = 2048;
  with_step(args, [&](const auto& step) {
    for (std::int64_t first = 0; first < args.count; first += kPiece) {
      const std::int64_t count = std::min(kPiece, args.count - first);
      float* master = buffers.master + first;
      update_values(step, count, master, buffers.diff + first, buffers.velocity + first,
                    args.adam ? buffers.mean_square + first : nullptr);
      if (args.refresh) std::copy_n(master, count, buffers.replica + first);
    }
  });
}

template <void (*update)(const ExchangeArgs&, const ExchangeBuffers<float>&)>
void exchange_each(const ExchangesArgs& args, const Buffers& buffers, DeviceContext&) {
  for (std::size_t i = 0; i < args.parameters; ++i)
    update(args.of[i], exchange_buffers(args, buffers, i));
}

// Three or four are read and written, the replica is written.
Cost cost(const ExchangesArgs& args) {
  Cost sum;
  for (std::size_t i = 0; i < args.parameters; ++i) {
    const ExchangeArgs& each = args.of[i];
    const auto count = static_cast<double>(each.count);
    sum.flops += (each.adam ? 16 : 7) * count;
    sum.bytes += count * ((each.adam ? 8 : 6) + (each.refresh ? 1 : 0)) * sizeof(float);
  }
  return sum;
}

// The rate changes every few iterations and must not start a new performance model.
std::uint64_t footprint(const ExchangesArgs& args) {
  const auto& of = args.of;
  return footprint_of(args.parameters, of[0].count, of[1].count, of[2].count, of[0].refresh,
                      of[0].adam);
}

void count_updates(const ExchangesArgs& args) {
  for (std::size_t i = 0; i < args.parameters; ++i) count_update(args.of[i]);
}

}  // namespace

Codelet<ExchangesArgs> exchange({
    .name = "exchange",
    .color = 0xD1495B,
    .implementations = {{"vector", exchange_each<update_vector>},
                        {"reference", exchange_each<reference::exchange<float>>, nullptr,
                         Role::reference},
                        OMNI_GPU_IMPLEMENTATION(gpu::exchange)},
    .cost = cost,
    .footprint = footprint,
    .when_done = count_updates,
});

void submit_exchange(std::span<const ParameterUpdate> parameters, ExchangeOrder order,
                     TaskTag tag) {
  const auto update_of = [order](TensorPart part) {
    return order == ExchangeOrder::arrival ? accumulate(part) : read_write(part);
  };
  while (!parameters.empty()) {
    ExchangesArgs args{.parameters = std::min(parameters.size(), ExchangesArgs::kMost)};
    const auto together = parameters.first(args.parameters);
    parameters = parameters.subspan(args.parameters);
    for (std::size_t part = 0; part < together.front().tensors.master.parts(); ++part) {
      std::vector<Access> accesses;
      for (std::size_t i = 0; i < together.size(); ++i) {
        const auto& [given, tensors] = together[i];
        args.of[i] = given;
        args.of[i].count = static_cast<std::int64_t>(tensors.master.count_of(part));
        args.of[i].refresh = tensors.replica != nullptr;
        args.of[i].adam = tensors.mean_square != nullptr;
        if (part > 0) args.of[i].leave_uncounted();
        accesses.insert(accesses.end(),
                        {update_of({tensors.master, part}), read_write({tensors.diff, part}),
                         update_of({tensors.velocity, part})});
        if (args.of[i].refresh) accesses.push_back(write({*tensors.replica, part}));
        if (args.of[i].adam) accesses.push_back(update_of({*tensors.mean_square, part}));
      }
      exchange.submit(args, accesses, tag);
    }
  }
}

void note_read(Ticket& ticket, const Tensor& master) {
  when_ready(TensorPart(master), [&ticket] { ticket.seen = ticket.clock->load(); });
}

}  // namespace omni
