// omni-run ensemble trains several nets in one process. Each is a training like any other, in a
// folder of its own; their samples are prepared once.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <thread>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/ensemble/curves_page.hpp"
#include "apps/omni-run/ensemble/ensemble_folder.hpp"
#include "apps/omni-run/ensemble/ensemble_plan.hpp"
#include "apps/omni-run/ensemble/ensemble_table.hpp"
#include "apps/omni-run/ensemble/outcome.hpp"
#include "apps/omni-run/ensemble/rank_ensemble.hpp"
#include "apps/omni-run/ensemble/shared_trainings.hpp"
#include "apps/omni-run/ensemble/sweep/stop_rule.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/rank_checks.hpp"
#include "apps/omni-run/training/train_command.hpp"
#include "runtime/farewell.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/own_tasks.hpp"
#include "scheduling/ensemble/sweep_judge.hpp"
#include "scheduling/forecast/fleet/fleet.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

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
    OMNI_CHECK(check_share(arguments_));
    if (arguments_.plan) return plan_ensemble(arguments_, members_);
    if (ranks::several()) OMNI_CHECK(check_ranks());
    OMNI_CHECK(take_part());
    if (members_.empty()) {
      log::info("no member is in this part");
      return {};
    }
    const bool compares =
        !arguments_.stop.empty() || !arguments_.sweep.empty() || arguments_.exploit;
    if (compares && !arguments_.prepare_only) {
      std::vector<std::string> names;
      for (const EnsembleMember& each : all_) names.push_back(each.name);
      judge_.emplace(std::move(names));
      for (std::size_t i = 0; i < members_before(); ++i) judge_->note_end(static_cast<int>(i));
    }
    OMNI_CHECK(settle());
    OMNI_TRY(session_, start_session(members_.front().arguments.machine));
    const bool shares = arguments_.share != "off";
    shared_.emplace(*session_, shares ? std::size_t(arguments_.window) << 20 : 0);
    if (ranks::several()) ranks_.emplace([this](const std::string& text) { judge_->heard(text); });
    OMNI_CHECK(prepare());
    if (members_.front().arguments.dry_run) return {};
    if (arguments_.prepare_only) return prepare_samples();
    if (judge_) OMNI_CHECK(start_judge());
    OMNI_CHECK(check_test_images(trainings_, ranks_ ? &*ranks_ : nullptr));
    if (ranks_) OMNI_CHECK(ranks_->join(*shared_, trainings_, arguments_));
    if (Status begun = begin(); !begun) {
      // Other ranks may train already, and would wait for samples of this one.
      if (ranks_) ranks::end_job(begun.error());
      return begun;
    }
    stop_in_order();
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < members_.size(); ++i)
        threads.emplace_back([this, i] { train(i); });
    }
    shared_->progress.finish();
    if (ranks_) OMNI_CHECK(ranks_->finish());
    shared_->say_damaged();
    shared_->say_samples();
    say_peak_memory();
    OMNI_CHECK(write());
    if (ranks_) OMNI_CHECK(hear_results());
    if (ranks::first())
      if (const Status drawn = write_curves(folder(), all_); !drawn)
        log::warn("no page of curves: {}", drawn.error().message());
    const bool strict = members_.front().arguments.net.strict;
    std::vector<Status> reported;
    for (const std::size_t member : own_) reported.push_back(ended_[member]);
    const Status ended = outcome(reported, all_, strict);
    if (!arguments_.is_last_wave && is_followed(ended, strict)) return ended;
    std::vector<std::size_t> shown = own_;
    if (arguments_.before) {
      shown.resize(all_.size());
      std::iota(shown.begin(), shown.end(), 0u);
    }
    print_ensemble(all_, shown, judge_ ? judge_->best() : BestMember(), arguments_.common.json);
    return ended;
  }

 private:
  Status record_members() {
    all_ = arguments_.before.value_or(std::vector<EnsembleMember>());
    are_own_.assign(all_.size(), false);
    for (const Member& each : members_) {
      const NetArguments& named = each.arguments.net;
      std::string net = named.net;
      if (net.empty()) {
        OMNI_TRY(net, find_net(named));
      }
      all_.push_back({.name = each.name,
                      .net = lasting_name(net),
                      .solver = lasting_name(named.solver),
                      .options = words_without({"--solver"}, each.words)});
    }
    return {};
  }

  Status check_ranks() {
    std::string names;
    for (const EnsembleMember& each : all_) names += " " + each.name;
    OMNI_CHECK(require_one_command(names));
    if (!arguments_.part.empty())
      return Error{ErrorKind::usage, "--part", "the ranks of this job share the members",
                   "leave out --part, or start one process"};
    if (std::ssize(members_) < ranks::size())
      return Error{ErrorKind::usage, "omni-run ensemble",
                   fmt::format("has {} members for {} ranks", members_.size(), ranks::size()),
                   "start as many ranks as members, or fewer"};
    return {};
  }

  // Refuses options that exclude each other, and leaves out the members of other processes.
  Status take_part() {
    OMNI_TRY(MembersPart part, read_part(arguments_.part));
    const char* const compares = !arguments_.stop.empty() ? "--stop"
                                 : arguments_.exploit     ? "--exploit"
                                                          : nullptr;
    if (part.count > 1 && compares != nullptr)
      return Error{ErrorKind::usage, compares,
                   "members of several processes cannot be compared while they train",
                   fmt::format("leave out {}, or train all members in one job", compares)};
    if (arguments_.exploit && !arguments_.stop.empty())
      return Error{ErrorKind::usage, "--exploit", "losers either end or go on from the winners",
                   "leave out --stop or --exploit"};
    for (const Member& each : members_)
      if (arguments_.exploit && each.arguments.groups.automatic)
        return Error{ErrorKind::usage, "--exploit", "--auto chooses the learning rate by itself",
                     "leave out --auto or --exploit"};
    std::vector<double> work;
    if (ranks::several()) {
      part = {static_cast<std::size_t>(ranks::rank()), static_cast<std::size_t>(ranks::size())};
      OMNI_TRY(work, work_of(members_));
    }
    work.resize(members_.size(), 1);
    rank_of_.assign(members_before(), 0);
    std::ranges::copy(share_out(work, static_cast<int>(part.count)), std::back_inserter(rank_of_));
    std::vector<Member> own;
    for (Member& each : members_) {
      const std::size_t number = are_own_.size();
      are_own_.push_back(std::cmp_equal(rank_of_[number], part.first));
      if (!are_own_.back()) continue;
      own.push_back(std::move(each));
      own_.push_back(number);
    }
    members_ = std::move(own);
    ended_.resize(all_.size());
    return {};
  }

  Status settle() {
    TrainArguments& first = members_.front().arguments;
    const bool quiet = first.common.quiet;
    if (ranks::several()) {
      std::string metrics = first.metrics, weights = first.save_weights;
      OMNI_CHECK(prepare_ranks(first));  // clears what only the first rank of a training writes
      first.metrics = std::move(metrics);
      first.save_weights = std::move(weights);
      first.common.quiet = quiet;
    }
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

  Status prepare() {
    for (Member& each : members_) {
      std::error_code failure;
      const fs::path folder = each.arguments.out;
      if (!each.arguments.dry_run && !folder.empty()) fs::create_directories(folder, failure);
      if (failure)
        return Error{ErrorKind::usage, folder.string(),
                     "cannot make the run folder: " + failure.message(),
                     "name a writable one with --out"};
      const log::Name name(each.name);
      std::function<std::unique_ptr<Pilot>()> pilot;
      if (judge_)
        pilot = [this, member = static_cast<int>(own_[trainings_.size()])] {
          return judge_->pilot(member);
        };
      Status prepared =
          trainings_.emplace_back(each.arguments, &*shared_, each.name, std::move(pilot)).prepare();
      if (!prepared) {
        prepared.error().where = each.name + ": " + prepared.error().where;
        return prepared;
      }
    }
    return {};
  }

  Status prepare_samples() {
    std::vector<std::string> names;
    for (const EnsembleMember& each : all_) names.push_back(each.name);
    return prepare_only(arguments_, names, own_, trainings_, *shared_, ranks_ ? &*ranks_ : nullptr);
  }

  Status begin() {
    for (TrainCommand& each : trainings_) OMNI_CHECK(each.join_stream());
    for (std::size_t i = 0; i < trainings_.size(); ++i)
      all_[own_[i]].iteration = trainings_[i].state().iteration;
    OMNI_CHECK(write());
    // If a rank fails, the job ends, and with it the members of all ranks.
    farewell_.emplace([folder = folder(), members = ranks_ ? std::vector(all_.size(), true)
                                                           : are_own_](const std::string& reason) {
      (void)fail_running(folder, members, reason);
    });
    return {};
  }

  // Tells the judge which members there are and how long they train; each rank knows its own ones.
  Status start_judge() {
    std::uint64_t length = 0;
    nlohmann::json known = nlohmann::json::array();
    for (std::size_t i = 0; i < trainings_.size(); ++i) {
      const TrainableNet& spec = trainings_[i].spec();
      const auto* softmax = std::get_if<SoftmaxOptions>(&spec.layers.back().options);
      if (softmax == nullptr || softmax->groups != 1)
        return Error{ErrorKind::usage, members_[i].name, "the outputs are no probabilities",
                     "a sweep compares nets that end with a softmax layer of one group"};
      if (trainings_[i].test() == nullptr)
        return Error{ErrorKind::usage, members_[i].name, "there is no test set",
                     "a sweep compares members on test images: --hold-out 0.1, say"};
      OMNI_CHECK(judge_->open(static_cast<int>(own_[i]), *trainings_[i].test(), shared_->window()));
      known.push_back({{"member", own_[i]},
                       {"length", trainings_[i].planned()},
                       {"has_ended", trainings_[i].is_finished()},
                       {"kind", layers_hash(spec) + (spec.solver.adam ? " adam" : "")}});
    }
    std::vector<std::string> kinds(all_.size());
    for (const std::string& rank :
         ranks_ ? ranks_->gather(known.dump()) : std::vector<std::string>{known.dump()}) {
      const auto list = nlohmann::json::parse(rank);
      for (const auto& each : list) {
        length = std::max<std::uint64_t>(length, each["length"]);
        kinds[each["member"].get<std::size_t>()] = each["kind"];
        if (each["has_ended"]) judge_->note_end(each["member"]);
      }
    }
    const TrainArguments& first = members_.front().arguments;
    const bool resumes = first.resume == "auto" || members_before() > 0;
    if (arguments_.before) OMNI_CHECK(judge_->keep_final(folder() / "finals.json", resumes));
    if (arguments_.exploit)
      OMNI_CHECK(judge_->exploit_by(
          {.every = *arguments_.exploit, .seed = first.data.seed_of_samples()},
          folder(), kinds, resumes));
    if (!arguments_.stop.empty()) {
      OMNI_TRY(const RungOptions options, rung_options(arguments_.stop, length));
      OMNI_CHECK(judge_->stop_by(options, folder() / "rungs.json", resumes));
    }
    if (ranks_)
      judge_->over_ranks(
          ranks::place_in_job().rank, [this](int member) { return rank_of_[member]; },
          [this](int rank, const std::string& text) { ranks_->send_to_judge(rank, text); });
    return {};
  }

  void train(std::size_t i) {
    const log::Name name(members_[i].name);
    OwnTasks tasks;
    const OwnTasksScope counted(tasks);
    Status& ended = ended_[own_[i]];
    ended = trainings_[i].train();
    const bool goes_on_later = !ended && ended.error().kind == ErrorKind::interrupted;
    if (judge_ && !goes_on_later) judge_->leave(static_cast<int>(own_[i]));
    {
      const std::lock_guard lock(recording_);
      note_end(i);
      (void)write();  // the last write tells what is wrong
    }
    if (ended || goes_on_later) return;
    log::warn("ends here: {}", ended.error().message());
    if (members_[i].arguments.net.strict) request_stop();
  }

  // Notes how a member has ended.
  void note_end(std::size_t i) {
    EnsembleMember& record = all_[own_[i]];
    const TrainCommand& training = trainings_[i];
    record.iteration = training.state().iteration;
    if (const auto& last = training.last_evaluation()) {
      record.loss = last->tally.mean_loss();
      if (last->at.has_classes) record.accuracy = last->tally.accuracy();
    }
    const Status& ended = ended_[own_[i]];
    const bool loses = judge_ && judge_->has_stopped(static_cast<int>(own_[i]));
    if (!ended) record.error = ended.error().message();
    record.state = ended && loses                                 ? MemberState::dropped
                   : ended                                        ? MemberState::finished
                   : ended.error().kind == ErrorKind::interrupted ? MemberState::stopped
                   : ended.error().kind == ErrorKind::diverged    ? MemberState::diverged
                                                                  : MemberState::failed;
  }

  Status write() { return update_ensemble(folder(), all_, are_own_); }

  // Learns how the members of other ranks have ended.
  Status hear_results() {
    nlohmann::json own = nlohmann::json::array();
    for (const std::size_t member : own_)
      if (const Status& ended = ended_[member]; !ended)
        own.push_back({{"member", member},
                       {"kind", static_cast<int>(ended.error().kind)},
                       {"what", ended.error().message()}});
    // All have written the states of their members before.
    const std::vector<std::string> all = ranks::gather(own.dump());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto list = nlohmann::json::parse(all[rank]);
      for (const auto& each : list)
        if (static_cast<int>(rank) != ranks::rank())
          ended_[each["member"].get<std::size_t>()] =
              Error{static_cast<ErrorKind>(each["kind"].get<int>()), "", each["what"], ""};
    }
    OMNI_TRY(all_, read_ensemble(folder()));
    own_.clear();
    for (std::size_t member = members_before(); member < all_.size(); ++member)
      own_.push_back(member);
    return {};
  }

  std::size_t members_before() const { return arguments_.before ? arguments_.before->size() : 0; }
  fs::path folder() const { return fs::path(members_.front().arguments.out).parent_path(); }

  const EnsembleArguments& arguments_;
  std::vector<Member> members_;
  std::vector<EnsembleMember> all_;  // also the members of other processes
  std::vector<Status> ended_;        // indexed as all_: what a training returned
  std::vector<bool> are_own_;        // indexed as all_
  std::vector<int> rank_of_;         // indexed as all_, or the process that trains the member
  std::vector<std::size_t> own_;     // indices in all_ of this process's members, at last of all
  std::optional<Session> session_;   // none: it has not begun
  std::optional<SharedTrainings> shared_;
  std::optional<SweepJudge> judge_;  // none: no member is compared
  std::deque<TrainCommand> trainings_;
  std::optional<RankEnsemble> ranks_;  // none: there is one rank
  std::mutex recording_;               // guards all_ and ensemble.json
  std::optional<Farewell> farewell_;
};

}  // namespace

Status train_ensemble(const EnsembleArguments& arguments, std::vector<Member> members) {
  return Ensemble(arguments, std::move(members)).run();
}

}  // namespace omni
