#include "scheduling/policy/task_lengths.hpp"

#include <starpu_scheduler.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace omni {
namespace {

// A model learns only about what runs: an implementation that was first measured while others used
// the machine would be passed over for ever. So one choice in kOtherChoices goes to another one
// that seems at most kWorthALook times as slow. With the usual two or three, that costs well below
// 1 %.
constexpr std::uint64_t kOtherChoices = 200;
constexpr double kWorthALook = 4;

// To bring a piece of data there. StarPU's own prediction supposes that all GPUs fetch at the same
// time, over one bus: with eight of them it is 16 times as long as what passes on idle links.
double transfer_length(starpu_data_handle_t data, unsigned node) {
  if (starpu_data_is_on_node(data, node) != 0) return 0;
  const unsigned nodes = starpu_memory_nodes_get_count();
  unsigned source = 0;
  while (source < nodes && starpu_data_is_on_node(data, source) == 0) ++source;
  if (source == nodes) return 0;  // nobody has written it yet
  return starpu_transfer_latency(source, node) +
         static_cast<double>(starpu_data_get_size(data)) / starpu_transfer_bandwidth(source, node);
}

}  // namespace

std::optional<Choice> choose_implementation(starpu_task* task, unsigned worker) {
  thread_local std::uint64_t choices = 0;
  unsigned mask = 0;
  if (starpu_worker_can_execute_task_impl(worker, task, &mask) == 0) return std::nullopt;
  std::array<Choice, STARPU_MAXIMPLEMENTATIONS> known;
  std::size_t count = 0, best = 0;
  for (unsigned implementation = 0; mask >> implementation != 0; ++implementation) {
    if ((mask >> implementation & 1u) == 0) continue;
    const double length =
        starpu_task_worker_expected_length(task, worker, task->sched_ctx, implementation);
    if (std::isnan(length)) return Choice{implementation, length};
    known[count] = {implementation, length};
    if (length < known[best].length) best = count;
    ++count;
  }
  if (++choices % kOtherChoices != 0) return known[best];
  const std::size_t other = choices / kOtherChoices % count;  // in turn, the best one too
  return known[known[other].length < kWorthALook * known[best].length ? other : best];
}

double guess_length(const starpu_task& task, starpu_worker_archtype type) {
  const bool core = type == STARPU_CPU_WORKER;
  const double flops_per_us = core ? 2e4 : 5e6, bytes_per_us = core ? 5e3 : 1e6;
  const double start = core ? 1 : 10;
  double bytes = 0;
  for (int i = 0; i < task.nbuffers; ++i)
    bytes += static_cast<double>(starpu_data_get_size(task.handles[i]));
  return start + task.flops / flops_per_us + bytes / bytes_per_us;
}

std::optional<double> best_length(starpu_task* task, std::span<const unsigned> workers) {
  unsigned mask = 0;
  const auto able = std::find_if(workers.begin(), workers.end(), [&](unsigned worker) {
    return starpu_worker_can_execute_task_impl(worker, task, &mask) != 0;
  });
  if (able == workers.end()) return std::nullopt;
  // Others' programs have tasks without a model: nobody will ever know more.
  if (task->cl->model == nullptr)
    return guess_length(*task, starpu_worker_get_type(static_cast<int>(*able)));
  double best = std::numeric_limits<double>::infinity();
  for (unsigned implementation = 0; mask >> implementation != 0; ++implementation)
    if ((mask >> implementation & 1u) != 0) {
      const double length =
          starpu_task_worker_expected_length(task, *able, task->sched_ctx, implementation);
      if (std::isnan(length)) return length;
      best = std::min(best, length);
    }
  return best;
}

double transfer_length(const starpu_task& task, unsigned node) {
  double length = 0;
  for (int i = 0; i < task.nbuffers; ++i) length += transfer_length(task.handles[i], node);
  return length;
}

}  // namespace omni
