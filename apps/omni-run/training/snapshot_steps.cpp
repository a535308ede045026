// These steps of TrainCommand write parameters for other programs: at the end, and the snapshots of
// a solver of Caffe, which are in the run folder.
#include <fmt/format.h>

#include <algorithm>

#include "apps/omni-run/class_names.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/rank_checks.hpp"
#include "apps/omni-run/training/training.hpp"
#include "apps/output_file.hpp"
#include "layers/formats/parameters.hpp"
#include "runtime/log.hpp"

namespace omni {

Status TrainCommand::check_snapshots() {
  if (!arguments_.save_weights.empty()) {  // an error now is better than after hours of training
    OMNI_CHECK(check_parameter_file(net(), arguments_.save_weights));
    OMNI_CHECK(check_output(
        {.option = "--save-weights",
         .path = arguments_.save_weights,
         .read = {arguments_.net.net, arguments_.net.solver, arguments_.data.source},
         .written = {arguments_.metrics, arguments_.out, arguments_.trace},
         .replaceable = is_parameter_file,
         .foreign = fmt::format("holds no {}", parameter_format(arguments_.save_weights))},
        net().parameter_count() * sizeof(float)));
    OMNI_CHECK(check_names_beside(arguments_.save_weights));
    if (const std::string snapshot = snapshot_beside(arguments_.save_weights, net());
        !snapshot.empty())
      OMNI_CHECK(check_output({.option = "--save-weights",
                               .path = snapshot,
                               .read = {arguments_.snapshot},
                               .written = {arguments_.metrics, arguments_.out, arguments_.trace},
                               .replaceable = is_caffe_snapshot,
                               .foreign = "holds no snapshot of Caffe"},
                              2 * net().parameter_count() * sizeof(float)));
  }
  return spec_.snapshots.any() ? check_parameter_file(net(), snapshot_name(0)) : Status();
}

std::string TrainCommand::snapshot_name(std::uint64_t iteration) const {
  const auto name = fmt::format("{}_iter_{}.caffemodel", spec_.snapshots.prefix, iteration);
  return (RunFolder::place(arguments_.out, spec_.name) / name).string();
}

// A snapshot has what the solver remembers, of which each rank has its part.
Status TrainCommand::gather_for_snapshot() {
  RankSums* sums = training_->sums();
  return sums != nullptr && net().rule() != StepRule::usual ? sums->gather_memory() : Status();
}

Status TrainCommand::save_parameters(const std::string& file, const TrainingState& at) {
  OMNI_CHECK(save_parameter_file(net(), file, at.samples));
  progress_.finish_line();
  std::error_code ignored;
  if (!caffe_log_)
    log::info("saved {} ({} bytes)", file, std::filesystem::file_size(file, ignored));
  const std::string snapshot = snapshot_beside(file, net());
  if (!snapshot.empty()) {
    const auto over = std::ranges::count_if(spec_.solver.steps, [&](int step) {
      return static_cast<std::uint64_t>(step) < at.iteration;
    });
    OMNI_CHECK(save_caffe_snapshot(net(), snapshot, {.iteration = at.iteration, .parameters = file},
                                   static_cast<int>(over)));
    if (!caffe_log_) log::info("saved {}", snapshot);
  }
  if (caffe_log_) caffe_log_->snapshot(file, snapshot);
  return {};
}

Status TrainCommand::save_snapshot(const TrainingState& at) {
  OMNI_CHECK(gather_for_snapshot());
  return on_first_rank([&]() -> Status {
    const std::filesystem::path file = snapshot_name(at.iteration);
    std::error_code failure;
    std::filesystem::create_directories(file.parent_path(), failure);
    if (failure)
      return Error{ErrorKind::usage, file.parent_path().string(),
                   "cannot make the run folder: " + failure.message(),
                   "name a writable one with --out"};
    return save_parameters(file.string(), at);
  });
}

}  // namespace omni
