// omni-run devices: the workers StarPU found, and what this build can use.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/commands.hpp"
#include "apps/setup.hpp"

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

Status devices_command(const CommonArguments& common, const MachineArguments& machine) {
  OMNI_TRY(const Session session, start_session(machine));
  const std::string models =
      machine.models.empty() ? default_model_folder().string() : machine.models;
  if (common.json) {
    auto workers = nlohmann::ordered_json::array();
    for (const WorkerInfo& worker : session.workers())
      workers.push_back({{"name", worker.name}, {"kind", worker.kind}, {"device", worker.device}});
    fmt::print("{}\n", nlohmann::ordered_json{{"workers", workers},
                                              {"scheduler", session.scheduler()},
                                              {"starpu", OMNI_STARPU_VERSION},
                                              {"onednn", kOneDnn},
                                              {"cuda", kCuda},
                                              {"models", models}}
                           .dump(2));
    return {};
  }
  for (const WorkerInfo& worker : session.workers())
    fmt::print("{:<6} {}\n", worker.kind, worker.name);
  fmt::print("StarPU {}, scheduler {}; oneDNN {}, CUDA {}; performance models in {}\n",
             OMNI_STARPU_VERSION, session.scheduler(), kOneDnn ? "yes" : "no",
             kCuda ? "found, but no codelet uses it yet" : "no", models);
  return {};
}

}  // namespace omni
