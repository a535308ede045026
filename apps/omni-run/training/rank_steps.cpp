// The steps of TrainCommand for several ranks. They refuse options, compare the arguments of all
// ranks, and let the first rank do work for all.
#include <fmt/format.h>

#include <algorithm>

#include "apps/command_line.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/training.hpp"
#include "runtime/checksum.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/communicator/transfers.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/tasks/host_access.hpp"

namespace omni {
namespace {

struct Fact {
  const char* what;
  std::string value;
};

std::string contents(const Dataset& data) {
  constexpr std::size_t kLabels = 1000;
  std::string text;
  for (std::size_t i = 0; i < std::min(kLabels, data.size()); ++i)
    text += fmt::format("{} ", data.label(i * data.size() / std::min(kLabels, data.size())));
  return fmt::format("{} samples, labels {}", data.size(), checksum_of(text));
}

std::string contents(const DatasetPair& data) {
  return data.name + ", " + contents(*data.train) +
         (data.test ? ", test " + contents(*data.test) : "");
}

Status require_same(const std::vector<Fact>& facts) {
  // compare_ranks() names the program first, as another program may know other facts.
  for (Fact fact : facts) {
    std::ranges::replace(fact.value, '\n', ' ');
    const std::vector<std::string> all = ranks::gather(fact.value);
    for (int rank = 1; rank < ranks::size(); ++rank)
      if (all[rank] != all[0])
        return Error{
            ErrorKind::usage, ranks::name(rank),
            fmt::format("{} is {}, and {} on the first rank", fact.what, all[rank], all[0]),
            "all ranks must have the same"};
  }
  return {};
}

}  // namespace

void share_workers(MachineArguments& machine) {
  const int cores = ranks::share_cores();
  int& workers = machine.session.cpu_workers;
  if (workers < 0) workers = cores;
}

Status prepare_ranks(TrainArguments& train) {
  ranks::set_patience(train.patience);
  if (!ranks::several()) return {};
  share_workers(train.machine);
  if (ranks::first()) return {};
  train.common.quiet = true;
  train.metrics.clear();
  train.save_weights.clear();
  return {};
}

Status TrainCommand::check_ranks() {
  if (!ranks::several()) return {};
  const GroupArguments& groups = arguments_.groups;
  const bool one = this->groups().count() == 1, merged = !one && net().has(Net::Phase::merged);
  const char *const not_yet = "the number of groups is not searched over ranks yet",
                    *const one_process = "start one process";
  OMNI_CHECK(first_of({{groups.automatic, "--auto", not_yet, one_process},
                       {groups.planned || strategy_.grows, "--groups auto", not_yet, one_process},
                       {arguments_.arrivals.simulated, "--arrivals virtual",
                        "a simulated training is one process", one_process},
                       {merged && !net().has(Net::Phase::replicated), "--fc merged",
                        "all layers would be on the first rank", "--fc replicated"},
                       {merged && net().options().subdivisions > 1, "--subdivisions",
                        "merged layers of several ranks take whole mini-batches",
                        "--subdivisions 1, or --fc replicated"},
                       {net().layers().size() > kMostLayers, "--net",
                        "over several ranks a net has 768 layers at most", one_process},
                       {std::ssize(net().slices().all_sizes) > kMostSlices * ranks::size(),
                        "--slice", "a rank has more than 256 slices", "larger slices"}}));
  if (arguments_.net.strict)
    log::warn("--strict: over several ranks, nets that do not learn are not detected yet");
  const bool at_once = std::ranges::any_of(net().params(), [this](const Param* each) {
    return each->trainable && !each->by_slice && !each->whole_on_each_rank &&
           !net().is_merged(*each);
  });
  if (net().slices().ranks > 1 && at_once && arguments_.machine.session.deterministic)
    log::warn(
        "--deterministic: large connected layers add up the images of a rank at once, so the bits "
        "depend on the number of ranks");
  return {};
}

Status TrainCommand::compare_ranks() {
  if (!ranks::several()) return {};
  OMNI_TRY(const std::string program, read_file("/proc/self/exe", UINT64_MAX));
  std::vector<std::string> words = own_words();
  if (!words.empty()) words.erase(words.begin());
  const Status same = require_same(
      {{"the program", fmt::format("{} ({})", kVersion, checksum_of(program))},
       {"the command line", for_shell(words)},
       {"the number of GPUs", std::to_string(arguments_.net.gpus)},
       {"the net description", checksum_of(spec_.text)},
       {"the data", contents(data_)},
       {"the checkpoint", checkpoint_ ? fmt::format("that of iteration {}", checkpoint_->step)
                                      : std::string("none")}});
  OMNI_CHECK(same);
  log::tell_warnings_unless_in(ranks::gather(log::warnings_so_far()).front());
  log::info("links between ranks: {} at worst",
            ranks::describe(ranks::slowest(ranks::measure_links())));
  if (const Slices& slices = net().slices(); slices.ranks > 1)
    log::info("{} ranks share a mini-batch: {} of {} images on each", slices.ranks, slices.images(),
              slices.images_of_all());
  return {};
}

Status TrainCommand::compare_weights() {
  if (!ranks::several()) return {};
  Checksum all;
  for (const Param* param : net().params())
    all.update(std::as_bytes(HostAccess(*param->master, HostAccess::Mode::read).f32()));
  return require_same({{"the checksum of --weights", checksum_text(all.value())}});
}

// Only the first rank does the work; if it fails, all ranks return an error.
Status TrainCommand::on_first_rank(const std::function<Status()>& work) {
  if (!ranks::several()) return work();
  const Status done = ranks::first() ? work() : Status();
  const std::vector<std::string> failures = ranks::gather(
      done ? "" : fmt::format("{}{}", static_cast<int>(done.error().kind), done.error().message()));
  if (!done || failures.front().empty()) return done;
  return Error{static_cast<ErrorKind>(failures.front()[0] - '0'), "", failures.front().substr(1),
               ""};
}

Status TrainCommand::save(const TrainingState& state) {
  if (RankSums* sums = training_->sums()) OMNI_CHECK(sums->gather_memory());
  constexpr std::size_t kMostNoted = 500'000;  // as the size of a checkpoint's header is bounded
  share_damaged(state.iteration);
  TrainingState noted = state;
  if (const DamagedImages* const found = data_.train->damaged(); found != nullptr)
    noted.damaged = found->indices();
  noted.damaged.resize(std::min(noted.damaged.size(), kMostNoted));
  OMNI_CHECK(on_first_rank([this] { return folder_->open_unused(); }));
  if (!ranks::first()) bring_arrays(groups());
  return on_first_rank([&]() -> Status {
    OMNI_TRY(const auto path, save_training(folder_->store(), groups(), noted, identity_));
    progress_.finish_line();
    log::info("saved {}", path.string());
    return {};
  });
}

}  // namespace omni
