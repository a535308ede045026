// omni-run devices: the workers StarPU found, what they can do at best, and what this build can
// use.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

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

}  // namespace

Status devices_command(const DevicesArguments& arguments) {
  const Gpus gpus = find_gpus();
  const Result<Session> started = start_session(arguments.machine);
  if (!started) {
    for (const Gpu& gpu : gpus.found) log::info("GPU {}  {}", gpu.number, describe_gpu(gpu));
    return started.error();
  }
  const Session& session = *started;
  const std::string models =
      arguments.machine.models.empty() ? default_model_folder().string() : arguments.machine.models;
  CpuPeaks peaks;
  if (arguments.peaks) peaks = measure_cpu_peaks(session, cpu_workers(session));
  double gpu_gemm = 0;
#ifdef OMNI_CUDA
  const SessionOptions& machine = arguments.machine.session;
  if (arguments.peaks) gpu_gemm = measure_gpu_gemm(machine.gpus, machine.precision);
#endif
  if (arguments.common.json) {
    auto workers = nlohmann::ordered_json::array();
    for (const WorkerInfo& worker : session.workers())
      workers.push_back({{"number", workers.size()},
                         {"name", worker.name},
                         {"kind", worker.kind},
                         {"device", worker.device}});
    auto found = nlohmann::ordered_json::array();
    for (const Gpu& gpu : gpus.found)
      found.push_back({{"number", gpu.number},
                       {"name", gpu.name},
                       {"memory", gpu.memory},
                       {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
                       {"used", why_unused(arguments, gpu).empty()},
                       {"unused_because", why_unused(arguments, gpu)}});
    nlohmann::ordered_json result{{"workers", workers},
                                  {"gpus", found},
                                  {"scheduler", session.scheduler()},
                                  {"starpu", OMNI_STARPU_VERSION},
                                  {"onednn", kOneDnn},
                                  {"bf16_on_cpus", bf16_in_vain() == nullptr},
                                  {"cuda", kCuda},
                                  {"models", models}};
    for (std::size_t rank = 0; rank < arguments.links.size(); ++rank)
      result["links"].push_back({{"to", ranks::name(static_cast<int>(rank))},
                                 {"latency_seconds", arguments.links[rank].seconds},
                                 {"bytes_per_second", arguments.links[rank].bytes_per_second}});
    if (arguments.peaks) {
      result["peaks"] = {{"gemm_flops_per_second", peaks.gemm_together},
                         {"copy_bytes_per_second", peaks.copy_together}};
      if (gpu_gemm > 0) result["peaks"]["gpu_gemm_flops_per_second"] = gpu_gemm;
    }
    log::result("{}\n", json_text(result, 2));
    return {};
  }
  int number = 0;  // as --group-layout counts
  for (const WorkerInfo& worker : session.workers())
    log::result("worker {}: {:<6} {}\n", number++, worker.kind, worker.name);
  for (const Gpu& gpu : gpus.found) {
    const std::string why = why_unused(arguments, gpu);
    log::result("GPU {}  {}{}\n", gpu.number, describe_gpu(gpu),
                why.empty() ? "" : fmt::format(" (unused: {})", why));
  }
  for (std::size_t rank = 0; rank < arguments.links.size(); ++rank)
    log::result("link to {} from the rank before it: {}\n", ranks::name(static_cast<int>(rank)),
                ranks::describe(arguments.links[rank]));
  if (!gpus.none_because.empty()) log::result("no GPU: {}\n", gpus.none_because);
  if (bf16_in_vain() != nullptr) log::result("no bf16: {}\n", bf16_in_vain());
  if (arguments.peaks)
    log::result("together: {:.1f} GFLOP/s in a matrix product, {:.1f} GB/s in copying\n",
                1e-9 * peaks.gemm_together, 1e-9 * peaks.copy_together);
  if (gpu_gemm > 0) log::result("GPUs: {:.1f} TFLOP/s in a matrix product\n", 1e-12 * gpu_gemm);
  log::result("StarPU {}, scheduler {}; oneDNN {}, CUDA {}; performance models in {}\n",
              OMNI_STARPU_VERSION, session.scheduler(), kOneDnn ? "yes" : "no",
              kCuda ? "yes" : "no", models);
  return {};
}

}  // namespace omni
