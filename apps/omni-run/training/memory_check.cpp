#include "apps/omni-run/training/memory_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/setup.hpp"
#include "codelets/dense/library_memory.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/log.hpp"
#include "runtime/memory/memory_limits.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/tensor_pool.hpp"
#include "scheduling/checkpoint/training_snapshot.hpp"

namespace omni {
namespace {

constexpr double in_mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / 0x1p20; }

}  // namespace

Result<std::size_t> check_memory(Training& training, const MachineArguments& machine,
                                 const Session& session, std::size_t others) {
  Net& net = training.groups().net();
  const DataFeed* const test = training.test();
  std::size_t snapshots = 0;
  std::string_view without;
  for (const auto& pilot : training.pilots())
    if (const std::size_t bytes = pilot->bytes(training.groups()); bytes > 0) {
      snapshots += bytes;
      without = find_pilot(pilot->name())->without;
    }
  // Several ranks keep a copy of parameters and optimizer state while they make other groups.
  if (training.sums() != nullptr && training.changes_groups())
    snapshots += TrainingSnapshot::bytes(training.groups(), false);
  // The program's own memory is measured. Every worker plans as this thread does, and all but one
  // worker need their own buffers of libraries.
  const auto since = [](std::size_t before) { return std::max(resident_data(), before) - before; };
  const std::size_t start = resident_data(), workers = cpu_workers(session);
  if (!only_gpus_compute()) load_library_code();
  const std::size_t buffers = since(start) * (std::max<std::size_t>(workers, 1) - 1);
  const std::size_t loaded = resident_data();
  MemoryDemand demand =
      training_demand(training.groups(), *training.feeds().front(), test, net.working_bytes());
  const std::size_t of_workers = buffers + workers * since(loaded);
  const std::size_t program = resident_memory();
  std::size_t images = test != nullptr ? test->bytes() : 0;
  for (const auto& feed : training.feeds()) {
    images += feed->bytes();
    if (&feed == &training.feeds().front()) continue;
    const std::vector<TensorSize> sizes = feed->tensor_sizes();
    demand.training_images.insert(demand.training_images.end(), sizes.begin(), sizes.end());
  }
  const std::size_t working = of_workers + workers * demand.working.of_core;
  const RankSums* const sums = training.sums();
  demand.in_main_memory_only = others + snapshots + working + (sums != nullptr ? sums->bytes() : 0);
  demand.snapshots = snapshots;
  demand.without_snapshots = without;
  const MemoryForecast forecast(net, std::move(demand), machine);
  OMNI_CHECK(forecast.require());
  const std::size_t own = forecast.in_main_memory() - others, planned = own + program;
  const std::size_t taken = peak_resident_memory();
  log::info(
      "memory: {:.0f} MiB planned, with {:.0f} for decoded images, {:.0f} for working buffers, "
      "{:.0f} for the program{}{}",
      in_mebibytes(planned), in_mebibytes(images), in_mebibytes(working), in_mebibytes(program),
      taken > planned ? fmt::format("; the start took {:.0f} MiB", in_mebibytes(taken)) : "",
      gpus_compute() ? fmt::format("; {:.0f} on each GPU, with {:.0f} for working buffers",
                                   in_mebibytes(forecast.on_each_gpu().all()),
                                   in_mebibytes(forecast.on_each_gpu().working))
                     : "");
  return own;
}

}  // namespace omni
