// Runs tasks of the engine on a simulated machine. It prints as JSON the time that they took, and
// how much each type of worker did. The only argument is JSON, too. run() lists the keys. No kernel
// runs, so nothing is learned, but all scheduling is real.
#include <fmt/format.h>
#include <starpu.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "layers/formats/darknet/darknet.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/open.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "scheduling/policy/omni_policy.hpp"
#include "scheduling/training/group_run.hpp"
#include "scheduling/training/trainer.hpp"
#include "tests/simgrid/devices.hpp"

namespace omni::test {
namespace {

using nlohmann::json;

struct Bytes {
  double all = 0, to_main = 0;
};

// Returns how many bytes went from one memory to another since the last call.
Bytes transferred() {
  Bytes bytes;
  for (int bus = 0; bus < starpu_bus_get_count(); ++bus) {
    starpu_profiling_bus_info info;
    if (starpu_bus_get_profiling_info(bus, &info) != 0) continue;
    const auto passed = static_cast<double>(info.transferred_bytes);
    bytes.all += passed;
    if (starpu_bus_get_dst(bus) == STARPU_MAIN_RAM) bytes.to_main += passed;
  }
  return bytes;
}

// A Meter measures time, work and transfers since start().
class Meter {
 public:
  void start() {
    count_from_now();
    transferred();
    started_ = starpu_timing_now();
  }
  json read() const {
    json all = json::object();
    for (const auto& [codelet, kinds] : done())
      for (const auto& [kind, sum] : kinds)
        all[codelet][kind] = {{"tasks", sum.tasks},
                              {"flops", sum.flops},
                              {"seconds", sum.seconds},
                              {"trespasses", sum.trespasses}};
    const auto cores = static_cast<int>(starpu_cpu_worker_get_count()),
               gpus = static_cast<int>(starpu_cuda_worker_get_count());
    const Bytes bytes = transferred();
    return {{"seconds", (starpu_timing_now() - started_) / 1e6},
            {"area", submitted().area(cores, gpus) / 1e6},
            {"path", submitted().critical_path() / 1e6},
            {"transferred", bytes.all},
            {"to_main", bytes.to_main},
            {"done", all}};
  }

