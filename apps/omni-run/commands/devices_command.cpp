// omni-run devices: the workers StarPU found, what they can do at best, and what this build can
// use.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/setup.hpp"
#include "codelets/dense/bf16.hpp"
#include "codelets/dense/peaks.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/cuda/devices.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

#ifdef OMNI_ONEDNN
constexpr bool kOneDnn = true;
#else
constexpr bool kOneDnn = false;
#endif
#ifdef OMNI_CUDA
constexpr bool kCuda = true;
#else
constexpr bool kCuda = false;
#endif

// Empty: it is used.
std::string why_unused(const DevicesArguments& arguments, const Gpu& gpu) {
  const auto& gpus = arguments.machine.session.gpus;
  if (std::ranges::find(gpus, gpu.number) != gpus.end()) return "";
  const auto& reasons = arguments.machine.gpus_left_out;
  const auto reason = reasons.find(gpu.number);
  return reason != reasons.end() ? reason->second : "--gpus none";
}

std::string describe_gpu(const Gpu& gpu) {
  return fmt::format("{}, {:.1f} GiB, compute capability {}.{}", gpu.name,
                     static_cast<double>(gpu.memory) / 0x1p30, gpu.major, gpu.minor);
}

struct Peaks {
  CpuPeaks cpus{};
  double gpu_gemm = 0;
};

struct Found {
  Gpus gpus;
  std::string models;  // folder
  std::optional<Peaks> peaks{};
};

nlohmann::ordered_json as_json(const DevicesArguments& arguments, const Session& session,
                               const Found& found) {
  auto workers = nlohmann::ordered_json::array(), gpus = workers;
  for (const WorkerInfo& worker : session.workers())
    workers.push_back({{"number", workers.size()},
                       {"name", worker.name},
                       {"kind", worker.kind},
                       {"device", worker.device}});
  for (const Gpu& gpu : found.gpus.found)
    gpus.push_back({{"number", gpu.number},
                    {"name", gpu.name},
                    {"memory", gpu.memory},
                    {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
                    {"used", why_unused(arguments, gpu).empty()},
                    {"unused_because", why_unused(arguments, gpu)}});
  nlohmann::ordered_json result{{"workers", workers},
                                {"gpus", gpus},
                                {"scheduler", session.scheduler()},
                                {"starpu", OMNI_STARPU_VERSION},
                                {"onednn", kOneDnn},
                                {"bf16_on_cpus", bf16_in_vain() == nullptr},
                                {"cuda", kCuda},
                                {"models", found.models}};
  for (std::size_t rank = 0; rank < arguments.links.size(); ++rank) {
    const ranks::Link& link = arguments.links[rank];
    result["links"].push_back({{"to", ranks::name(static_cast<int>(rank))},
                               {"latency_seconds", link.seconds},
                               {"bytes_per_second", link.bytes_per_second},
                               {"core_seconds_per_message", link.work_per_message},
                               {"core_seconds_per_byte", link.work_per_byte}});
  }
  if (found.peaks) {
    result["peaks"] = {{"gemm_flops_per_second", found.peaks->cpus.gemm_together},
                       {"copy_bytes_per_second", found.peaks->cpus.copy_together}};
    if (found.peaks->gpu_gemm > 0)
      result["peaks"]["gpu_gemm_flops_per_second"] = found.peaks->gpu_gemm;
  }
  return result;
}

void print(const DevicesArguments& arguments, const Session& session, const Found& found) {
  int number = 0;  // as --group-layout counts
  for (const WorkerInfo& worker : session.workers())
    log::result("worker {}: {:<6} {}\n", number++, worker.kind, worker.name);
  for (const Gpu& gpu : found.gpus.found) {
    const std::string why = why_unused(arguments, gpu);
    log::result("GPU {}  {}{}\n", gpu.number, describe_gpu(gpu),
                why.empty() ? "" : fmt::format(" (unused: {})", why));
  }
  for (std::size_t rank = 0; rank < arguments.links.size(); ++rank)
    log::result("link to {} from the rank before it: {}\n", ranks::name(static_cast<int>(rank)),
                ranks::describe(arguments.links[rank]));
  if (!found.gpus.none_because.empty()) log::result("no GPU: {}\n", found.gpus.none_because);
  if (bf16_in_vain() != nullptr) log::result("no bf16: {}\n", bf16_in_vain());
  if (found.peaks) {
    log::result("together: {:.1f} GFLOP/s in a matrix product, {:.1f} GB/s in copying\n",
                1e-9 * found.peaks->cpus.gemm_together, 1e-9 * found.peaks->cpus.copy_together);
    if (found.peaks->gpu_gemm > 0)
      log::result("GPUs: {:.1f} TFLOP/s in a matrix product\n", 1e-12 * found.peaks->gpu_gemm);
  }
  log::result("StarPU {}, scheduler {}; oneDNN {}, CUDA {}; performance models in {}\n",
              OMNI_STARPU_VERSION, session.scheduler(), kOneDnn ? "yes" : "no",
              kCuda ? "yes" : "no", found.models);
}

}  // namespace

Status devices_command(const DevicesArguments& arguments) {
  Found found{.gpus = find_gpus(),
              .models = arguments.machine.models.empty() ? default_model_folder().string()
                                                         : arguments.machine.models};
  const Result<Session> session = start_session(arguments.machine);
  if (!session) {
    for (const Gpu& gpu : found.gpus.found) log::info("GPU {}  {}", gpu.number, describe_gpu(gpu));
    return session.error();
  }
  if (arguments.peaks) {
    found.peaks = {.cpus = measure_cpu_peaks(*session, cpu_workers(*session))};
#ifdef OMNI_CUDA
    const SessionOptions& machine = arguments.machine.session;
    found.peaks->gpu_gemm = measure_gpu_gemm(machine.gpus, machine.precision);
#endif
  }
  if (arguments.common.json)
    log::result("{}\n", json_text(as_json(arguments, *session, found), 2));
  else
    print(arguments, *session, found);
  return {};
}

}  // namespace omni
