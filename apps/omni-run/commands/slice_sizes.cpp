#include "apps/omni-run/commands/slice_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/timed_training.hpp"
#include "runtime/checksum.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "scheduling/training_checkpoint.hpp"

namespace omni {
namespace {

constexpr int kRounds = 3;
// The models want some ten runs of every implementation before they are trusted; a slice is a run.
constexpr int kSlicesToSettle = 60;
constexpr std::uint64_t kMostBytes = 1 << 16;  // of a record
constexpr const char* kSeconds = "seconds_per_iteration";

int fastest(const SliceTimes& times) {
  return std::min_element(times.begin(), times.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

Result<double> time_once(const NetSpec& spec, const TimeArguments& arguments, int slice,
                         const Dataset& images, int warm_up) {
  NetArguments net = arguments.net;
  net.slice = slice;
  OMNI_TRY(auto built, build_net(spec, net, true));
  const int slices = built->slices().count();
  OMNI_TRY(const auto training,
           TimedTraining::make(ComputeGroups(std::move(built)), images, arguments.machine));
  OMNI_CHECK(training->seconds(std::max(warm_up, warm_up * kSlicesToSettle / 10 / slices),
                               Asynchrony::reproducible));
  // Of the whole run: what overlaps at its ends is a large part of few iterations.
  OMNI_TRY(const double seconds, training->seconds(arguments.iterations, Asynchrony::reproducible));
  return seconds / arguments.iterations;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print(const SliceTimes& times, int images, bool json) {
  if (json) {
    auto rows = nlohmann::ordered_json::array();
    for (const auto& [slice, seconds] : times)
      rows.push_back({{"images_per_slice", slice}, {kSeconds, seconds}});
    fmt::print("{}\n", nlohmann::ordered_json{{"rows", rows}, {"fastest", fastest(times)}}.dump(2));
    return;
  }
  fmt::print("{:>16} {:>14} {:>10}\n", "images per slice", "ms/iteration", "images/s");
  for (const auto& [slice, seconds] : times)
    fmt::print("{:>16} {:>14.3f} {:>10.1f}{}\n", slice, 1e3 * seconds, images / seconds,
               slice == fastest(times) ? "  <- trainings with as many workers will take it" : "");
}

}  // namespace

std::vector<int> sizes_worth_timing(int batch, int cores, int by_rule) {
  std::vector<int> sizes{by_rule};
  for (int slices = std::max(cores, 1); slices < 2 * batch; slices *= 2) {
    const int size = (batch + slices - 1) / slices;
    if (2 * size < by_rule) break;  // too small to be worth a task
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  return sizes;
}

SliceRecord::SliceRecord(const NetSpec& spec, const NetOptions& options, int cores,
                         const MachineArguments& machine)
    : images_(options.micro_batch()) {
  const Extent& input = options.input;
  const std::string key =
      fmt::format("{} {}x{}x{} {} images, {} cores, precision {} {}", layers_hash(spec), input.h,
                  input.w, input.c, images_, cores, static_cast<int>(machine.session.precision),
                  machine.session.implementation);
  const std::filesystem::path models =
      machine.models.empty() ? default_model_folder() : std::filesystem::path(machine.models);
  file_ = models / "slices" / (checksum_of(key) + ".json");
}

SliceTimes SliceRecord::read() const {
  std::error_code ignored;
  if (!std::filesystem::exists(file_, ignored)) return {};
  const Result<std::string> text = read_file(file_, kMostBytes);
  const auto json = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  SliceTimes times;
  bool sound = json.is_object() && json.contains(kSeconds) && json[kSeconds].is_object();
  if (sound)
    for (const auto& [size, seconds] : json[kSeconds].items()) {
      const int slice = std::atoi(size.c_str());
      sound = sound && slice > 0 && slice <= images_ && seconds.is_number() &&
              seconds.get<double>() > 0;
      if (sound) times[slice] = seconds.get<double>();
    }
  if (sound && !times.empty()) return times;
  log::warn(
      "{}: no sound times of slices; the net's own rule is used (omni-run time --slices takes "
      "them again)",
      file_.string());
  return {};
}

Status SliceRecord::write(const SliceTimes& times) const {
  nlohmann::ordered_json seconds;
  for (const auto& [slice, each] : times) seconds[std::to_string(slice)] = each;
  std::error_code problem;
  std::filesystem::create_directories(file_.parent_path(), problem);
  return write_file_atomically(file_, nlohmann::ordered_json{{kSeconds, seconds}}.dump(1) + "\n");
}

Status settle_slice(const NetSpec& spec, const MachineArguments& machine, NetArguments& net) {
  if (net.slice != 0 || net.gpus > 0 || net.cores == 0) return {};
  OMNI_TRY(const NetOptions options, read_net_options(spec.net, net.strict));
  const SliceTimes times = SliceRecord(spec, options, net.cores, machine).read();
  if (times.empty()) return {};
  net.slice = fastest(times);
  std::string others;
  for (const auto& [slice, seconds] : times)
    if (slice != net.slice) others += fmt::format(" {}", slice);
  log::info("slices of {} image{}: faster here than{} (omni-run time --slices)", net.slice,
            net.slice == 1 ? "" : "s", others);
  return {};
}

Status time_slices(const TimeArguments& given) {
  TimeArguments arguments = given;
  arguments.net = TimedTraining::without_learning(given.net);
  if (arguments.net.slice != 0)
    return Error{ErrorKind::usage, "--slices", "--slice says the size already",
                 "leave one of them out"};
  if (arguments.net.gpus > 0)
    return Error{ErrorKind::usage, "--slices", "a GPU gets one slice, the larger the better",
                 "--gpus none times slices for cores"};
  if (arguments.net.cores == 0)
    return Error{ErrorKind::usage, "--slices",
                 "with --deterministic a net is cut the same way on every machine",
                 "leave one of them out"};
  OMNI_TRY(const NetSpec spec, read_net(arguments.net));
  OMNI_TRY(const auto by_rule, build_net(spec, arguments.net, true));
  OMNI_TRY(const DatasetPair data, open_data({.source = "synthetic"}, *by_rule));
  OMNI_TRY(const Session session, start_session(arguments.machine));
  const int images = by_rule->slices().images();
  std::map<int, std::vector<double>> taken;
  for (int round = 0; round < kRounds; ++round)
    for (const int slice :
         sizes_worth_timing(images, arguments.net.cores, by_rule->slices().sizes.front())) {
      OMNI_TRY(const double seconds,
               time_once(spec, arguments, slice, *data.train, round == 0 ? arguments.warm_up : 1));
      taken[slice].push_back(seconds);
    }
  SliceTimes times;
  for (const auto& [slice, seconds] : taken) times[slice] = median(seconds);
  print(times, images, arguments.common.json);
  return SliceRecord(spec, by_rule->options(), arguments.net.cores, arguments.machine).write(times);
}

}  // namespace omni
