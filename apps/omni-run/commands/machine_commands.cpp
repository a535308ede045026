// omni-run devices prints the workers that StarPU found, the GPUs, the libraries of this build, and
// with --peaks the highest rates. omni-run machine measures, for a machine file, how long a net's
// mini-batches take on one core and one GPU.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/groups/timed_training.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/output_file.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/dense/peaks.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/cuda/devices.hpp"
#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"

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

// Returns why a GPU is not used; empty: it is used.
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

struct FoundDevices {
  Gpus gpus;
  std::string models;  // folder
  std::optional<Peaks> peaks{};
};

nlohmann::ordered_json as_json(const DevicesArguments& arguments, const Session& session,
                               const FoundDevices& found) {
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
                               {"measurements_differ", link.spread},
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

void print(const DevicesArguments& arguments, const Session& session, const FoundDevices& found) {
  int number = 0;  // as in --group-layout
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

using nlohmann::ordered_json;

// Returns {"1": seconds, "2": seconds, "4": ...} up to the net's own mini-batch.
Result<ordered_json> seconds_by_size(const NetArguments& net, const MachineArguments& machine,
                                     int batch, const char* kind) {
  NetArguments of_size = net;
  of_size.named.batch = batch;
  OMNI_TRY(TrainableNet spec, read_net(of_size));
  OMNI_TRY(const auto whole, build_net(spec, net, true));
  OMNI_TRY(const DatasetPair data, open_data({.source = "synthetic"}, *whole, spec));
  OMNI_TRY(const Session session, start_session(machine));
  auto table = ordered_json::object();
  for (int size = 1;; size = std::min(2 * size, batch)) {
    of_size.named.batch = size;
    OMNI_TRY(spec, read_net(of_size));
    OMNI_TRY(auto built, build_net(spec, net, true));
    OMNI_TRY(const auto training,
             TimedTraining::make(ComputeGroups(std::move(built)), spec, *data.train, machine));
    OMNI_TRY(const double seconds, training->mean_seconds());
    log::info("one {}: mini-batches of {} take {:.3f} ms", kind, size, 1e3 * seconds);
    table[std::to_string(size)] = seconds;
    if (size == batch) return table;
  }
}

}  // namespace

Status devices_command(const DevicesArguments& arguments) {
  FoundDevices found{.gpus = find_gpus(),
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

Status machine_command(const MachineFileArguments& given) {
  MachineFileArguments arguments = given;
  NetArguments& net = arguments.net;
  if (net.net.empty() && net.solver.empty()) net.net = "lenet";
  if (!arguments.out.empty())
    OMNI_CHECK(
        check_output({.option = "--out",
                      .path = arguments.out,
                      .read = {net.net, net.solver},
                      .replaceable = [](const auto& file) { return bool(read_machine_file(file)); },
                      .foreign = "holds no machine"}));
  net.learns = false;
  OMNI_TRY(const TrainableNet spec, read_net(net));
  const NetOptions& options = spec.options;

  const MachineArguments& machine = arguments.machine;
  auto devices = ordered_json::array();
  const std::vector<int>& gpus = machine.session.gpus;
  if (!gpus.empty()) {
    MachineArguments one_gpu = machine;
    one_gpu.session.gpus.resize(1);
    one_gpu.session.gpus_alone = true;
    NetArguments on_gpu = net;
    on_gpu.gpus = 1;
    OMNI_TRY(ordered_json seconds, seconds_by_size(on_gpu, one_gpu, options.batch, "GPU"));
    devices.push_back({{"kind", "gpu"}, {"count", gpus.size()}, {"seconds", std::move(seconds)}});
  }
  MachineArguments one_core = machine;
  one_core.session.gpus.clear();
  one_core.session.gpus_alone = false;
  one_core.session.cpu_workers = 1;
  net.gpus = 0;
  net.cores = std::min(net.cores, 1);
  OMNI_TRY(ordered_json seconds, seconds_by_size(net, one_core, options.batch, "core"));
  const int cores = computing_cores(machine.session);
  devices.push_back({{"kind", "cpu"}, {"count", cores}, {"seconds", std::move(seconds)}});

  const ordered_json file{{"name", fmt::format("{}, measured training {}", own_host(), spec.name)},
                          {"devices", devices}};
  const std::string text = json_text(file, 2) + "\n";
  if (!arguments.out.empty()) return write_file_atomically(arguments.out, text);
  log::result("{}", text);
  return {};
}

}  // namespace omni
