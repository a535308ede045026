#include "apps/omni-run/training/parameter_output.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/omni-run/class_names.hpp"
#include "apps/omni-run/training/rank_checks.hpp"
#include "apps/omni-run/training/run_folder.hpp"
#include "apps/output_file.hpp"
#include "layers/formats/parameters.hpp"
#include "runtime/log.hpp"

namespace omni {
namespace {

std::string snapshot_name(const TrainArguments& arguments, const TrainableNet& spec,
                          std::uint64_t iteration) {
  const auto name = fmt::format("{}_iter_{}.caffemodel", spec.snapshots.prefix, iteration);
  return (RunFolder::place(arguments.out, spec.name) / name).string();
}

}  // namespace

Status check_parameter_output(const TrainArguments& arguments, const TrainableNet& spec, Net& net) {
  if (!arguments.save_weights.empty()) {  // an error now is better than after hours of training
    OMNI_CHECK(check_parameter_file(net, arguments.save_weights));
    OMNI_CHECK(check_output(
        {.option = "--save-weights",
         .path = arguments.save_weights,
         .read = {arguments.net.net, arguments.net.solver, arguments.data.source},
         .written = {arguments.metrics, arguments.out, arguments.trace},
         .replaceable = is_parameter_file,
         .foreign = fmt::format("holds no {}", parameter_format(arguments.save_weights))},
        net.parameter_count() * sizeof(float)));
    OMNI_CHECK(check_names_beside(arguments.save_weights));
    if (const std::string snapshot = snapshot_beside(arguments.save_weights, net);
        !snapshot.empty())
      OMNI_CHECK(check_output({.option = "--save-weights",
                               .path = snapshot,
                               .read = {arguments.snapshot},
                               .written = {arguments.metrics, arguments.out, arguments.trace},
                               .replaceable = is_caffe_snapshot,
                               .foreign = "holds no snapshot of Caffe"},
                              2 * net.parameter_count() * sizeof(float)));
  }
  return spec.snapshots.any() ? check_parameter_file(net, snapshot_name(arguments, spec, 0))
                              : Status();
}

Status ParameterOutput::gather() {
  RankSums* sums = training_.sums();
  return sums != nullptr && net().rule() != StepRule::usual ? sums->gather_memory() : Status();
}

Status ParameterOutput::save(const std::string& file, const TrainingState& at) {
  OMNI_CHECK(save_parameter_file(net(), file, at.samples));
  report_.saved(file);
  const std::string snapshot = snapshot_beside(file, net());
  if (!snapshot.empty()) {
    const auto over = std::ranges::count_if(spec_.solver.steps, [&](int step) {
      return static_cast<std::uint64_t>(step) < at.iteration;
    });
    OMNI_CHECK(save_caffe_snapshot(net(), snapshot, {.iteration = at.iteration, .parameters = file},
                                   static_cast<int>(over)));
  }
  report_.saved_snapshot(file, snapshot);
  return {};
}

Status ParameterOutput::save_snapshot(const TrainingState& at) {
  OMNI_CHECK(gather());
  return on_first_rank([&] { return write_snapshot(at); });
}

Status ParameterOutput::write_snapshot(const TrainingState& at) {
  const std::filesystem::path file = snapshot_name(arguments_, spec_, at.iteration);
  std::error_code failure;
  std::filesystem::create_directories(file.parent_path(), failure);
  if (failure)
    return Error{ErrorKind::usage, file.parent_path().string(),
                 "cannot make the run folder: " + failure.message(),
                 "name a writable one with --out"};
  return save(file.string(), at);
}

Status ParameterOutput::save_at_end(const TrainingState& at,
                                    const std::vector<std::string>& class_names) {
  OMNI_CHECK(gather());
  if (const std::string& file = arguments_.save_weights; !file.empty()) {
    OMNI_CHECK(save(file, at));
    if (const Status named = write_names_beside(file, class_names); !named)
      log::warn("{}", named.error().message());
  }
  const bool is_due = spec_.snapshots.at_end ||
                      (spec_.snapshots.every > 0 && at.iteration % spec_.snapshots.every == 0);
  return is_due ? save_snapshot(at) : Status();
}

}  // namespace omni
