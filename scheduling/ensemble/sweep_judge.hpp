// SweepJudge compares the members of a sweep while they train. It stops members that surely lose,
// or lets them continue from the winners' weights. Each member has a pilot, which computes the
// member's losses. All members use the same test images.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/feed/data_feed.hpp"
#include "runtime/data/subset.hpp"
#include "scheduling/ensemble/rounds.hpp"
#include "scheduling/ensemble/rungs.hpp"
#include "scheduling/training/pilot.hpp"

namespace omni {

// BestMember is the best member at the end. It also says how surely that member is better than the
// second. Members with a loss that is not finite are neither.
struct BestMember {
  int best = -1, next = -1;  // members; -1: none has ended well
  LossExcess ahead{};        // the excess of the next one's losses
};

class SweepJudge {
 public:
  explicit SweepJudge(std::vector<std::string> members)
      : members_(std::move(members)),
        stopped_(members_.size()),
        reasons_(members_.size()),
        has_ended_(members_.size()),
        final_(members_.size()),
        feeds_(members_.size()) {}

  std::unique_ptr<Pilot> pilot(int member);
  // Chooses the images of the test set by which the member is compared. It is called for all
  // members of this rank before one of them trains. If the images fit into `window` bytes, they are
  // decoded once for all members with the same input. The test set must outlive the judge.
  Status open(int member, const DataFeed& test, std::size_t window);
  // Forgets what open() has opened. The members may then be opened again, on other ranks.
  void close();
  void note_end(int member) { has_ended_[member] = true; }  // in an earlier process
  // From now on members stop by these rules; no member may train before the call. The judge keeps
  // its state in `file`. `resumes` means that it reads that state first.
  Status stop_by(const RungOptions& options, std::filesystem::path file, bool resumes);
  // From now on the losses of members that have ended are kept in the file; `resumes`: it is read
  // first. So members of later processes and waves are compared with them. The first rank writes.
  Status keep_final(std::filesystem::path file, bool resumes);
  // From now on members meet in rounds. `resumes`: the decisions of an earlier process are read.
  // `kinds`: RoundMember::kind, by member.
  Status exploit_by(const RoundOptions& options, const std::filesystem::path& folder,
                    const std::vector<std::string>& kinds, bool resumes);
  // Call leave() when the training of the member has ended for good.
  void leave(int member) {
    if (rounds_) rounds_->leave(member);
  }

  // Call over_ranks() if members are spread over ranks. The first rank judges. `send` takes the
  // number of the receiving rank (-1: all others) and a message. heard() takes a message of another
  // rank.
  void over_ranks(int rank, std::function<int(int member)> rank_of,
                  std::function<void(int rank, const std::string& text)> send);
  void heard(const std::string& text);
  // Returns which members have stopped, for take_stops() of other ranks: a message to a rank whose
  // members have ended is lost. Call both while no member trains.
  std::string stops() const;
  void take_stops(const std::string& stops);
  bool has_stopped(int member) const { return stopped_[member]; }
  BestMember best() const;

 private:
  class MemberPilot;
  // Images has the images of a test set, and a stream for each way to prepare them.
  struct Images {
    explicit Images(const Dataset& all);
    const Dataset& of;
    Subset some;
    std::list<SharedStream> streams{};
  };
  std::uint64_t next_rest(std::uint64_t iteration) const;
  bool is_wanted(int member, std::uint64_t iteration) const;
  Status reach(int member, std::uint64_t iteration, std::vector<float> losses);
  Status judge(int member, std::uint64_t iteration, std::vector<float> losses);
  void stop(int member, std::string reason);
  std::string reason(int member) const;  // why it has stopped
  Status finish(int member, std::vector<float> losses);
  Status note_final(int member, std::vector<float> losses);
  Result<std::optional<nlohmann::json>> kept(const std::filesystem::path& file, bool resumes) const;

  std::vector<std::string> members_;
  mutable std::mutex mutex_;
  std::optional<Rungs> rungs_;    // none: all members go on
  std::optional<Rounds> rounds_;  // none: nobody takes another's weights
  std::filesystem::path file_, finals_file_;
  std::deque<std::atomic<bool>> stopped_;  // by member
  std::vector<std::string> reasons_;       // by member; "": it goes on, or has stopped before
  int rank_ = 0;
  std::function<int(int)> rank_of_{};  // of a member; empty: there is one
  std::function<void(int, const std::string&)> send_{};
  std::vector<bool> has_ended_;            // by member
  std::vector<std::vector<float>> final_;  // by member: losses at its end; empty: not known yet
  std::list<Images> images_;               // one for each test set
  std::vector<std::unique_ptr<DataFeed>> feeds_;  // by member
};

}  // namespace omni
