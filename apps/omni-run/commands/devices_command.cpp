// omni-run devices: the workers StarPU found, what they can do at best, and what this build can
// use.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/setup.hpp"
#include "codelets/dense/peaks.hpp"

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

}  // namespace

Status devices_command(const DevicesArguments& arguments) {
  OMNI_TRY(const Session session, start_session(arguments.machine));
  const std::string models =
      arguments.machine.models.empty() ? default_model_folder().string() : arguments.machine.models;
  CpuPeaks peaks;
  if (arguments.peaks) peaks = measure_cpu_peaks(cpu_workers(session));
  if (arguments.common.json) {
    auto workers = nlohmann::ordered_json::array();
    for (const WorkerInfo& worker : session.workers())
      workers.push_back({{"name", worker.name}, {"kind", worker.kind}, {"device", worker.device}});
    nlohmann::ordered_json result{{"workers", workers},
                                  {"scheduler", session.scheduler()},
                                  {"starpu", OMNI_STARPU_VERSION},
                                  {"onednn", kOneDnn},
                                  {"cuda", kCuda},
                                  {"models", models}};
    if (arguments.peaks)
      result["peaks"] = {{"gemm_flops_per_second", peaks.gemm_together},
                         {"copy_bytes_per_second", peaks.copy_together}};
    fmt::print("{}\n", result.dump(2));
    return {};
  }
  for (const WorkerInfo& worker : session.workers())
    fmt::print("{:<6} {}\n", worker.kind, worker.name);
  if (arguments.peaks)
    fmt::print("together: {:.1f} GFLOP/s in a matrix product, {:.1f} GB/s in copying\n",
               1e-9 * peaks.gemm_together, 1e-9 * peaks.copy_together);
  fmt::print("StarPU {}, scheduler {}; oneDNN {}, CUDA {}; performance models in {}\n",
             OMNI_STARPU_VERSION, session.scheduler(), kOneDnn ? "yes" : "no",
             kCuda ? "found, but no codelet uses it yet" : "no", models);
  return {};
}

}  // namespace omni
