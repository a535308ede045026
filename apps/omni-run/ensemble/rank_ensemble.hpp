// RankEnsemble is the part of one rank in an ensemble whose members are spread over ranks. Members
// train as if their rank were alone. Ranks exchange samples, and letters: demands for samples,
// damaged images, what a sweep's judge hears and says, and requests to stop.
#pragma once

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

namespace omni {

// Refuses ranks with another program, command line or list of members. The latter differs if ranks
// see different run folders.
Status require_one_command(const std::string& members);

// Checks --share and --preparers against the number of ranks.
Status check_share(const EnsembleArguments& arguments);

class RankEnsemble {
 public:
  // Collective; called before any training is prepared. `judge`: see SweepJudge::heard().
  explicit RankEnsemble(std::function<void(const std::string& text)> judge);
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
  // Collective; called when the members of this rank have ended. Returns when those of all ranks
  // have, and no message is under way. From then on this rank is one of several again.
  Status finish();

 private:
  void say_traffic() const;
  void read(int from, const std::string& text);
  Status share_damaged();
  void tell_damaged();

  std::function<void(const std::string&)> judge_;
  ranks::Link link_;                   // the slowest
  std::optional<ranks::Apart> apart_;  // none: this rank is one of several
  std::vector<SharedStream*>
      streams_;  // that ranks share, by number; null: this rank reads none of it
  std::vector<std::vector<int>> takers_;  // by stream: the ranks that share it
  std::mutex mutex_;
  std::condition_variable changed_;
  int ended_ = 0;  // other ranks whose members have ended
  bool told_stop_ = false;
  int rank_ = ranks::rank();
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
