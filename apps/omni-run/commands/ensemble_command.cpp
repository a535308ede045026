// omni-run ensemble trains several nets in one process. Each is a training like any other, in a
// folder of its own; their samples are prepared once.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <sstream>
#include <thread>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/ensemble/ensemble_folder.hpp"
#include "apps/omni-run/ensemble/ensemble_plan.hpp"
#include "apps/omni-run/ensemble/shared_trainings.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/training.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/own_tasks.hpp"
#include "scheduling/ensemble/sweep_judge.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Reads --stop: "asha", "asha:100:3", "median:50". Without a number of iterations, it follows from
// the length of the training; 0: no end.
Result<RungOptions> rung_options(const std::string& text, std::uint64_t length) {
  const auto refuse = [&] {
    return Error{ErrorKind::usage, "--stop " + text, "is no rule",
                 "asha, asha:100, asha:100:3, median or median:100"};
  };
  std::vector<std::string> parts;
  std::istringstream words(text);
  for (std::string part; std::getline(words, part, ':');) parts.push_back(part);
  RungOptions options;
  if (parts.empty() || (parts[0] != "asha" && parts[0] != "median")) return refuse();
  options.rule = parts[0] == "asha" ? StopRule::asha : StopRule::median;
  if (parts.size() > (options.rule == StopRule::asha ? 3 : 2)) return refuse();
  if (parts.size() > 2) {
    const auto eta = count_in(parts[2], 1000);
    if (!eta || *eta < 2) return refuse();
    options.eta = *eta;
  }
  const auto share = static_cast<std::uint64_t>(
      options.rule == StopRule::asha ? options.eta * options.eta * options.eta : 10);
  options.first = std::max<std::uint64_t>(10, length / share);
  if (parts.size() > 1) {
    const auto first = count_in(parts[1], 1 << 30);
    if (!first) return refuse();
    options.first = *first;
  }
  return options;
}

class Ensemble {
 public:
  Ensemble(const EnsembleArguments& arguments, std::vector<Member> members)
      : arguments_(arguments), members_(std::move(members)) {}

