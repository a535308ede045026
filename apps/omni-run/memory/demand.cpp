#include "apps/omni-run/memory/demand.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/cuda/gpu_tensors.hpp"
#include "runtime/memory/memory_limits.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/tensor_pool.hpp"
#include "scheduling/training/trainer.hpp"

namespace omni {
namespace {

// StarPU's tasks, libraries and heaps of threads take this many bytes of address space, which are
// not planned.
constexpr std::size_t kSpare = 64 << 20;

double in_gib(std::size_t bytes) { return static_cast<double>(bytes) / 0x1p30; }

Error too_large(const Net& net, std::size_t needed, std::size_t there, const char* where,
                std::string hint) {
  return {ErrorKind::out_of_memory, net.name(),
          fmt::format("needs {:.2f} GiB{}, there are {:.2f}", in_gib(needed), where, in_gib(there)),
          std::move(hint)};
}

}  // namespace

MemoryDemand training_demand(const ComputeGroups& groups, const DataFeed& train,
                             const DataFeed* test, const Net::WorkingBytes& working) {
  MemoryDemand demand = evaluation_demand(groups.net(), test, working);
  demand.tensors = groups.tensor_sizes();
  demand.training_images = train.tensor_sizes();
  const std::vector<int> here = groups.here();
  for (const int group : here)
    if (groups.count() > 1) demand.groups.push_back(groups.workers(group));
  demand.more_when_cut =
      static_cast<double>(Trainer::slots(static_cast<int>(here.size()), 2)) / train.slots();
  return demand;
}

MemoryDemand evaluation_demand(const Net& net, const DataFeed* test,
                               const Net::WorkingBytes& working) {
  return {.tensors = net.tensor_sizes(),
          .training_images = {},
          .test_images = test != nullptr ? test->tensor_sizes() : std::vector<TensorSize>(),
          .working = working};
}

Net::WorkingBytes working_on_gpus(Net& net) {
  return gpus_compute() ? net.working_bytes() : Net::WorkingBytes();
}

MemoryForecast::MemoryForecast(const Net& net, MemoryDemand demand, const MachineArguments& machine)
    : net_(net), demand_(std::move(demand)), machine_(machine), now_(net.options().subdivisions) {}

double MemoryForecast::of_images(const std::vector<TensorSize>& images, int subdivisions) const {
  double bytes = 0;
  for (const TensorSize& each : images) bytes += static_cast<double>(each.bytes);
  return bytes * share_of_now(subdivisions);
}

std::size_t MemoryForecast::in_main_memory(int subdivisions) const {
  double bytes = of_images(demand_.training_images, subdivisions) * more_slots(subdivisions) +
                 of_images(demand_.test_images, subdivisions);
  for (const TensorSize& each : demand_.tensors) {
    if (each.is_transient && only_gpus_compute()) continue;
    bytes += static_cast<double>(each.bytes) * (each.is_transient ? share_of_now(subdivisions) : 1);
  }
  return static_cast<std::size_t>(bytes) + demand_.in_main_memory_only;
}

// A group's mini-batch is on the GPUs that serve the group; if cores serve it, maybe on any GPU.
// StarPU numbers the workers of a GPU consecutively.
double MemoryForecast::largest_share() const {
  const std::size_t gpus = machine_.session.gpus.size();
  if (demand_.groups.empty()) return 1 / static_cast<double>(gpus);
  const std::vector<std::size_t> workers = gpu_worker_numbers();
  std::vector<double> groups_on(gpus);
  for (const WorkerSet& group : demand_.groups) {
    std::set<std::size_t> serve;
    for (std::size_t i = 0; i < workers.size(); ++i)
      if (group.has(workers[i])) serve.insert(i * gpus / workers.size());
    for (std::size_t gpu = 0; gpu < gpus; ++gpu)
      if (serve.empty() || serve.contains(gpu))
        groups_on[gpu] += 1 / static_cast<double>(serve.empty() ? gpus : serve.size());
  }
  return std::ranges::max(groups_on) / static_cast<double>(demand_.groups.size());
}

// Each GPU has its slices of a mini-batch, and all other tensors.
MemoryForecast::OnGpu MemoryForecast::on_each_gpu(int subdivisions) const {
  const auto gpus = static_cast<double>(machine_.session.gpus.size());
  const double share = share_of_now(subdivisions), largest = largest_share();
  GpuTensors tensors;
  const auto add = [&](const std::vector<TensorSize>& images, double times) {
    for (const TensorSize& each : images)
      tensors.add(static_cast<double>(each.bytes) * share, times * largest);
  };
  add(demand_.training_images, more_slots(subdivisions));
  add(demand_.test_images, 1);
  for (const TensorSize& each : demand_.tensors) {
    const auto bytes = static_cast<double>(each.bytes);
    tensors.add(each.is_transient ? bytes * share : bytes, each.is_transient ? largest : 1);
  }
  // A worker needs a library's workspace, a copy of the largest sum on which algorithms are tried,
  // bf16 copies of factors, most of which are weights, and float copies of bf16 tensors.
  const double of_worker = static_cast<double>(machine_.most_workspace) +
                           static_cast<double>(demand_.working.sum_on_gpu) +
                           static_cast<double>(demand_.working.factors_on_gpu) +
                           static_cast<double>(demand_.working.copies_on_gpu) * share;
  return {.tensors = tensors.bytes(),
          .working = static_cast<std::size_t>(
              of_worker * std::ceil(static_cast<double>(gpu_worker_numbers().size()) / gpus))};
}

std::string MemoryForecast::what_would_fit(auto fits) const {
  const int batch = net_.options().batch;
  for (int more = now_ + 1; more <= batch; ++more)
    if (batch % more == 0 && fits(more)) return fmt::format("try --subdivisions {}", more);
  return fmt::format("no number of subdivisions of batch {} is enough", batch);
}

Status MemoryForecast::require() const {
  const auto without = [](std::size_t all, std::size_t part) { return all - std::min(all, part); };
  const std::size_t physical = without(physical_memory(), resident_data()),
                    mappable = without(mappable_memory(), kSpare),
                    there = std::min(physical, mappable);
  const auto fits = [&](int more) { return in_main_memory(more) <= there; };
  if (!fits(now_)) {
    const bool by_snapshots = in_main_memory() - demand_.snapshots <= there;
    return too_large(
        net_, in_main_memory(), there, mappable < physical ? " of address space (ulimit -v)" : "",
        by_snapshots ? fmt::format("{}: snapshots of parameters take {:.2f} GiB",
                                   demand_.without_snapshots, in_gib(demand_.snapshots))
                     : what_would_fit(fits));
  }
  if (machine_.session.gpus.empty()) return {};
  const auto fits_gpu = [&](int more) {
    const OnGpu needed = on_each_gpu(more);
    return needed.tensors <= machine_.gpu_tensors && needed.all() <= machine_.gpu_memory;
  };
  if (fits_gpu(now_)) {
    set_hint_for_full_gpu(what_would_fit(fits_gpu));
    return {};
  }
  const OnGpu needed = on_each_gpu();
  const bool limited = needed.tensors > machine_.gpu_tensors;
  return too_large(net_, limited ? needed.tensors : needed.all(),
                   limited ? machine_.gpu_tensors : machine_.gpu_memory, " on a GPU",
                   what_would_fit(fits_gpu));
}

}  // namespace omni
