// EnsembleRun trains the members of an ensemble. Each is a training like any other, in a folder of
// its own; their samples are prepared once. Over ranks a run has phases: in each of them a member
// trains on the same ranks. Between two phases all members are saved, and then go on elsewhere.
#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "apps/omni-run/ensemble/ensemble_folder.hpp"
#include "apps/omni-run/ensemble/ensemble_plan.hpp"
#include "apps/omni-run/ensemble/member_list.hpp"
#include "apps/omni-run/ensemble/rank_ensemble.hpp"
#include "apps/omni-run/ensemble/shared_trainings.hpp"
#include "runtime/farewell.hpp"
#include "scheduling/ensemble/sweep_judge.hpp"
#include "scheduling/forecast/fleet/spread.hpp"
#include "scheduling/training/stopwatch.hpp"

namespace omni {

class EnsembleRun {
 public:
  EnsembleRun(const EnsembleArguments& arguments, std::vector<Member> members)
      : arguments_(arguments), given_(std::move(members)) {}

  Status run();

 private:
  // The following functions are in ensemble_run.cpp.
  Status record_members();
  Status check_ranks();
  Status take_part();  // refuses options that exclude each other, and leaves out other parts
  Status plan_spread();
  Status settle();
  Status train_phase(bool first);
  void place_members();  // collective
  void say_places() const;
  TrainArguments arguments_of(std::size_t member) const;
  Status prepare();
  Status prepare_samples();
  Status begin();
  void train(std::size_t i);
  void end_phase();
  Status report();
  bool moves() const;  // members may move to other ranks
  std::string progress();
  bool hear_progress(const std::string& text);

  // The following functions are in ensemble_results.cpp.
  Status make_judge();
  Status start_judge(bool first);
  void note_end(std::size_t i);  // how a member has ended
  Status write() { return update_ensemble(folder(), all_, are_own_); }
  Status hear_results();  // how the members of all ranks have ended, or how far they are
  bool goes_on();         // collective: there is a further phase

  std::size_t members_before() const { return arguments_.before ? arguments_.before->size() : 0; }
  const TrainArguments& first() const { return members_.begin()->second.arguments; }
  std::filesystem::path folder() const { return std::filesystem::path(first().out).parent_path(); }
  Member& own(std::size_t i) { return members_.at(own_[i]); }

  const EnsembleArguments& arguments_;
  std::vector<Member> given_;
  std::vector<EnsembleMember> all_;        // also the members of other processes and earlier waves
  std::map<std::size_t, Member> members_;  // by index in all_: those of this process or job
  // The following vectors are indexed as all_.
  std::vector<Status> ended_;  // what a training returned
  std::vector<bool> are_own_;  // this process writes their states
  std::vector<bool> begun_;    // the member has trained in an earlier phase

  std::vector<MemberWork> work_;  // of members_, in their order; empty: there is one rank
  std::optional<Spread> spread_;  // of members_, in their order; the first rank's counts
  Spread::Places places_;         // of members_, in their order
  RankRange own_ranks_{0, 1};     // that train the members of this rank
  ranks::Link link_;
  Stopwatch phase_;          // since members could train
  double move_seconds_ = 0;  // that the last start took
  double plans_from_ = 0;    // the time of the phase at which a move is forecast again

  // The following members are those of a phase.
  std::vector<std::size_t> own_;    // indices in all_ of the members that this process trains
  std::optional<Session> session_;  // none: it has not begun
  std::optional<SharedTrainings> shared_;
  std::optional<SweepJudge> judge_;  // none: no member is compared
  std::deque<TrainCommand> trainings_;
  std::deque<std::atomic<bool>> have_ended_;  // as trainings_: for good
  std::optional<RankEnsemble> ranks_;         // none: there is one rank
  std::mutex recording_;                      // guards all_ and ensemble.json
  std::optional<Farewell> farewell_;
};

}  // namespace omni
