// RankEnsemble is the part of one rank in an ensemble whose members are spread over ranks. Members
// train as if their rank were alone, or the ranks that share a member. Ranks exchange samples, and
// letters: demands for samples, damaged images, what a sweep's judge hears and says, how far
// members are, and requests to stop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "apps/omni-run/ensemble/member_list.hpp"
#include "apps/omni-run/ensemble/shared_trainings.hpp"
#include "apps/omni-run/training/train_command.hpp"
#include "runtime/communicator/letters.hpp"
#include "runtime/communicator/ranks.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {

// Refuses ranks with another program, command line or list of members. The latter differs if ranks
// see different run folders.
Status require_one_command(const std::string& members);

// Checks --share and --preparers against the number of ranks.
Status check_share(const EnsembleArguments& arguments);

class RankEnsemble {
 public:
  // Listeners hear letters, in the thread that reads them.
  struct Listeners {
    std::function<void(const std::string& text)> judge;  // see SweepJudge::heard()
    // Of this rank's members, as a text. Null where members stay on their ranks.
    std::function<std::string()> progress{};
    // Called on the first rank, with the progress of each rank. Returns true if all members are to
    // pause.
    std::function<bool(const std::string& progress)> pauses{};
  };
  // Collective; called before any training is prepared. `own` are the ranks that train the members
  // of this rank: itself, or several that train one member together. `link` is the slowest one.
  RankEnsemble(RankRange own, const ranks::Link& link, Listeners listeners);
  // Detaches the streams from the other ranks, so their readers may leave later.
  ~RankEnsemble();
  RankEnsemble(const RankEnsemble&) = delete;
  RankEnsemble& operator=(const RankEnsemble&) = delete;

  // Collective. Shares the streams that several ranks read, as --share says. Afterwards trainings
  // may join their streams.
  Status join(SharedTrainings& shared, std::deque<TrainCommand>& trainings,
              const EnsembleArguments& arguments);
  std::vector<std::string> gather(const std::string& text);  // collective, before join()
  // Collective, before join(): returns the error of the first rank that has one.
  Status agree(Status own);
  void send_to_judge(int rank, const std::string& text) {  // -1: to all other ranks
    rank < 0 ? letters_->send_to_others("judge " + text) : letters_->send(rank, "judge " + text);
  }
  void tell_progress();  // at once, and not only a few times a second
  // Collective; called when the members of this rank have ended. Returns when those of all ranks
  // have, and no message is under way. From then on this rank is one of several again.
  Status finish();

 private:
  void say_traffic() const;
  void read(int from, const std::string& text);
  Status share_damaged();
  void tell_damaged();

  void hear_progress(const std::string& text);

  RankRange own_;
  ranks::Link link_;
  Listeners listeners_;
  std::optional<ranks::Apart> apart_;  // none: this rank is one of all
  std::vector<SharedStream*>
      streams_;  // that ranks share, by number; null: this rank reads none of it
  std::vector<std::vector<int>> takers_;  // by stream: the ranks that share it
  std::mutex mutex_, pausing_;            // guard ended_; told_pause_ and Listeners::pauses
  std::condition_variable changed_;
  int ended_ = 0;  // other ranks whose members have ended
  bool told_stop_ = false, told_pause_ = false;
  std::chrono::steady_clock::time_point told_progress_{};
  int rank_ = ranks::place_in_job().rank;
  std::optional<ranks::Letters> letters_;  // last: its thread uses the others
};

// Checks the test images of all trainings on all ranks, before any member trains. `ranks` is null
// if there is one rank.
Status check_test_images(std::deque<TrainCommand>& trainings, RankEnsemble* ranks);

// Prepares the samples of all members at the same time, trains nothing, and prints how many a
// second each member gets. With several ranks the first one prints the members of all ranks. `own`
// has the indices in `names` of this process's members.
Status prepare_only(const EnsembleArguments& arguments, const std::vector<std::string>& names,
                    const std::vector<std::size_t>& own, std::deque<TrainCommand>& trainings,
                    SharedTrainings& shared, RankEnsemble* ranks);

}  // namespace omni
