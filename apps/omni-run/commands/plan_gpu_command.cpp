// omni-run plan --gpu: what a GPU that is not there would do and hold. Each task takes as long as
// its flops or its memory traffic at the rates of a machine file, whichever is longer (the
// roofline).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/shipped/shipped_files.hpp"
#include "codelets/elementwise/exchange.hpp"
#include "runtime/cuda/devices.hpp"
#include "runtime/log.hpp"
#include "scheduling/trainer.hpp"

namespace omni {
namespace {

constexpr double kContext = 0x1p29;  // bytes that CUDA itself takes
// Mini-batches that are tried are multiples of it.
constexpr int kBatchUnit = 16, kMostUnits = 1024;

std::size_t held_on_gpu(std::unique_ptr<Net> net, const Dataset& images,
                        const MachineArguments& machine) {
  ComputeGroups groups(std::move(net));
  const DataFeed feed(images, feed_options(groups.net(), 1, true, Trainer::slots(groups)));
  const MemoryDemand demand = training_demand(groups, feed, nullptr, working_on_gpus(groups.net()));
  return MemoryForecast(groups.net(), demand, machine).on_each_gpu().all();
}

int largest_batch(const PlanArguments& arguments, const Dataset& images) {
  int units = 0;
  for (int more = kMostUnits; more > 0; more /= 2) {
    NetArguments tried = arguments.net;
    tried.settings.insert(tried.settings.end(),
                          {fmt::format("batch={}", kBatchUnit * (units + more)), "subdivisions=1"});
    auto net = open_net(tried, true);  // which refuses tensors that are too large
    if (net &&
        held_on_gpu(std::move(*net), images, arguments.machine) <= arguments.machine.gpu_memory)
      units += more;
  }
  return kBatchUnit * units;
}

std::vector<CapturedTask> update_tasks(Net& net) {
  std::vector<Exchange> updates;
  for (const Param* param : net.params())
    if (param->trainable)
      updates.push_back({{.clears = !param->overwrites_diff},
                         {.master = *param->master,
                          .diff = *param->diff,
                          .velocity = *param->velocity,
                          .mean_square = param->mean_square}});
  return task_capture::capture_tasks([&] { submit_exchanges(updates, ExchangeOrder::submission); });
}

}  // namespace

Status plan_gpu_command(const PlanArguments& given) {
  PlanArguments arguments = given;
  MachineArguments& here = arguments.machine;
  const Precision precision = here.session.precision;
  OMNI_TRY(const Machine machine, read_machine(arguments.gpu));
  const auto gpu = std::ranges::find_if(
      machine.devices, [](const Machine::Device& each) { return each.roofline.has_value(); });
  if (gpu == machine.devices.end())
    return Error{ErrorKind::usage, "--gpu " + arguments.gpu,
                 "no device of this machine has a \"roofline\"", "h100 and h200 have one"};
  set_implementation_policy(
      {.preferred = {}, .gpu_workers = {1}, .precision = precision, .gpus_alone = true});
  arguments.net.gpus = 1;
  if (precision == Precision::bf16) arguments.net.values = DataType::bf16;
  here.session.gpus = {0};
  here.gpu_memory = left_by_libraries(static_cast<std::size_t>(gpu->memory - kContext));
  here.most_workspace = most_workspace(static_cast<std::size_t>(gpu->memory));

  OMNI_TRY(auto net, open_net(arguments.net, true));
  OMNI_TRY(const DatasetPair data, open_data({.source = "synthetic"}, *net));
  const double rate = gpu->roofline->products[static_cast<std::size_t>(precision)],
               traffic = gpu->roofline->bytes_per_second;
  double seconds = 0;
  std::map<std::string, double> by_codelet;
  const auto count = [&](const std::vector<CapturedTask>& tasks, int times) {
    for (const CapturedTask& task : tasks) {
      const double one = std::max(task.flops / rate, task.bytes / traffic);
      const double all = times * (one + gpu->roofline->seconds_per_task);
      by_codelet[task.codelet] += all;
      seconds += all;
    }
  };
  count(net->capture_tasks(task_capture::Working::unknown, false), net->options().subdivisions);
  count(update_tasks(*net), 1);
  const std::string name = net->name();
  const int batch = net->options().batch;
  const std::size_t held = held_on_gpu(std::move(net), *data.train, here);
  const int largest = largest_batch(arguments, *data.train);
  if (arguments.common.json) {
    const nlohmann::ordered_json forecast{{"net", name},
                                          {"machine", machine.name},
                                          {"batch", batch},
                                          {"iteration_seconds", seconds},
                                          {"images_per_second", batch / seconds},
                                          {"seconds_by_codelet", by_codelet},
                                          {"bytes_on_gpu", held},
                                          {"bytes_there", here.gpu_memory},
                                          {"largest_batch", largest}};
    log::result("{}\n", json_text(forecast, 2));
  } else {
    log::result(
        "{}, {} images in {}, on {}: {:.0f} images/s, {:.2f} ms an iteration, {:.2f} of {:.2f} "
        "GiB, mini-batches of up to {} (forecast, not measured)\n",
        name, batch, name_of(precision), machine.name, batch / seconds, 1e3 * seconds,
        static_cast<double>(held) / 0x1p30, static_cast<double>(here.gpu_memory) / 0x1p30, largest);
  }
  return {};
}

}  // namespace omni