 private:
  double started_ = 0;
};

struct Nothing {
  double flops;
};
void do_nothing(const Nothing&, const Buffers&, DeviceContext&) {}
Codelet<Nothing> plain({.name = "plain",
                        .implementations = {{"only", do_nothing}},
                        .cost = [](const Nothing& args) { return Cost{.flops = args.flops}; },
                        .footprint = [](const Nothing&) { return footprint_of(1); }});

// Runs "tasks" tasks of "flops" operations in "chains" chains. The tasks of a chain run one after
// the other, on "bytes" bytes of the chain's own.
Result<json> run_chains(const json& arguments) {
  const std::size_t chains = arguments.value("chains", 1u);
  std::vector<std::unique_ptr<Tensor>> data;
  for (std::size_t i = 0; i < chains; ++i) {
    data.push_back(std::make_unique<Tensor>("chain", arguments.value("bytes", 4u) / 4));
    OMNI_CHECK(data.back()->allocate());
  }
  const Nothing args{arguments.value("flops", 1e6)};
  const std::size_t tasks = arguments.at("tasks");
  Meter meter;
  meter.start();
  for (std::size_t i = 0; i < tasks; ++i)
    plain.submit(args, {read_write(*data[i % chains])}, {.priority = static_cast<int>(i % 3)});
  OMNI_CHECK(wait_for_tasks());
  return meter.read();
}

// Divides slices in a fixed way: the first `on_gpus` slices run on GPUs and the others on cores, up
// to the layer that joins them.
void split(const Net& net, int on_gpus) {
  for (const auto& layer : net.layers()) {
    if (layer->joins_slices()) return;
    for (const auto* tensors : {&layer->output().value, &layer->output().diff})
      for (std::size_t slice = 0; slice < tensors->size(); ++slice)
        keep_on(static_cast<int>(slice) < on_gpus ? STARPU_CUDA_WORKER : STARPU_CPU_WORKER,
                (*tensors)[slice]->handle());
  }
}

// Trains "net" (a file) for "iterations" iterations with "batch" images in slices of "slice"
// images, by "groups" groups. Time is measured after "warm" iterations, when the parameters have
// reached their devices.
Result<json> run_training(const json& arguments) {
  OMNI_TRY(TrainableNet spec, read_darknet_cfg(arguments.at("net").get<std::string>()));
  if (arguments.contains("batch")) {
    spec.options.batch = arguments["batch"];
    spec.options.subdivisions = 1;
  }
  const int count = arguments.value("groups", 1), gpus = arguments.at("gpus");
  const auto workers = static_cast<int>(starpu_worker_get_count());
  OMNI_TRY(ComputeGroups groups,
           ComputeGroups::make(count, {}, [&](const Sharing& sharing, int slice, int) {
             return Net::build(spec, {.training = true,
                                      .adam = spec.solver.adam,
                                      .slice = slice != 0 ? slice : arguments.value("slice", 0),
                                      .gpus = gpus == 0 ? 0 : std::max(1, gpus / count),
                                      .cores = arguments.at("cores").get<int>() / count,
                                      .sharing = sharing,
                                      .update_in_backward = true});
           }));
  if (count > 1) groups.assign(spread_groups(count, workers));
  const Net& net = groups.net();
  OMNI_TRY(const DatasetPair data,
           open_dataset({.source = "synthetic:1024:" + std::to_string(net.classes()),
                         .net_input = net.options().input,
                         .classes = net.classes(),
                         .seed = 1}));
  DataFeed feed(*data.train, {.augment = {},
                              .net_input = net.options().input,
                              .slices = net.slices(),
                              .slots = Trainer::slots(groups)});
  OMNI_CHECK(groups.allocate());
  OMNI_CHECK(feed.allocate());
  if (arguments.contains("split")) split(net, arguments["split"]);
  const std::uint64_t warm = arguments.value("warm", 1u);
  const std::uint64_t last = warm + arguments.value("iterations", 3u);
  const auto batch = static_cast<std::uint64_t>(feed.batch());
  TrainingFeed ahead(feed, 1, 0, last * batch);
  const auto strategy = async(Asynchrony::reproducible)(groups, spec.solver);
  EventQueue events;
  std::vector<std::unique_ptr<GroupRun>> runs;
  for (int group = 0; group < count; ++group)
    runs.push_back(std::make_unique<GroupRun>(groups, group, ahead, events, *strategy, false));
  // Groups take turns as in the trainer.
  const auto most = static_cast<std::uint64_t>(count) + 1;
  std::uint64_t begun = 0, ended = 0;
  Meter meter;
  for (const std::uint64_t end : {warm, last}) {
    while (ended < end) {
      GroupRun& run = *runs[begun % runs.size()];
      if (begun < end && begun - ended < most && run.may_begin()) {
        run.begin({.group = static_cast<int>(begun % runs.size()),
                   .number = begun,
                   .first = begun * batch,
                   .count = batch},
                  false);
        ++begun;
        OMNI_CHECK(run.complete({.learning_rate = 0.01f, .momentum = {}}));
      } else {
        GroupRun& oldest = *runs[ended++ % runs.size()];
        OMNI_TRY(const GroupOutcome outcome, oldest.read_outcome());
        (void)oldest.collect(outcome);
      }
    }
    OMNI_CHECK(wait_for_tasks());
    if (end == warm) meter.start();
  }
  return meter.read();
}

Result<json> run(const json& arguments) {
  setenv("STARPU_PROFILING", "1", 1);
  DeviceOptions devices{.gpus_only = arguments.value("gpus_only", false),
                        .recorded = arguments.value("recorded", ""),
                        .learning = arguments.value("learning", false),
                        .poisoned = arguments.value("poisoned", ""),
                        .poison = arguments.value("poison", 0.0)};
  devices.core.flops = arguments.value("core_flops", devices.core.flops);
  devices.gpu.flops = arguments.value("gpu_flops", devices.gpu.flops);
  simulate_devices(devices);
  SessionOptions options;
  options.cpu_workers = arguments.at("cores");
  options.policy = &omni_policy();
  options.scheduler = arguments.value("scheduler", "omni");
  for (int gpu = 0; gpu < arguments.at("gpus"); ++gpu) options.gpus.push_back(gpu);
  OMNI_TRY(const Session session, Session::start(options));
  return arguments.contains("net") ? run_training(arguments) : run_chains(arguments);
}

}  // namespace
}  // namespace omni::test

// SimGrid renames main() and starts it in an actor.
int main(int count, char** arguments) {
  if (count != 2) return 2;
  const auto result = omni::test::run(nlohmann::json::parse(arguments[1]));
  if (result)
    std::puts(result->dump().c_str());
  else
    std::fprintf(stderr, "error: %s\n", result.error().message().c_str());
  std::fflush(stdout);
  return result ? 0 : 1;
}
