#include "apps/omni-run/setup.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <thread>

#include "apps/command_line.hpp"
#include "codelets/dense/gemm.hpp"
#include "codelets/dense/peaks.hpp"
#include "runtime/communicator/keeper.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/cuda/devices.hpp"
#include "runtime/cuda/full_gpu.hpp"
#include "runtime/data/open.hpp"
#include "runtime/farewell.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/memory/memory_limits.hpp"
#include "runtime/own_command.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/policy/omni_policy.hpp"

namespace omni {
namespace {

// StarPU aborts if a GPU fails, and no further call to it would succeed. So the process ends at
// once. Files that were saved before are complete.
extern "C" void on_abort(int) {
  const char* const first = first_task_error();
  const std::string_view what =
      first != nullptr ? first
                       : "StarPU gave up, most likely over a GPU: its message is above "
                         "(CUDA_LAUNCH_BLOCKING=1 names the operation)";
  for (const std::string_view text :
       {std::string_view("error: "), what, std::string_view("\nhint: --resume auto goes on\n")})
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  say_farewell(what);
  _exit(exit_code(ErrorKind::device));
}

#ifdef OMNI_CUDA
// StarPU would not stop trying to allocate, so the process ends at once.
void on_full_gpu(const Error& error) {
  log::error("{}", error.message());
  say_farewell(error.message());
  _exit(exit_code(error.kind));
}
#endif

// Returns the seconds by which this host's clock is behind the first rank's. It is exact to a
// fraction of a millisecond, because all ranks return from a gather at about the same time.
double clock_behind() {
  std::array<double, 9> behind{};
  for (double& each : behind) {
    ranks::gather("");
    const double own =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    each = std::stod(ranks::gather(fmt::format("{}", own)).front()) - own;
  }
  std::ranges::nth_element(behind, behind.begin() + 4);
  return behind[4];
}

// Starts the recorder of a trace. The first rank chooses the folder.
Result<std::unique_ptr<Recorder>> start_recorder(std::string folder, const trace::Header& header,
                                                 Recorder::Of of) {
  if (!ranks::first()) folder = ranks::gather("").front();
  OMNI_TRY(auto recorder, Recorder::start(folder, header, of));
  if (ranks::first()) ranks::gather(recorder->folder());
  return recorder;
}

}  // namespace

int computing_cores(const SessionOptions& session) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return session.cpu_workers > 0 ? std::min(session.cpu_workers, cores) : cores;
}

void fit_to_workers(MachineArguments& machine, NetArguments& net, int gpus) {
  net.gpus = gpus;
  net.cores = machine.session.deterministic ? 0 : computing_cores(machine.session);
  net.fixed_sums = machine.session.deterministic;
  if (machine.session.precision == Precision::bf16) net.values = DataType::bf16;
  // With one slice for each GPU, a core would take too long for any task of a slice.
  machine.session.gpus_alone = gpus > 0 && net.slice == 0 && machine.session.implementation.empty();
}

Status settle_workers(MachineArguments& machine, NetArguments* net) {
  OMNI_TRY(ChosenGpus chosen, choose_gpus(machine.gpus));
  machine.gpus_left_out = std::move(chosen.left_out);
  const std::vector<Gpu>& gpus = chosen.gpus;
  for (const Gpu& gpu : gpus) {
    let_starpu_use(gpu);
    const bool first = machine.session.gpus.empty();
    machine.gpu_memory = first ? gpu.left : std::min(machine.gpu_memory, gpu.left);
    machine.gpu_tensors = first ? gpu.for_tensors : std::min(machine.gpu_tensors, gpu.for_tensors);
    machine.most_workspace = std::max(machine.most_workspace, most_workspace(gpu.memory));
    machine.session.gpus.push_back(gpu.number);
  }
  if (net != nullptr) fit_to_workers(machine, *net, static_cast<int>(gpus.size()));
  if (!gpus.empty()) return {};
  if (machine.session.implementation == "cuda")
    return Error{ErrorKind::usage, "--impl cuda", "no GPU computes", "omni-run devices says why"};
  if (machine.session.precision == Precision::tf32)
    log::warn("--precision tf32: without a GPU everything is computed in fp32");
  if (machine.session.precision == Precision::bf16 && bf16_in_vain() != nullptr)
    log::warn("--precision bf16: {}", bf16_in_vain());
  return {};
}