  Status run() {
    OMNI_CHECK(record_members());
    if (Status named = check_members(all_, "--members"); !named) {
      named.error().kind = ErrorKind::usage;
      return named;
    }
    if (!arguments_.stop.empty()) OMNI_CHECK(rung_options(arguments_.stop, 0));
    if (arguments_.plan) return plan_ensemble(arguments_, members_);
    OMNI_CHECK(take_part());
    if (members_.empty()) {
      log::info("no member is in this part");
      return {};
    }
    if (!arguments_.stop.empty() || !arguments_.sweep.empty()) {
      std::vector<std::string> names;
      for (const Member& each : members_) names.push_back(each.name);
      judge_.emplace(std::move(names));
    }
    OMNI_CHECK(settle());
    OMNI_TRY(const Session session, start_session(members_.front().arguments.machine));
    const bool shares = arguments_.share == "all";
    SharedTrainings shared(session, shares ? std::size_t(arguments_.window) << 20 : 0);
    OMNI_CHECK(prepare(shared));
    if (members_.front().arguments.dry_run) return {};
    if (judge_) OMNI_CHECK(start_judge());
    for (TrainCommand& each : trainings_) OMNI_CHECK(each.join_stream());
    OMNI_CHECK(write());
    stop_in_order();
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < members_.size(); ++i)
        threads.emplace_back([this, i] { train(i); });
    }
    shared.progress.finish();
    for (const SharedStream& stream : shared.streams())
      log::info("shared samples: {} prepared, {:.0f} MiB for the window", stream.prepared(),
                static_cast<double>(stream.bytes()) / 0x1p20);
    OMNI_CHECK(write());
    print();
    return outcome();
  }

 private:
  // Returns the name of a net or solver in a form that `valid` understands later, which may run in
  // another folder. The name of a file becomes its whole path; names of what is shipped stay.
  static std::string lasting(const std::string& file) {
    std::error_code ignored;
    return fs::exists(file, ignored) ? fs::absolute(file).string() : file;
  }

  Status record_members() {
    for (const Member& each : members_) {
      const NetArguments& named = each.arguments.net;
      std::string net = named.net;
      if (net.empty()) {
        OMNI_TRY(net, find_net(named));
      }
      all_.push_back({.name = each.name,
                      .net = lasting(net),
                      .solver = lasting(named.solver),
                      .options = words_without({"--solver"}, each.words)});
    }
    return {};
  }

  // Leaves out the members of other processes.
  Status take_part() {
    OMNI_TRY(const MembersPart part, read_part(arguments_.part));
    if (part.count > 1 && !arguments_.stop.empty())
      return Error{ErrorKind::usage, "--stop " + arguments_.stop,
                   "members of several processes cannot be compared while they train",
                   "leave out --stop, or train all members in one process"};
    std::vector<Member> own;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      are_own_.push_back(i % part.count == part.first);
      if (!are_own_.back()) continue;
      own.push_back(std::move(members_[i]));
      records_.push_back(all_[i]);
    }
    members_ = std::move(own);
    ended_.resize(members_.size());
    return {};
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
      std::function<std::unique_ptr<Pilot>()> pilot;
      if (judge_)
        pilot = [this, member = static_cast<int>(trainings_.size())] {
          return judge_->pilot(member);
        };
      Status prepared =
          trainings_.emplace_back(each.arguments, &shared, each.name, std::move(pilot)).prepare();
      if (!prepared) {
        prepared.error().where = each.name + ": " + prepared.error().where;
        return prepared;
      }
    }
    return {};
  }

  Status start_judge() {
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < trainings_.size(); ++i) {
      const auto* softmax =
          std::get_if<SoftmaxOptions>(&trainings_[i].spec().layers.back().options);
      if (softmax == nullptr || softmax->groups != 1)
        return Error{ErrorKind::usage, members_[i].name, "the outputs are no probabilities",
                     "a sweep compares nets that end with a softmax layer of one group"};
      if (!trainings_[i].has_test())
        return Error{ErrorKind::usage, members_[i].name, "there is no test set",
                     "a sweep compares members on test images: --hold-out 0.1, say"};
      length = std::max(length, trainings_[i].planned());
    }
    if (arguments_.stop.empty()) return {};
    OMNI_TRY(const RungOptions options, rung_options(arguments_.stop, length));
    return judge_->stop_by(options, folder() / "rungs.json",
                           members_.front().arguments.resume == "auto");
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
      const bool loses = judge_ && judge_->has_stopped(static_cast<int>(i));
      record.state = ended_[i] && loses                                 ? MemberState::dropped
                     : ended_[i]                                        ? MemberState::finished
                     : ended_[i].error().kind == ErrorKind::interrupted ? MemberState::stopped
                     : ended_[i].error().kind == ErrorKind::diverged    ? MemberState::diverged
                                                                        : MemberState::dropped;
    }
    for (std::size_t i = 0, own = 0; i < all_.size(); ++i)
      if (are_own_[i]) all_[i] = records_[own++];
    return update_ensemble(folder(), all_, are_own_);
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
    nlohmann::ordered_json summary{{"members", all}};
    if (const BestMember best = judge_ ? judge_->best() : BestMember(); best.best >= 0) {
      table += fmt::format("best: {}", members_[best.best].name);
      summary["best"] = members_[best.best].name;
      if (best.next >= 0) {
        table += fmt::format("; the loss of {} is {:.4f} +- {:.4f} higher on the same images",
                             members_[best.next].name, best.ahead.mean, best.ahead.error);
        summary["next"] = members_[best.next].name;
        summary["ahead"] = {{"loss", best.ahead.mean}, {"error", best.ahead.error}};
      }
      table += '\n';
    }
    if (arguments_.common.json)
      log::result("{}\n", json_text(summary));
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
  std::vector<EnsembleMember> all_;  // also the members of other processes
  std::vector<bool> are_own_;        // by all_
  std::optional<SweepJudge> judge_;  // none: no member is compared
  std::deque<TrainCommand> trainings_;
};

}  // namespace

Status train_ensemble(const EnsembleArguments& arguments, std::vector<Member> members) {
  return Ensemble(arguments, std::move(members)).run();
}

}  // namespace omni
