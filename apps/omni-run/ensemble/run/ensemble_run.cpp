#include "apps/omni-run/ensemble/run/ensemble_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/ensemble/curves_page.hpp"
#include "apps/omni-run/ensemble/ensemble_table.hpp"
#include "apps/omni-run/ensemble/outcome.hpp"
#include "apps/omni-run/ensemble/sweep/stop_rule.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/training/rank_checks.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/signals.hpp"
#include "runtime/tasks/own_tasks.hpp"

namespace omni {

namespace fs = std::filesystem;

Status EnsembleRun::run() {
  OMNI_CHECK(record_members());
  if (Status named = check_members(all_, "--members"); !named) {
    named.error().kind = ErrorKind::usage;
    return named;
  }
  if (!arguments_.stop.empty()) OMNI_CHECK(rung_options(arguments_.stop, 0));
  OMNI_CHECK(check_share(arguments_));
  if (arguments_.plan) return plan_ensemble(arguments_, given_);
  if (ranks::several()) OMNI_CHECK(check_ranks());
  OMNI_CHECK(take_part());
  if (members_.empty()) {
    log::info("no member is in this part");
    return {};
  }
  if (ranks::several()) OMNI_CHECK(plan_spread());
  OMNI_CHECK(make_judge());
  OMNI_CHECK(settle());
  OMNI_TRY(session_, start_session(first().machine));
  const bool shares = arguments_.share != "off";
  shared_.emplace(*session_, shares ? std::size_t(arguments_.window) << 20 : 0);
  if (ranks::several()) {
    link_ = ranks::slowest(ranks::measure_links());
    log::info("links between ranks: {} at worst", ranks::describe(link_));
  }
  OMNI_CHECK(train_phase(true));
  if (first().dry_run || arguments_.prepare_only) return {};
  while (goes_on()) {
    end_phase();
    OMNI_CHECK(train_phase(false));
  }
  return report();
}

Status EnsembleRun::record_members() {
  all_ = arguments_.before.value_or(std::vector<EnsembleMember>());
  for (const Member& each : given_) {
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
  begun_.resize(all_.size());
  are_own_.resize(all_.size());
  ended_.assign(all_.size(), Error{ErrorKind::interrupted, "", "stopped before it began", ""});
  return {};
}

Status EnsembleRun::check_ranks() {
  std::string names;
  for (const EnsembleMember& each : all_) names += " " + each.name;
  OMNI_CHECK(require_one_command(names));
  if (arguments_.part.empty()) return {};
  return Error{ErrorKind::usage, "--part", "the ranks of this job share the members",
               "leave out --part, or start one process"};
}

Status EnsembleRun::take_part() {
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
  for (const Member& each : given_)
    if (arguments_.exploit && each.arguments.groups.automatic)
      return Error{ErrorKind::usage, "--exploit", "--auto chooses the learning rate by itself",
                   "leave out --auto or --exploit"};
  if (ranks::several()) part = {};
  for (std::size_t i = 0; i < given_.size(); ++i)
    if (i % part.count == part.first) members_.emplace(members_before() + i, std::move(given_[i]));
  return {};
}

bool EnsembleRun::moves() const {
  return arguments_.spread == "fleet" && !arguments_.exploit && !arguments_.prepare_only;
}

Status EnsembleRun::plan_spread() {
  std::vector<Member> members;
  for (const auto& [number, each] : members_) members.push_back(each);
  OMNI_TRY(work_, work_of(members, moves() ? ranks::size() : 1));
  if (arguments_.exploit && arguments_.spread == "fleet")
    log::info("--exploit: members keep their ranks, as they meet in rounds");
  std::vector<SpreadMember> of;
  for (std::size_t i = 0; i < members.size(); ++i) {
    of.push_back(work_[i].spread);
    if (moves() && !work_[i].one_rank.empty())
      log::info("{} never has several ranks: {}", members[i].name, work_[i].one_rank);
  }
  spread_.emplace(of, ranks::size());
  const auto recorded = first().resume == "auto" ? read_ensemble(folder())
                                                 : Result<std::vector<EnsembleMember>>(all_);
  for (std::size_t i = 0; recorded && i < members.size(); ++i) {
    const auto own = std::ranges::find(*recorded, members[i].name, &EnsembleMember::name);
    const auto& [spread, iterations, why] = work_[i];
    if (own == recorded->end() || iterations == 0) continue;
    const bool goes_on = own->state == MemberState::running || own->state == MemberState::stopped;
    spread_->note(static_cast<int>(i),
                  goes_on ? own->iteration * (spread.samples / iterations) : spread.samples, false,
                  0);
  }
  return {};
}

Status EnsembleRun::settle() {
  TrainArguments& first = members_.begin()->second.arguments;
  const bool quiet = first.common.quiet;
  if (ranks::several()) {
    std::string metrics = first.metrics, weights = first.save_weights;
    OMNI_CHECK(prepare_ranks(first));  // clears what only the first rank of a training writes
    first.metrics = std::move(metrics);
    first.save_weights = std::move(weights);
    first.common.quiet = quiet;
  }
  for (const auto& [number, each] : members_)
    first.machine.session.deterministic |= each.arguments.arrivals.simulated;
  OMNI_CHECK(settle_workers(first.machine, &first.net));
  for (auto& [number, each] : members_) {
    each.arguments.machine = first.machine;
    fit_to_workers(each.arguments.machine, each.arguments.net,
                   static_cast<int>(first.machine.session.gpus.size()));
  }
  return {};
}

// The first rank decides. A member that was told to stop when its ranks had paused stops now.
void EnsembleRun::place_members() {
  own_.clear();
  if (!ranks::several()) {
    for (const auto& [number, each] : members_) own_.push_back(number);
  } else {
    const Spread::Places planned = moves() ? spread_->plan().places : spread_->by_work();
    nlohmann::json said{{"stops", judge_ ? judge_->stops() : ""}};
    for (const RankRange& each : planned) said["places"].push_back({each.first, each.count});
    said = nlohmann::json::parse(ranks::gather(said.dump()).front());
    if (judge_) judge_->take_stops(said["stops"]);
    places_.clear();
    own_ranks_ = {ranks::rank(), 1};
    auto member = members_.begin();
    for (const auto& each : said["places"]) {
      const RankRange on = places_.emplace_back(RankRange{each[0], each[1]});
      if (on.has(ranks::rank())) {
        own_.push_back(member->first);
        own_ranks_ = on;
      }
      ++member;
    }
    spread_->begin(places_);
    say_places();
  }
  are_own_.assign(all_.size(), false);
  for (const std::size_t each : own_)
    are_own_[each] = own_ranks_.first == ranks::rank() || !ranks::several();
}

void EnsembleRun::say_places() const {
  std::string text;
  auto member = members_.begin();
  for (const RankRange& each : places_) {
    const std::string& name = (member++)->second.name;
    if (each.count == 1) text += fmt::format(", {} on rank {}", name, each.first);
    if (each.count > 1)
      text += fmt::format(", {} on ranks {} to {}", name, each.first, each.end() - 1);
  }
  log::info("members train: {}", text.empty() ? text : text.substr(2));
}

// Only the first of the ranks that share a member writes and prints.
TrainArguments EnsembleRun::arguments_of(std::size_t member) const {
  TrainArguments arguments = members_.at(member).arguments;
  if (begun_[member]) arguments.resume = "auto";
  if (are_own_[member]) return arguments;
  arguments.common.quiet = true;
  arguments.metrics.clear();
  arguments.save_weights.clear();
  return arguments;
}

Status EnsembleRun::prepare() {
  for (const std::size_t member : own_) {
    const TrainArguments arguments = arguments_of(member);
    const std::string& named = all_[member].name;
    std::error_code failure;
    const fs::path folder = arguments.out;
    if (!arguments.dry_run && !folder.empty()) fs::create_directories(folder, failure);
    if (failure)
      return Error{ErrorKind::usage, folder.string(),
                   "cannot make the run folder: " + failure.message(),
                   "name a writable one with --out"};
    const log::Name name(named);
    std::function<std::unique_ptr<Pilot>()> pilot;
    if (judge_) pilot = [this, number = static_cast<int>(member)] { return judge_->pilot(number); };
    Status prepared =
        trainings_.emplace_back(arguments, &*shared_, named, std::move(pilot)).prepare();
    if (!prepared) {
      prepared.error().where = named + ": " + prepared.error().where;
      return prepared;
    }
    have_ended_.emplace_back(false);
  }
  return {};
}

Status EnsembleRun::prepare_samples() {
  std::vector<std::string> names;
  for (const EnsembleMember& each : all_) names.push_back(each.name);
  return prepare_only(arguments_, names, own_, trainings_, *shared_, ranks_ ? &*ranks_ : nullptr);
}

Status EnsembleRun::begin() {
  for (TrainCommand& each : trainings_) OMNI_CHECK(each.join_stream());
  for (std::size_t i = 0; i < trainings_.size(); ++i)
    all_[own_[i]].iteration = trainings_[i].state().iteration;
  OMNI_CHECK(write());
  // If a rank fails, the job ends, and with it the members of all ranks.
  if (!farewell_)
    farewell_.emplace([folder = folder(), members = ranks_ ? std::vector(all_.size(), true)
                                                           : are_own_](const std::string& reason) {
      (void)fail_running(folder, members, reason);
    });
  return {};
}

Status EnsembleRun::train_phase(bool first_phase) {
  const Stopwatch start;
  place_members();
  if (ranks::several()) {
    RankEnsemble::Listeners listeners{
        .judge = [this](const std::string& text) { judge_->heard(text); }};
    if (moves()) {
      listeners.progress = [this] { return progress(); };
      listeners.pauses = [this](const std::string& text) { return hear_progress(text); };
    }
    ranks_.emplace(own_ranks_, link_, std::move(listeners));
  }
  OMNI_CHECK(prepare());
  if (first().dry_run) return {};
  if (arguments_.prepare_only) return prepare_samples();
  if (judge_) OMNI_CHECK(start_judge(first_phase));
  OMNI_CHECK(check_test_images(trainings_, ranks_ ? &*ranks_ : nullptr));
  phase_ = Stopwatch();
  plans_from_ = 0;
  move_seconds_ = start.seconds();
  if (ranks_) OMNI_CHECK(ranks_->join(*shared_, trainings_, arguments_));
  if (Status begun = begin(); !begun) {
    // Other ranks may train already, and would wait for samples of this one.
    if (ranks_) ranks::end_job(begun.error());
    return begun;
  }
  stop_in_order();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < trainings_.size(); ++i)
      threads.emplace_back([this, i] { train(i); });
  }
  shared_->progress.finish();
  if (ranks_) OMNI_CHECK(ranks_->finish());
  request_pause(false);
  shared_->say_damaged();
  shared_->say_samples();
  OMNI_CHECK(write());
  return ranks_ ? hear_results() : Status();
}

