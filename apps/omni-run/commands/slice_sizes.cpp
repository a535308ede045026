#include "apps/omni-run/commands/slice_sizes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/timed_training.hpp"
#include "apps/version.hpp"
#include "runtime/checksum.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/training_checkpoint.hpp"

namespace omni {
namespace {

constexpr int kRounds = 3;
constexpr std::uint64_t kLongTraining = 20000;  // iterations; shorter ones do not measure first
constexpr double kWorthMeasuring = 100;         // or where measuring took a larger part of the time
constexpr double kWorthIt = 0.98;               // of the time by the rule, or the rule stays
constexpr double kLost = 1.05;                  // times the least time: sizes beyond are not tried
constexpr std::uint64_t kMostBytes = 1 << 16;   // of a record
constexpr const char *kSeconds = "seconds_by_images_per_slice", *kChosen = "images_per_slice";

bool may_choose_slice(const NetArguments& net) {
  return net.slice == 0 && net.gpus == 0 && net.cores > 0;
}

// One mini-batch is one iteration, without learning.
NetSpec without_subdivisions(NetSpec spec, int images) {
  spec.net.options.push_back({"batch", std::to_string(images), kCommandLine});
  spec.net.options.push_back({"subdivisions", "1", kCommandLine});
  return spec;
}

class SliceTimer {
 public:
  SliceTimer(const NetSpec& spec, const NetArguments& net, const MachineArguments& machine,
             const Dataset& images, int warm_up, int iterations)
      : spec_(spec),
        net_(net),
        machine_(machine),
        images_(images),
        warm_up_(warm_up),
        iterations_(iterations) {}

  // Seconds of a mini-batch.
  Result<double> time(int slice, bool settled) {
    NetArguments net = net_;
    net.slice = slice;
    OMNI_TRY(auto built, build_net(spec_, net, true));
    OMNI_TRY(const auto training,
             TimedTraining::make(ComputeGroups(std::move(built)), images_, machine_));
    if (!settled) OMNI_CHECK(training->settle(warm_up_));
    return training->mean_seconds(iterations_);
  }

