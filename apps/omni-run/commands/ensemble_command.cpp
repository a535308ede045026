// omni-run ensemble trains several nets in one process. Each is a training like any other, in a
// folder of its own; their samples are prepared once.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <thread>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/ensemble/ensemble_folder.hpp"
#include "apps/omni-run/ensemble/shared_trainings.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/training.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/own_tasks.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

class Ensemble {
 public:
  Ensemble(const EnsembleArguments& arguments, std::vector<Member> members)
      : arguments_(arguments), members_(std::move(members)), ended_(members_.size()) {
    for (const Member& each : members_)
      records_.push_back({.name = each.name, .net = net_of(each), .options = each.own_words});
  }

  Status run() {
    if (Status named = check_members(records_, "--members"); !named) {
      named.error().kind = ErrorKind::usage;
      return named;
    }
    OMNI_CHECK(settle());
    OMNI_TRY(const Session session, start_session(members_.front().arguments.machine));
    const bool shares = arguments_.share == "all";
    SharedTrainings shared(session, shares ? std::size_t(arguments_.window) << 20 : 0);
    OMNI_CHECK(prepare(shared));
    if (members_.front().arguments.dry_run) return {};
    for (TrainCommand& each : trainings_) OMNI_CHECK(each.join_stream());
    OMNI_CHECK(write());
    stop_in_order();
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < members_.size(); ++i)
        threads.emplace_back([this, i] { train(i); });
    }
    for (const SharedStream& stream : shared.streams())
      log::info("shared samples: {} prepared, {:.0f} MiB for the window", stream.prepared(),
                static_cast<double>(stream.bytes()) / 0x1p20);
    OMNI_CHECK(write());
    print();
    return outcome();
  }

 private:
  // A shipped net keeps its name; a file gets its whole path, since `valid` may run elsewhere.
  static std::string net_of(const Member& member) {
    const std::string& net = member.arguments.net.net;
    std::error_code ignored;
    return fs::exists(net, ignored) ? fs::absolute(net).string() : net;
  }

  Status settle() {
    TrainArguments& first = members_.front().arguments;
    for (const Member& each : members_)
      first.machine.session.deterministic |= each.arguments.arrivals.simulated;
    OMNI_CHECK(settle_workers(first.machine, &first.net));
    for (Member& each : members_) {
      each.arguments.machine = first.machine;
      fit_to_workers(each.arguments.machine, each.arguments.net,
                     static_cast<int>(first.machine.session.gpus.size()));
    }
    return {};
  }

  Status prepare(SharedTrainings& shared) {
    for (Member& each : members_) {
      std::error_code failure;
      const fs::path folder = each.arguments.out;
      if (!each.arguments.dry_run) fs::create_directories(folder, failure);
      if (failure)
        return Error{ErrorKind::usage, folder.string(),
                     "cannot make the run folder: " + failure.message(),
                     "name a writable one with --out"};
      const log::Name name(each.name);
      Status prepared = trainings_.emplace_back(each.arguments, &shared).prepare();
      if (!prepared) {
        prepared.error().where = each.name + ": " + prepared.error().where;
        return prepared;
      }
    }
    return {};
  }

  void train(std::size_t i) {
    const log::Name name(members_[i].name);
    OwnTasks tasks;
    const OwnTasksScope counted(tasks);
    ended_[i] = trainings_[i].train();
    if (ended_[i] || ended_[i].error().kind == ErrorKind::interrupted) return;
    log::warn("ends here: {}", ended_[i].error().message());
    if (members_[i].arguments.net.strict) request_stop();
  }

  Status write() {
    for (std::size_t i = 0; i < trainings_.size(); ++i) {
      EnsembleMember& record = records_[i];
      const TrainCommand& training = trainings_[i];
      record.iteration = training.state().iteration;
      if (!training.was_run()) continue;
      if (const auto& last = training.last_evaluation()) {
        record.loss = last->tally.mean_loss();
        record.accuracy = last->tally.accuracy();
      }
      record.state = ended_[i]                                          ? MemberState::finished
                     : ended_[i].error().kind == ErrorKind::interrupted ? MemberState::stopped
                     : ended_[i].error().kind == ErrorKind::diverged    ? MemberState::diverged
                                                                        : MemberState::dropped;
    }
    return write_ensemble(folder(), records_);
  }

  void print() const {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    std::size_t width = 6;
    for (const EnsembleMember& each : records_) width = std::max(width, each.name.size());
    std::string table = fmt::format("{:{}}  {:>9}  {:>10}  {:>10}  {:>13}\n", "member", width,
                                    "state", "iterations", "test loss", "test accuracy");
    for (std::size_t i = 0; i < records_.size(); ++i) {
      const EnsembleMember& each = records_[i];
      const auto shown = [](const std::optional<double>& value, double factor, const char* unit) {
        return value ? fmt::format("{:.4g}{}", factor * *value, unit) : std::string("-");
      };
      table += fmt::format("{:{}}  {:>9}  {:>10}  {:>10}  {:>13}\n", each.name, width,
                           text_of(each.state), each.iteration, shown(each.loss, 1, ""),
                           shown(each.accuracy, 100, " %"));
      nlohmann::ordered_json line{
          {"name", each.name}, {"state", text_of(each.state)}, {"iterations", each.iteration}};
      if (each.loss) line["test_loss"] = *each.loss;
      if (each.accuracy) line["test_accuracy"] = *each.accuracy;
      if (!ended_[i]) line["error"] = ended_[i].error().message();
      all.push_back(std::move(line));
    }
    if (arguments_.common.json)
      log::result("{}\n", json_text(nlohmann::ordered_json{{"members", all}}));
    else
      log::result("{}", table);
  }

  // An ensemble is well as long as a member is, and none failed for another reason than its own
  // divergence.
  Status outcome() const {
    const auto with = [&](ErrorKind kind) {
      return std::ranges::find_if(
          ended_, [&](const Status& each) { return !each && each.error().kind == kind; });
    };
    const bool strict = members_.front().arguments.net.strict;
    for (const Status& each : ended_)
      if (!each && each.error().kind != ErrorKind::interrupted &&
          (each.error().kind != ErrorKind::diverged || strict))
        return each;
    if (with(ErrorKind::interrupted) != ended_.end()) {
      std::vector<std::string> words = words_without({"--resume"}, own_words());
      words.insert(words.end(), {"--resume", "auto"});
      return Error{ErrorKind::interrupted, "", "stopped; to go on:\n  " + for_shell(words), ""};
    }
    const auto first = with(ErrorKind::diverged);
    const bool some_end_well =
        std::ranges::any_of(ended_, [](const Status& each) { return bool(each); });
    return first == ended_.end() || some_end_well ? Status() : *first;
  }

  fs::path folder() const { return fs::path(members_.front().arguments.out).parent_path(); }

  const EnsembleArguments& arguments_;
  std::vector<Member> members_;
  std::vector<Status> ended_;  // by member: what its training returned
  std::vector<EnsembleMember> records_;
  std::deque<TrainCommand> trainings_;
};

}  // namespace

Status train_ensemble(const EnsembleArguments& arguments, std::vector<Member> members) {
  return Ensemble(arguments, std::move(members)).run();
}

}  // namespace omni
