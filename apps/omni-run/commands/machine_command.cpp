// omni-run machine: measures how long trainings of a net take one core and one GPU of this machine,
// by mini-batch size, for a machine file.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/timed_training.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

using nlohmann::ordered_json;

Result<std::unique_ptr<Net>> net_of_batch(NetArguments arguments, int batch) {
  arguments.settings.push_back(fmt::format("batch={}", batch));
  return open_net(arguments, true);
}

// {"1": seconds, "2": seconds, "4": ...} up to the net's own mini-batch.
Result<ordered_json> seconds_by_size(const NetArguments& net, const MachineArguments& machine,
                                     int batch, const char* kind) {
  OMNI_TRY(const auto whole, net_of_batch(net, batch));
  OMNI_TRY(const DatasetPair data, open_data({.source = "synthetic"}, *whole));
  OMNI_TRY(const Session session, start_session(machine));
  auto table = ordered_json::object();
  for (int size = 1;; size = std::min(2 * size, batch)) {
    OMNI_TRY(auto built, net_of_batch(net, size));
    OMNI_TRY(const auto training,
             TimedTraining::make(ComputeGroups(std::move(built)), *data.train, machine));
    OMNI_CHECK(training->settle());
    OMNI_TRY(const double seconds, training->mean_seconds());
    log::info("one {}: mini-batches of {} take {:.3f} ms", kind, size, 1e3 * seconds);
    table[std::to_string(size)] = seconds;
    if (size == batch) return table;
  }
}

}  // namespace

Status machine_command(const MachineFileArguments& given) {
  MachineFileArguments arguments = given;
  NetArguments& net = arguments.net;
  if (net.net.empty()) net.net = "lenet";
  if (!arguments.out.empty()) OMNI_CHECK(try_writing(arguments.out, 0));
  net = TimedTraining::without_learning(net);
  OMNI_TRY(const NetSpec spec, read_net(net));
  OMNI_TRY(const NetOptions options, read_net_options(spec.net, net.strict));

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