 private:
  const NetSpec& spec_;
  const NetArguments& net_;
  const MachineArguments& machine_;
  const Dataset& images_;
  int warm_up_, iterations_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int choose(const std::map<int, double>& seconds, int by_rule) {
  const auto fastest =
      std::min_element(seconds.begin(), seconds.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return fastest->second < kWorthIt * seconds.at(by_rule) ? fastest->first : by_rule;
}

void print(const SliceTimes& times, int images, int by_rule, bool json) {
  if (json) {
    auto rows = nlohmann::ordered_json::array();
    for (const auto& [slice, seconds] : times.seconds)
      rows.push_back({{"images_per_slice", slice}, {"seconds", seconds}});
    log::result("{}\n", json_text(
                            nlohmann::ordered_json{
                                {"images", images}, {"rows", rows}, {"chosen", times.chosen}},
                            2));
    return;
  }
  log::result("{:>16} {:>14} {:>10}\n", "images per slice", "ms/mini-batch", "images/s");
  for (const auto& [slice, seconds] : times.seconds)
    log::result("{:>16} {:>14.3f} {:>10.1f}{}{}\n", slice, 1e3 * seconds, images / seconds,
                slice == by_rule ? "  by the net's rule" : "",
                slice == times.chosen ? "  <- trainings will take it" : "");
  if (times.chosen == by_rule)
    log::result("no other is more than {:.0f} % faster\n", 100 * (1 - kWorthIt));
}

// What makes a net of such slices impossible is no reason to do without the other sizes.
bool is_too_much(const Error& error) {
  return error.kind == ErrorKind::usage || error.kind == ErrorKind::out_of_memory;
}

// The rule's size first; go_on(seconds of its mini-batch) says whether to time others. From there
// to larger and to smaller ones, each way until one is lost: the implementations of every size have
// to settle, which is what takes the time, most with the largest slices.
template <class GoOn>
Result<SliceTimes> measure(SliceTimer& timer, const SliceSizes& sizes, GoOn go_on) {
  std::map<int, std::vector<double>> taken;
  OMNI_TRY(double fastest, timer.time(sizes.by_rule, false));
  if (!go_on(fastest)) return SliceTimes();
  taken[sizes.by_rule] = {fastest};
  for (const std::vector<int>& way : {sizes.larger, sizes.smaller})
    for (const int size : way) {
      const Result<double> seconds = timer.time(size, false);
      if (!seconds && is_too_much(seconds.error())) {
        log::warn("no slices of {} images: {}", size, seconds.error().message());
        break;
      }
      if (!seconds) return seconds.error();
      taken[size] = {*seconds};
      if (*seconds > kLost * fastest) break;
      fastest = std::min(fastest, *seconds);
    }
  for (int round = 1; round < kRounds; ++round)
    for (auto& [size, seconds] : taken) {
      OMNI_TRY(const double again, timer.time(size, true));
      seconds.push_back(again);
    }
  SliceTimes times;
  for (const auto& [slice, seconds] : taken) times.seconds[slice] = median(seconds);
  times.chosen = choose(times.seconds, sizes.by_rule);
  return times;
}

}  // namespace

SliceSizes sizes_worth_timing(int images, int cores, int by_rule) {
  SliceSizes sizes{by_rule, {}, {}};
  for (int slices = std::max(cores, 1); slices < 2 * images; slices *= 2) {
    const int size = (images + slices - 1) / slices;
    if (2 * size < by_rule) break;  // too small to be worth a task
    if (size == by_rule) continue;
    std::vector<int>& way = size > by_rule ? sizes.larger : sizes.smaller;
    if (way.empty() || way.back() != size) way.push_back(size);
  }
  std::reverse(sizes.larger.begin(), sizes.larger.end());
  return sizes;
}

// Whatever changes how long a slice takes is part of the name.
SliceRecord::SliceRecord(const NetSpec& spec, const NetOptions& options, int cores,
                         const MachineArguments& machine)
    : images_(options.micro_batch()) {
  const Extent& input = options.input;
  const SessionOptions& session = machine.session;
  const std::string key =
      fmt::format("{} {} {} {}x{}x{} {} images, {} cores, {} {} {}", own_host(), kVersion,
                  layers_hash(spec), input.h, input.w, input.c, images_, cores,
                  static_cast<int>(session.precision), session.implementation, session.scheduler);
  const std::filesystem::path models =
      machine.models.empty() ? default_model_folder() : std::filesystem::path(machine.models);
  file_ = models / "slices" / (checksum_of(key) + ".json");
}

SliceTimes SliceRecord::read() const {
  std::error_code ignored;
  if (!std::filesystem::exists(file_, ignored)) return {};
  const Result<std::string> text = read_file(file_, kMostBytes);
  if (!text) {
    log::warn("{}", text.error().message());
    return {};
  }
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  SliceTimes times;
  bool sound = json.is_object() && json.contains(kSeconds) && json[kSeconds].is_object() &&
               json.contains(kChosen) && json[kChosen].is_number_integer();
  if (sound) {
    for (const auto& [size, seconds] : json[kSeconds].items()) {
      int slice = 0;
      const auto [end, problem] = std::from_chars(size.data(), size.data() + size.size(), slice);
      sound = sound && problem == std::errc() && end == size.data() + size.size() && slice > 0 &&
              slice <= images_ && seconds.is_number() && seconds.get<double>() > 0;
      if (sound) times.seconds[slice] = seconds.get<double>();
    }
    const auto chosen = json[kChosen].get<std::int64_t>();
    sound = sound && chosen > 0 && chosen <= images_;
    if (sound) times.chosen = static_cast<int>(chosen);
    sound = sound && times.seconds.contains(times.chosen);
  }
  if (sound) return times;
  log::warn("{}: no sound times of slices (omni-run time --slices takes them again)",
            file_.string());
  return {};
}

Status SliceRecord::write(const SliceTimes& times) const {
  nlohmann::ordered_json seconds;
  for (const auto& [slice, each] : times.seconds) seconds[std::to_string(slice)] = each;
  return write_file_atomically(
      file_, nlohmann::ordered_json{{kChosen, times.chosen}, {kSeconds, seconds}}.dump(1) + "\n");
}

Status use_timed_slice(const NetSpec& spec, const MachineArguments& machine, NetArguments& net) {
  if (!may_choose_slice(net)) return {};
  OMNI_TRY(const NetOptions options, read_net_options(spec.net, net.strict));
  const SliceRecord record(spec, options, net.cores, machine);
  const SliceTimes times = record.read();
  if (times.chosen == 0) return {};
  net.slice = times.chosen;
  log::info("slices of {} image{}, as omni-run time --slices measured ({})", net.slice,
            net.slice == 1 ? "" : "s", record.file().string());
  return {};
}

Result<int> slice_worth_measuring(const NetSpec& described, const NetArguments& given,
                                  const MachineArguments& machine, const Net& net,
                                  const Dataset& images, std::uint64_t iterations) {
  const bool without_end = iterations == 0;
  if (!may_choose_slice(given) || (!without_end && iterations < kLongTraining)) return 0;
  const NetArguments arguments = TimedTraining::without_learning(given);
  OMNI_TRY(const NetSpec still, read_net(arguments));
  const int at_once = net.slices().images(), by_rule = net.slices().sizes.front();
  const NetSpec spec = without_subdivisions(still, at_once);
  SliceTimer timer(spec, arguments, machine, images, 1, 1);
  const SliceSizes sizes = sizes_worth_timing(at_once, given.cores, by_rule);
  OMNI_TRY(const SliceTimes times, measure(timer, sizes, [&](double seconds) {
             double cost = 0;  // if no size is lost
             for (const auto& some : {std::vector{by_rule}, sizes.larger, sizes.smaller})
               for (const int size : some)
                 cost += TimedTraining::iterations_to_settle(at_once, size) * seconds +
                         kRounds * (TimedTraining::kLeastSeconds + 3 * seconds);
             const double training =
                 static_cast<double>(iterations) * net.options().subdivisions * seconds;
             const bool worth_it = without_end || cost * kWorthMeasuring < training;
             if (worth_it)
               log::info(
                   "measuring how large tasks should be, some {:.0f} s, once (--slice {} does "
                   "without)",
                   cost, by_rule);
             return worth_it;
           }));
  if (times.chosen == 0) return 0;
  const SliceRecord record(described, net.options(), given.cores, machine);
  std::error_code said_by_write;
  std::filesystem::create_directories(record.file().parent_path(), said_by_write);
  if (const Status written = record.write(times); !written)
    log::warn("{}; the next training measures again", written.error().message());
  std::vector<int> timed;
  for (const auto& [slice, seconds] : times.seconds) timed.push_back(slice);
  log::info("slices of {} images it is, of {}", times.chosen, fmt::join(timed, " "));
  return times.chosen;
}

Status time_slices(const TimeArguments& given) {
  TimeArguments arguments = given;
  arguments.net = TimedTraining::without_learning(given.net);
  if (arguments.net.slice != 0)
    return Error{ErrorKind::usage, "--slices", "--slice says the size already",
                 "leave one of them out"};
  if (!arguments.trace.empty())
    return Error{ErrorKind::usage, "--slices", "a trace is of one net only",
                 "--trace DIR with --slice N records one size"};
  if (arguments.net.gpus > 0)
    return Error{ErrorKind::usage, "--slices", "a GPU gets one slice, the larger the better",
                 "--gpus none times slices for cores"};
  if (arguments.net.cores == 0)
    return Error{ErrorKind::usage, "--slices",
                 "with --deterministic a net is cut the same way on every machine",
                 "leave one of them out"};
  OMNI_TRY(const NetSpec described, read_net(arguments.net));
  OMNI_TRY(const auto net, build_net(described, arguments.net, true));
  const int images = net->slices().images(), by_rule = net->slices().sizes.front();
  const SliceRecord record(described, net->options(), arguments.net.cores, arguments.machine);
  std::error_code problem;
  std::filesystem::create_directories(record.file().parent_path(), problem);
  if (problem)
    return Error{ErrorKind::usage, record.file().parent_path().string(),
                 "cannot be made: " + problem.message(), "name a writable folder with --models"};
  OMNI_CHECK(AtomicFile::create(record.file()));  // before minutes of measuring

  OMNI_TRY(const DatasetPair data, open_data({.source = "synthetic"}, *net));
  OMNI_TRY(const Session session, start_session(arguments.machine));
  const NetSpec spec = without_subdivisions(described, images);
  SliceTimer timer(spec, arguments.net, arguments.machine, *data.train, arguments.warm_up,
                   arguments.iterations);
  OMNI_TRY(const SliceTimes times,
           measure(timer, sizes_worth_timing(images, arguments.net.cores, by_rule),
                   [](double) { return true; }));
  OMNI_CHECK(record.write(times));
  print(times, images, by_rule, arguments.common.json);
  return {};
}

}  // namespace omni
