// These functions of EnsembleRun compare members, and record how they have ended.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/omni-run/ensemble/run/ensemble_run.hpp"
#include "apps/omni-run/ensemble/sweep/stop_rule.hpp"
#include "runtime/signals.hpp"

namespace omni {

Status EnsembleRun::make_judge() {
  const bool compares = !arguments_.stop.empty() || !arguments_.sweep.empty() || arguments_.exploit;
  if (!compares || arguments_.prepare_only) return {};
  std::vector<std::string> names;
  for (const EnsembleMember& each : all_) names.push_back(each.name);
  judge_.emplace(std::move(names));
  for (std::size_t i = 0; i < members_before(); ++i) judge_->note_end(static_cast<int>(i));
  return {};
}

// Tells the judge which members there are and how long they train; each rank knows its own ones.
Status EnsembleRun::start_judge(bool first_phase) {
  std::uint64_t length = 0;
  // Members whose turn comes later are not prepared yet.
  for (const MemberWork& each : work_) length = std::max(length, each.iterations);
  nlohmann::json known = nlohmann::json::array();
  for (std::size_t i = 0; i < trainings_.size(); ++i) {
    const TrainableNet& spec = trainings_[i].spec();
    const auto* softmax = std::get_if<SoftmaxOptions>(&spec.layers.back().options);
    if (softmax == nullptr || softmax->groups != 1)
      return Error{ErrorKind::usage, own(i).name, "the outputs are no probabilities",
                   "a sweep compares nets that end with a softmax layer of one group"};
    if (trainings_[i].test() == nullptr)
      return Error{ErrorKind::usage, own(i).name, "there is no test set",
                   "a sweep compares members on test images: --hold-out 0.1, say"};
    OMNI_CHECK(judge_->open(static_cast<int>(own_[i]), *trainings_[i].test(), shared_->window()));
    known.push_back({{"member", own_[i]},
                     {"length", trainings_[i].planned()},
                     {"has_ended", trainings_[i].is_finished()},
                     {"kind", layers_hash(spec) + (spec.solver.adam ? " adam" : "")}});
  }
  if (!first_phase) return {};
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
  const bool resumes = first().resume == "auto" || members_before() > 0;
  if (arguments_.before) OMNI_CHECK(judge_->keep_final(folder() / "finals.json", resumes));
  if (arguments_.exploit)
    OMNI_CHECK(judge_->exploit_by(
        {.every = *arguments_.exploit, .seed = first().data.data_seed.value_or(first().data.seed)},
        folder(), kinds, resumes));
  if (!arguments_.stop.empty()) {
    OMNI_TRY(const RungOptions options, rung_options(arguments_.stop, length));
    OMNI_CHECK(judge_->stop_by(options, folder() / "rungs.json", resumes));
  }
  if (ranks_)
    judge_->over_ranks(
        ranks::place_in_job().rank,
        [this](int member) { return places_[member - members_before()].first; },
        [this](int rank, const std::string& text) { ranks_->send_to_judge(rank, text); });
  return {};
}

void EnsembleRun::note_end(std::size_t i) {
  EnsembleMember& record = all_[own_[i]];
  const TrainCommand& training = trainings_[i];
  record.iteration = training.state().iteration;
  if (const auto& last = training.last_evaluation()) {
    record.loss = last->tally.mean_loss();
    record.accuracy = last->tally.accuracy();
  }
  const Status& ended = ended_[own_[i]];
  const bool loses = judge_ && judge_->has_stopped(static_cast<int>(own_[i]));
  const bool pauses = !ended && ended.error().kind == ErrorKind::interrupted && !asked_to_stop();
  if (!ended && !pauses) record.error = ended.error().message();
  record.state = ended && loses                                 ? MemberState::dropped
                 : ended                                        ? MemberState::finished
                 : pauses                                       ? MemberState::running
                 : ended.error().kind == ErrorKind::interrupted ? MemberState::stopped
                 : ended.error().kind == ErrorKind::diverged    ? MemberState::diverged
                                                                : MemberState::failed;
}

Status EnsembleRun::hear_results() {
  nlohmann::json said = nlohmann::json::array();
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (!are_own_[own_[i]]) continue;
    const Status& ended = ended_[own_[i]];
    said.push_back({{"member", own_[i]},
                    {"samples", trainings_[i].trained_samples()},
                    {"kind", ended ? -1 : static_cast<int>(ended.error().kind)},
                    {"what", ended ? "" : ended.error().message()}});
  }
  // All have written the states of their members before.
  for (const std::string& rank : ranks::gather(said.dump())) {
    const auto list = nlohmann::json::parse(rank);
    for (const auto& each : list) {
      const std::size_t member = each["member"];
      const int kind = each["kind"];
      ended_[member] =
          kind < 0 ? Status() : Error{static_cast<ErrorKind>(kind), "", each["what"], ""};
      begun_[member] = true;
      const bool has_ended = kind != static_cast<int>(ErrorKind::interrupted);
      spread_->note(static_cast<int>(member - members_before()), each["samples"], has_ended,
                    phase_.seconds());
    }
  }
  spread_->learn(phase_.seconds());
  OMNI_TRY(all_, read_ensemble(folder()));
  return {};
}

bool EnsembleRun::goes_on() {
  if (!ranks::several()) return false;
  ranks_.reset();  // streams leave the other ranks before their readers leave
  const bool stops = ranks::any(asked_to_stop());
  bool some_left = false;
  for (const auto& [member, each] : members_)
    if (!ended_[member] && ended_[member].error().kind == ErrorKind::interrupted) {
      some_left = true;
      // It has paused, and is now asked to stop.
      if (!stops || !begun_[member]) continue;
      all_[member].state = MemberState::stopped;
      all_[member].error = ended_[member].error().message();
    }
  if (stops && some_left && ranks::first()) {
    are_own_.assign(all_.size(), true);
    (void)write();
  }
  return some_left && !stops;
}

}  // namespace omni
