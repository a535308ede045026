// On a simulated machine, this program compares the plan's predictions for some numbers of compute
// groups with the times that trainings take. The only argument and the output are JSON. foretell()
// lists the keys.
#include <starpu.h>  // SimGrid starts main() in an actor, under another name

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "layers/formats/darknet/darknet.hpp"
#include "runtime/tasks/session.hpp"
#include "scheduling/forecast/iteration_model.hpp"
#include "scheduling/policy/omni_policy.hpp"
#include "tests/simgrid/devices.hpp"
#include "tests/simgrid/training.hpp"

namespace omni::test {
namespace {

using nlohmann::json;

// Returns the seconds per iteration of each run.
Result<std::vector<double>> measure(const TrainableNet& spec, int groups, int slice, int iterations,
                                    int runs) {
  std::vector<double> all;
  for (int run = 0; run < runs; ++run) {
    OMNI_TRY(const auto training, SimulatedTraining::make(spec, groups, slice));
    OMNI_TRY(const double each, training->seconds_per_iteration(iterations, groups == 1));
    all.push_back(each);
  }
  return all;
}

// The arguments are "net" (a file), "batch" (images), "slice" (images per slice), "groups" (a list
// of numbers of groups), "iterations", "runs" (for each number of groups), and "gpus_only" (true:
// cores do nothing that a GPU could). simulate() adds the machine's "cores" and "gpus".
Result<json> foretell(const json& arguments) {
  DeviceOptions devices;
  devices.gpus_only = arguments.value("gpus_only", false);
  simulate_devices(devices);
  SessionOptions options;
  options.cpu_workers = arguments.at("cores");
  options.policy = &omni_policy();
  options.scheduler = "omni";
  for (int gpu = 0; gpu < arguments.at("gpus"); ++gpu) options.gpus.push_back(gpu);
  OMNI_TRY(const Session session, Session::start(options));

  OMNI_TRY(TrainableNet spec, read_darknet_cfg(arguments.at("net").get<std::string>()));
  spec.options.batch = arguments.at("batch");
  spec.options.subdivisions = 1;
  const int slice = arguments.at("slice"), iterations = arguments.at("iterations");
  const Workers workers = SimulatedTraining::workers();
  OMNI_TRY(const auto two, SimulatedTraining::make(spec, 2, slice));
  OMNI_TRY(const IterationModel model,
           IterationModel::measure(
               two->net(), workers,
               [&](int count) { return two->seconds_per_iteration(count, true); }, 3, iterations));
  json rows = json::array();
  for (const int groups : arguments.at("groups")) {
    OMNI_TRY(const auto took,
             measure(spec, groups, slice, iterations + 4 * groups, arguments.at("runs")));
    rows.push_back(
        {{"groups", groups},
         {"predicted", model.seconds_per_iteration(spread_groups(groups, workers), groups == 1)},
         {"took", took}});
  }
  return json{{"rows", rows}};
}

}  // namespace
}  // namespace omni::test

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const auto result = omni::test::foretell(nlohmann::json::parse(arguments[1]));
  if (result)
    std::puts(result->dump().c_str());
  else
    std::fprintf(stderr, "error: %s\n", result.error().message().c_str());
  std::fflush(stdout);
  return result ? 0 : 1;
}
