#include "scheduling/policy/task_lengths.hpp"

#include <starpu_scheduler.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace omni {
namespace {

// Calls use(handle, mode) for each piece of data of a task. StarPU stores the first pieces in the
// task itself, and further ones in a separate array.
void for_data(const starpu_task& task, auto use) {
  for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(&task); ++i)
    use(STARPU_TASK_GET_HANDLE(&task, i), STARPU_TASK_GET_MODE(&task, i));
}

// Returns the time to transfer a piece of data. StarPU's own prediction assumes that all GPUs fetch
// at the same time over one bus. With eight GPUs that is 16 times as long as on idle links.
double transfer_length(starpu_data_handle_t data, unsigned from, unsigned to) {
  return starpu_transfer_latency(from, to) +
         static_cast<double>(starpu_data_get_size(data)) / starpu_transfer_bandwidth(from, to);
}

double transfer_length(starpu_data_handle_t data, unsigned node) {
  if (starpu_data_is_on_node(data, node) != 0) return 0;
  const unsigned nodes = starpu_memory_nodes_get_count();
  unsigned source = 0;
  while (source < nodes && starpu_data_is_on_node(data, source) == 0) ++source;
  if (source == nodes) return 0;  // no task has written it yet
  return transfer_length(data, source, node);
}

// Returns the memory of the last task that used the data. StarPU keeps a pointer for the scheduler
// with each piece of data. That pointer holds the memory's number plus 1, or null if no task has
// used the data.
std::optional<unsigned> last_user(starpu_data_handle_t data) {
  const auto kept = reinterpret_cast<std::uintptr_t>(starpu_data_get_sched_data(data));
  if (kept == 0) return std::nullopt;
  return static_cast<unsigned>(kept - 1);
}

// Calls visit() for data that the task updates and that was last used in another memory. Commuting
// accesses are left out, because many tasks that use such data follow each other.
void for_updates_of_others(const starpu_task& task, unsigned node, auto visit) {
  for_data(task, [&](starpu_data_handle_t data, int mode) {
    if ((mode & STARPU_RW) != STARPU_RW || (mode & STARPU_COMMUTE) != 0) return;
    const auto user = last_user(data);
    if (user && *user != node) visit(data, *user);
  });
}

// Guesses the length of a task, in microseconds, without its performance model.
double guess_length(const starpu_task& task, unsigned worker_type) {
  const bool core = worker_type == STARPU_CPU_WORKER;
  const double flops_per_us = core ? 2e4 : 5e6, bytes_per_us = core ? 5e3 : 1e6;
  const double start = core ? 1 : 10;
  double bytes = 0;
  for_data(task, [&](starpu_data_handle_t data, int) {
    bytes += static_cast<double>(starpu_data_get_size(data));
  });
  return start + task.flops / flops_per_us + bytes / bytes_per_us;
}

}  // namespace

std::span<const Choice> known_implementations(starpu_task* task, unsigned worker, Choices& room) {
  unsigned mask = 0;
  if (starpu_worker_can_execute_task_impl(worker, task, &mask) == 0) return {};
  std::size_t count = 0;
  for (unsigned implementation = 0; mask >> implementation != 0; ++implementation) {
    if ((mask >> implementation & 1u) == 0) continue;
    const double length =
        starpu_task_worker_expected_length(task, worker, task->sched_ctx, implementation);
    if (std::isnan(length)) {
      room[0] = {implementation, length};
      return std::span(room).first(1);
    }
    room[count++] = {implementation, length};
  }
  return std::span(room).first(count);
}

Exploration::Model model_of(starpu_task* task, unsigned worker) {
  starpu_perfmodel_arch* arch =
      starpu_worker_get_perf_archtype(static_cast<int>(worker), task->sched_ctx);
  const auto type = static_cast<std::uint64_t>(starpu_worker_get_type(static_cast<int>(worker)));
  return {reinterpret_cast<std::uintptr_t>(task->cl),
          type << 32 | starpu_task_footprint(task->cl->model, task, arch, 0)};
}

std::optional<double> best_length(starpu_task* task, std::span<const unsigned> workers) {
  Choices room;
  for (const unsigned worker : workers) {
    const auto known = known_implementations(task, worker, room);
    if (known.empty()) continue;
    // Tasks of other programs may have no model, so their lengths are never measured.
    if (task->cl->model == nullptr)
      return guess_length(*task, starpu_worker_get_type(static_cast<int>(worker)));
    return std::ranges::min_element(known, {}, &Choice::length)->length;
  }
  return std::nullopt;
}

void return_updates(const starpu_task& task, unsigned node) {
  for_updates_of_others(task, node, [&](starpu_data_handle_t data, unsigned user) {
    starpu_data_idle_prefetch_on_node_prio(data, user, 1, task.priority);
  });
}

bool TaskFacts::holds_shared(const starpu_task* task) const {
  bool holds = false;
  for_data(*task, [&](starpu_data_handle_t, int mode) { holds |= (mode & STARPU_COMMUTE) != 0; });
  return holds;
}

double TaskFacts::guess(const starpu_task* task, const Kind& kind) const {
  return guess_length(*task, kind.type);
}

double TaskFacts::transfer(const starpu_task* task, unsigned node) const {
  double length = 0;
  for_data(*task, [&](starpu_data_handle_t data, int) { length += transfer_length(data, node); });
  return length;
}

double TaskFacts::back(const starpu_task* task, unsigned node) const {
  double length = 0;
  for_updates_of_others(*task, node, [&](starpu_data_handle_t data, unsigned user) {
    length += transfer_length(data, node, user);
  });
  return length;
}

void TaskFacts::takes(const starpu_task* task, unsigned node) const {
  for_data(*task, [&](starpu_data_handle_t data, int) {
    starpu_data_set_sched_data(data, reinterpret_cast<void*>(std::uintptr_t{node} + 1));
  });
}

}  // namespace omni