void EnsembleRun::train(std::size_t i) {
  const log::Name name(own(i).name);
  OwnTasks tasks;
  const OwnTasksScope counted(tasks);
  Status& ended = ended_[own_[i]];
  ended = trainings_[i].train();
  const bool goes_on_later = !ended && ended.error().kind == ErrorKind::interrupted;
  // After other errors the other ranks of this member may still wait for this one.
  if (!ended && !goes_on_later && ended.error().kind != ErrorKind::diverged && own_ranks_.count > 1)
    ranks::end_job(ended.error());
  if (judge_ && !goes_on_later) judge_->leave(static_cast<int>(own_[i]));
  {
    const std::lock_guard lock(recording_);
    note_end(i);
    (void)write();  // the last write tells what is wrong
  }
  have_ended_[i] = !goes_on_later;
  if (ranks_ && !goes_on_later && are_own_[own_[i]]) ranks_->tell_progress();
  if (ended || goes_on_later) return;
  if (are_own_[own_[i]]) log::warn("ends here: {}", ended.error().message());
  if (own(i).arguments.net.strict) request_stop();
}

// Returns the members of this rank with the numbers of samples that they have trained; with an "e"
// if they have ended.
std::string EnsembleRun::progress() {
  std::string text;
  for (std::size_t i = 0; i < trainings_.size(); ++i)
    if (are_own_[own_[i]])
      text += fmt::format("{} {} {} ", own_[i] - members_before(), trainings_[i].trained_samples(),
                          have_ended_[i] ? "e" : "-");
  return text;
}

