// SweepJudge compares the members of a sweep while they train, and ends those that surely lose.
// Each member has a pilot, which computes its losses on the same test images as the others.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "scheduling/ensemble/rungs.hpp"
#include "scheduling/training/pilot.hpp"

namespace omni {

// BestMember is the best member at the end. It also says how surely that member is better than the
// next.
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
        final_(members_.size()) {}

  std::unique_ptr<Pilot> pilot(int member);
  // From now on members stop by these rules. Call stop_by() before any member trains. The state of
  // the rules is kept in the file; `resumes` means that the file is read first.
  Status stop_by(const RungOptions& options, std::filesystem::path file, bool resumes);
  bool has_stopped(int member) const { return stopped_[member]; }
  BestMember best() const;

 private:
  class MemberPilot;
  std::uint64_t next_rung(std::uint64_t iteration) const;
  bool is_wanted(int member, std::uint64_t iteration) const;
  Status reach(int member, std::uint64_t iteration, std::vector<float> losses);
  std::string reason(int member) const;  // why it has stopped
  void finish(int member, std::vector<float> losses);

  std::vector<std::string> members_;
  mutable std::mutex mutex_;
  std::optional<Rungs> rungs_;  // none: all members go on
  std::filesystem::path file_;
  std::deque<std::atomic<bool>> stopped_;  // by member
  std::vector<std::string> reasons_;       // by member; "": it goes on, or has stopped before
  std::vector<std::vector<float>> final_;  // by member: losses at its end; empty: it has not ended
};

}  // namespace omni