Result<Session> start_session(const MachineArguments& arguments) {
  SessionOptions options = arguments.session;
  options.models = arguments.models;
  options.policy = &omni_policy();
  if (!options.gpus.empty()) {
    std::signal(SIGABRT, on_abort);
#ifdef OMNI_CUDA
    end_when_gpu_stays_full(on_full_gpu);
#endif
  }
  OMNI_TRY(Session session, Session::start(options));
  const int cpus = cpu_workers(session);
  const int gpu_workers = static_cast<int>(session.workers().size()) - cpus;
  if (cpus < options.cpu_workers)
    log::warn("--workers {}: {} cores here, using {}", options.cpu_workers,
              std::thread::hardware_concurrency(), cpus);
  if (gpu_workers < static_cast<int>(options.gpus.size()))
    return Error{
        ErrorKind::device, "--gpus",
        fmt::format("StarPU could use only {} of {} GPUs", gpu_workers, options.gpus.size()),
        "omni-run devices shows them; --gpus none runs without"};
  log::info("{} worker{}{}, scheduler {}{}", cpus, cpus == 1 ? "" : "s",
            gpu_workers == 0 ? ""
                             : fmt::format(" and {} on {} GPU{}", gpu_workers, options.gpus.size(),
                                           options.gpus.size() == 1 ? "" : "s"),
            session.scheduler(), options.deterministic ? ", deterministic" : "");
  return session;
}

int cpu_workers(const Session& session) {
  const auto workers = session.workers();
  return static_cast<int>(
      std::ranges::count_if(workers, [](const WorkerInfo& each) { return each.kind == "CPU"; }));
}

std::string launcher() {
  if (!ranks::several()) return "";
  const auto launch = ranks::read_launch([](const char* name) { return std::getenv(name); });
  // A keeper starts ranks without the launcher's variables.
  return ranks::is_kept()
             ? fmt::format("mpiexec -disable-auto-cleanup -n {} ", ranks::size())
             : fmt::format("{} -n {} ", launch && launch->by_hydra ? "mpiexec" : "srun --mpi=pmi2",
                           ranks::size());
}

void say_peak_memory() {
  log::info("memory: {:.0f} MiB at most", static_cast<double>(peak_resident_memory()) / 0x1p20);
}

Result<DatasetPair> open_data(const DataArguments& arguments, const Net& net,
                              const TrainableNet& spec) {
  const AugmentOptions& augment = spec.augment;
  if (arguments.source.empty() && spec.absent) return *spec.absent;
  if (arguments.source.empty())
    log::warn("no --data: computed patterns stand in for images (--data fashion-mnist, say)");
  OMNI_TRY(DatasetPair data,
           open_dataset({.source = arguments.source.empty() ? "synthetic" : arguments.source,
                         .net_input = net.options().input,
                         .flat = augment.flat,
                         .parts = augment.parts,
                         .classes = net.classes(),
                         .losses = net.label_limits(),
                         .seed = arguments.seed_of_samples(),
                         .test = arguments.test,
                         .scale_features = arguments.scale_features,
                         .hold_out = arguments.hold_out,
                         .damaged = arguments.damaged}));
  log::info("data: {}", data.train->description());
  if (arguments.hold_out > 0)
    log::info("--hold-out {}: seed {} draws what is held out; a test set of the data is not used",
              arguments.hold_out, arguments.seed_of_samples());
  const Extent images = data.train->extent(), input = net.options().input;
  if (data.train->holds_vectors()) return data;
  if (augment.flat)
    log::info("the net takes {} values: those of an image, channel by channel", input.c);
  else if (images.h != input.h || images.w != input.w || images.c != input.c)
    log::info("the net takes {}x{}x{}: images are {} it", input.h, input.w, input.c,
              augment.own_size ? "cut for" : "fitted to");
  return data;
}

Status try_trace(const std::string& folder) {
  constexpr std::uint64_t kSomeThousandTasks = 1 << 20;
  return folder.empty() ? Status() : try_folder(folder, kSomeThousandTasks, "--trace");
}

Result<std::unique_ptr<Recorder>> start_trace(const std::string& folder, const Session& session,
                                              const Net& net, Recorder::Of of) {
  if (folder.empty()) return std::unique_ptr<Recorder>();
  trace::Header header;
  header.host = own_host();
  header.command = for_shell(own_words());
  header.net = net.name();
  header.batch = net.options().batch;
  header.rank = ranks::rank();
  if (ranks::several()) header.started = clock_behind();
  OMNI_TRY(auto recorder, start_recorder(folder, header, of));
  if (recorder->folder() == std::filesystem::path(folder))
    log::info("tracing to {}", folder);
  else if (ranks::first())
    log::warn("{} holds a trace already; this one goes to {}", folder, recorder->folder().string());

  const Recorder::Scope own(recorder.get());
  for (const auto& layer : net.layers())
    recording::write(trace::Layer{layer->index(), layer->type(), layer->detail()});
  const int cpus = cpu_workers(session);
  if (cpus == 0) return recorder;
  static const CpuPeaks peaks = measure_cpu_peaks(session, cpus);  // once for all trainings
  recording::write(trace::Peak{"gemm", "CPU", peaks.gemm_alone, peaks.gemm_together});
  recording::write(trace::Peak{"copy", "CPU", peaks.copy_alone, peaks.copy_together});
  return recorder;
}

}  // namespace omni
