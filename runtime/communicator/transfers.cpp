#include "runtime/communicator/transfers.hpp"

#include <starpu.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/communicator/ranks.hpp"
#include "runtime/tasks/calls/task_chain.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {
namespace {

struct TransferGroup {
  std::vector<Transfer> transfers;
  std::function<void()> then;
  std::atomic<std::size_t> to_acquire;
};

// What StarPU's callback gets: it owns a share of the group.
struct OneAcquired {
  std::shared_ptr<TransferGroup> group;
};

DataHandle handle_of(const Transfer& each) { return each.part.tensor->handle(each.part.part); }
std::size_t bytes_of(const Transfer& each) {
  return each.part.count() * bytes_of(each.part.tensor->type());
}
void* memory_of(const Transfer& each) { return starpu_data_get_local_ptr(handle_of(each)); }

void finish_transfers(const TransferGroup& group) {
  for (const Transfer& each : group.transfers) {
    if (each.kind == Transfer::Kind::send_and_clear)
      std::memset(memory_of(each), 0, bytes_of(each));
    starpu_data_release_on_node(handle_of(each), STARPU_MAIN_RAM);
  }
  if (group.then) group.then();
}

void begin_transfers(void* argument) {
  const std::unique_ptr<OneAcquired> own(static_cast<OneAcquired*>(argument));
  if (--own->group->to_acquire > 0) return;
  std::vector<ranks::Message> messages;
  for (const Transfer& each : own->group->transfers)
    for (const int peer : each.peers)
      messages.push_back({.data = memory_of(each),
                          .bytes = bytes_of(each),
                          .peer = peer,
                          .tag = each.tag,
                          .sends = each.kind != Transfer::Kind::receive});
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

AccessMode access_of(Transfer::Kind kind) {
  return kind == Transfer::Kind::send      ? AccessMode::read
         : kind == Transfer::Kind::receive ? AccessMode::write
                                           : AccessMode::read_write;
}

}  // namespace

void submit_transfers(std::vector<Transfer> transfers, TaskTag tag, std::function<void()> then) {
  std::vector<Access> accesses;
  for (const Transfer& each : transfers) accesses.push_back({each.part, access_of(each.kind)});
  if (task_capture::is_on() &&
      !task_capture::submitted(kTransferName, accesses, tag, 0, 0, [] { return WorkingFloats(); }))
    return;
  if (TaskChain* chain = TaskChain::open()) chain->submit();  // what this has to wait for
  const auto group = std::make_shared<TransferGroup>();
  group->to_acquire = transfers.size();
  group->then = std::move(then);
  group->transfers = std::move(transfers);
  for (const Transfer& each : group->transfers) {
    const starpu_data_access_mode mode = each.kind == Transfer::Kind::send      ? STARPU_R
                                         : each.kind == Transfer::Kind::receive ? STARPU_W
                                                                                : STARPU_RW;
    starpu_data_acquire_on_node_cb(handle_of(each), STARPU_MAIN_RAM, mode, begin_transfers,
                                   new OneAcquired{group});
  }
}

}  // namespace omni