bool EnsembleRun::hear_progress(const std::string& text) {
  std::istringstream words(text);
  int member = 0;
  std::uint64_t samples = 0;
  std::string state;
  while (words >> member >> samples >> state)
    spread_->note(member, samples, state == "e", phase_.seconds());
  if (phase_.seconds() < plans_from_) return false;
  const Stopwatch planning;
  const double gain = arguments_.move_gain.value_or(std::max(1.0, 2 * move_seconds_));
  const bool pays = spread_->pays(phase_.seconds(), gain);
  plans_from_ = phase_.seconds() + 20 * planning.seconds();  // so it takes 5 % of the time at most
  return pays;
}

// Destroys what belongs to the phase.
void EnsembleRun::end_phase() {
  trainings_.clear();
  have_ended_.clear();
  if (judge_) judge_->close();
  shared_->forget_trainings();
}

Status EnsembleRun::report() {
  say_peak_memory();
  if (ranks::first())
    if (const Status drawn = write_curves(folder(), all_); !drawn)
      log::warn("no page of curves: {}", drawn.error().message());
  const bool strict = first().net.strict;
  std::vector<Status> reported;
  std::vector<std::size_t> shown;
  for (const auto& [member, each] : members_) {
    reported.push_back(ended_[member]);
    shown.push_back(member);
  }
  const Status ended = outcome(reported, all_, strict);
  if (!arguments_.is_last_wave && is_followed(ended, strict)) return ended;
  if (arguments_.before) {
    shown.resize(all_.size());
    for (std::size_t i = 0; i < shown.size(); ++i) shown[i] = i;
  }
  print_ensemble(all_, shown, judge_ ? judge_->best() : BestMember(), arguments_.common.json);
  return ended;
}

Status train_ensemble(const EnsembleArguments& arguments, std::vector<Member> members) {
  return EnsembleRun(arguments, std::move(members)).run();
}

}  // namespace omni
