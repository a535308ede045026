#include "apps/omni-run/slurm/job_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/rank_checks.hpp"
#include "apps/omni-run/training/run_folder.hpp"
#include "apps/omni-run/training/time_limit.hpp"
#include "apps/omni-run/training/train_inputs.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/cuda/devices.hpp"
#include "runtime/data/formats.hpp"
#include "runtime/data/open.hpp"
#include "runtime/log.hpp"
#include "scheduling/checkpoint/training_snapshot.hpp"
#include "scheduling/policy/omni_policy.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Returns true if the path does not exist on this machine and may be on a disk of the job's node. A
// relative path never is, as the job starts in the current folder.
bool is_elsewhere(const fs::path& path) {
  std::error_code none;
  return path.is_absolute() && !fs::exists(path, none);
}

bool is_elsewhere(const DataArguments& data) {
  const std::string& source = data.source;
  std::error_code none;
  if (fs::exists(source, none)) return false;
  if (const std::size_t equals = source.find('='); equals < source.find('/')) {  // several inputs
    const std::size_t end = std::min(source.find('\n'), source.size());
    DataArguments first = data, others = data;
    first.source = equals < end ? source.substr(equals + 1, end - equals - 1) : "";
    others.source = source.substr(std::min(end + 1, source.size()));
    return is_elsewhere(first) || (!others.source.empty() && is_elsewhere(others));
  }
  DatasetRequest request;
  request.source = source;
  request.test = data.test;
  request.hold_out = data.hold_out;
  const DataFormat* const format = format_of(request);
  if (format != nullptr && format->installed) {  // are the data refused for any net?
    const auto opened = open_dataset(request);
    return !opened && opened.error().kind == ErrorKind::usage;
  }
  const std::size_t comma = source.find(',');
  return is_elsewhere(fs::path(source.substr(0, comma))) ||
         (comma != source.npos && is_elsewhere(fs::path(source.substr(comma + 1))));
}

void leave_to_the_job(const char* option, std::string& path) {
  log::warn("{} {}: is not on this machine; the job's nodes must have it", option, path);
  path.clear();
}

// Returns how many GPUs of a node will compute.
Result<int> gpus_of(const MachineArguments& machine, const ExpectedJob& job) {
  OMNI_TRY(const std::vector<int> numbers, gpu_numbers(machine.gpus));
  const bool asked = job.gpus > 0, named = !numbers.empty();
  if (asked && named && std::ranges::max(numbers) >= job.gpus)
    return Error{ErrorKind::device, "--gpus " + machine.gpus,
                 fmt::format("there is no GPU {}", std::ranges::max(numbers)),
                 fmt::format("the job has {} on each node, counted from 0; --gpus-per-node before "
                             "-- asks for more",
                             job.gpus)};
  if (asked && machine.gpus == "none")
    log::warn("--gpus none: the GPUs that the job has will do nothing");
  if (!asked && (named || machine.session.implementation == "cuda"))
    log::warn("{}: the job asks for no GPU (--gpus-per-node 1 before --, say)",
              named ? "--gpus " + machine.gpus : "--impl cuda");
#ifndef OMNI_CUDA
  if (asked) log::warn("this omni-run was built without CUDA: the job's GPUs will do nothing");
#endif
  return machine.gpus == "none" ? 0 : named ? static_cast<int>(numbers.size()) : job.gpus;
}

Status check(TrainInputs inputs, const ExpectedJob& job) {
  OMNI_CHECK(inputs.open_nets());
  OMNI_CHECK(inputs.check());
  OMNI_CHECK(check_ranks(inputs.arguments, *inputs.groups, inputs.strategy.grows, false));
  SessionOptions session = inputs.arguments.machine.session;
  session.policy = &omni_policy();
  OMNI_TRY(const std::string scheduler, Session::scheduler_of(session));
  if (inputs.strategy.grows || inputs.groups->count() > 1 ||
      !inputs.arguments.groups.layout.empty())
    OMNI_CHECK(require_group_scheduler(scheduler));
  const std::uint64_t bytes = inputs.checkpoint_bytes();
  if (job.seconds > 0)
    OMNI_CHECK(TimeLimit().require("--time", static_cast<double>(job.seconds), bytes));

  for (auto [option, file] : {std::pair("--save-weights", &inputs.arguments.save_weights),
                              std::pair("--metrics", &inputs.arguments.metrics),
                              std::pair("--trace", &inputs.arguments.trace),
                              std::pair("--models", &inputs.arguments.machine.models)})
    if (fs::path(*file).has_parent_path() && is_elsewhere(fs::path(*file).parent_path()))
      leave_to_the_job(option, *file);
  OMNI_CHECK(inputs.try_places());
  OMNI_CHECK(try_trace(inputs.arguments.trace));
  if (const std::string& models = inputs.arguments.machine.models; !models.empty())
    OMNI_CHECK(try_folder(models, 0, "--models"));
  if (is_elsewhere(inputs.arguments.weights))
    leave_to_the_job("--weights", inputs.arguments.weights);
  if (is_elsewhere(inputs.arguments.resume)) {
    leave_to_the_job("--resume", inputs.arguments.resume);
    inputs.arguments.resume = "none";
  }
  // Without --out the job's script names a new folder, in which there is nothing to resume.
  if (inputs.arguments.out.empty() && inputs.arguments.resume == "auto")
    inputs.arguments.resume = "none";
  OMNI_CHECK(inputs.find_origin());
  if (!inputs.arguments.out.empty() && !is_elsewhere(inputs.arguments.out))
    OMNI_CHECK(RunFolder::check(inputs.arguments.out, inputs.goes_on, bytes));

  if (const Status opened = inputs.open_images(nullptr); !opened) {
    if (opened.error().kind == ErrorKind::out_of_memory)
      log::warn("{}: not checked", opened.error().message());
    else if (is_elsewhere(inputs.arguments.data))
      log::warn("--data {}: is not on this machine; the job's nodes must have it",
                inputs.arguments.data.source);
    else
      return opened;
  }
  return {};
}

}  // namespace

Status check_for_job(TrainArguments arguments, const ExpectedJob& job) {
  OMNI_TRY(const int gpus, gpus_of(arguments.machine, job));
  fit_to_workers(arguments.machine, arguments.net, gpus);
  const log::Level level = log::level();
  log::set_level(log::Level::quiet);  // the job itself will print these messages
  Status status = ranks::suppose(job.ranks);
  if (status) status = check({.arguments = std::move(arguments)}, job);
  log::set_level(level);
  OMNI_CHECK(ranks::suppose(1));
  return status;
}

}  // namespace omni
