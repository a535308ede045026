#include "runtime/communicator/transfers.hpp"

#include <starpu.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/communicator/ranks.hpp"
#include "runtime/tasks/calls/codelet_call.hpp"
#include "runtime/tasks/calls/task_chain.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {
namespace {

struct TransferGroup {
  std::vector<Transfer> transfers;
  std::vector<Access> accesses;  // one per part of a tensor, however many transfers use the part
  std::function<void()> then;
  bool even_after_errors = true;
  std::atomic<std::size_t> to_acquire;
};

// A OneAcquired is the argument of StarPU's callback, which takes a plain pointer.
struct OneAcquired {
  std::shared_ptr<TransferGroup> group;
};

DataHandle handle_of(const TensorPart& part) { return part.tensor->handle(part.part); }
std::size_t bytes_of(const Transfer& each) {
  return each.part.count() * bytes_of(each.part.tensor->type());
}
void* memory_of(const Transfer& each) {
  return static_cast<std::byte*>(starpu_data_get_local_ptr(handle_of(each.part))) +
         each.part.first * bytes_of(each.part.tensor->type());
}

void finish_transfers(const TransferGroup& group) {
  for (const Transfer& each : group.transfers)
    if (each.kind == Transfer::Kind::send_and_clear)
      std::memset(memory_of(each), 0, bytes_of(each));
  for (const Access& each : group.accesses)
    starpu_data_release_on_node(handle_of(each.data), STARPU_MAIN_RAM);
  if (group.then) group.then();
}

void begin_transfers(void* argument) {
  const std::unique_ptr<OneAcquired> own(static_cast<OneAcquired*>(argument));
  if (--own->group->to_acquire > 0) return;
  if (!own->group->even_after_errors && first_task_error() != nullptr)
    return finish_transfers(*own->group);
  std::vector<ranks::Message> messages;
  for (const Transfer& each : own->group->transfers)
    for (const int peer : each.peers)
      messages.push_back({.data = memory_of(each),
                          .bytes = bytes_of(each),
                          .peer = peer,
                          .tag = each.tag,
                          .sends = each.kind != Transfer::Kind::receive,
                          .in_job = each.in_job});
  ranks::post(std::move(messages), [group = own->group, from = recording::now()] {
    for (const Transfer& each : group->transfers)
      if (each.kind == Transfer::Kind::receive && recording::on())
        recording::write(trace::Transfer{.bytes = bytes_of(each),
                                         .from = from,
                                         .to = recording::now(),
                                         .from_rank = each.peers.front()});
    finish_transfers(*group);
  });
}

std::vector<Access> accesses_of(const std::vector<Transfer>& transfers) {
  std::vector<Access> accesses;
  for (const auto& [kind, part, peers, tag, in_job] : transfers) {
    const Access own{{*part.tensor, part.part},
                     kind == Transfer::Kind::send      ? AccessMode::read
                     : kind == Transfer::Kind::receive ? write(part).mode
                                                       : AccessMode::read_write};
    const auto id_of = [](const TensorPart& of) { return of.tensor->id(of.part); };
    const auto known = std::ranges::find_if(
        accesses, [&](const Access& each) { return id_of(each.data) == id_of(own.data); });
    if (known == accesses.end())
      accesses.push_back(own);
    else if (known->mode != own.mode)
      known->mode = AccessMode::read_write;
  }
  return accesses;
}

}  // namespace

void submit_transfers(std::vector<Transfer> transfers, TaskTag tag, std::function<void()> then,
                      bool even_after_errors) {
  if (transfers.empty()) return;
  std::vector<Access> accesses = accesses_of(transfers);
  if (task_capture::is_on() &&
      !task_capture::submitted(kTransferName, accesses, tag, 0, 0, [] { return WorkingFloats(); }))
    return;
  if (TaskChain* chain = TaskChain::open()) chain->submit();  // its calls come first
  const auto group = std::make_shared<TransferGroup>();
  group->to_acquire = accesses.size();
  group->then = std::move(then);
  group->even_after_errors = even_after_errors;
  group->transfers = std::move(transfers);
  group->accesses = std::move(accesses);
  for (const Access& each : group->accesses)
    starpu_data_acquire_on_node_cb(handle_of(each.data), STARPU_MAIN_RAM, starpu_mode(each.mode),
                                   begin_transfers, new OneAcquired{group});
}

}  // namespace omni
