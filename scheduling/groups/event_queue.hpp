// Events from workers to the training loop: a group's mini-batch reached the merged phase, or its
// update is done. With several ranks: an update was reported to all of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "scheduling/evaluator.hpp"

namespace omni {

// What came out of an update, of all ranks of the group or of one.
struct GroupOutcome {
  std::uint64_t number = 0;  // of its mini-batch
  Tally tally;
  std::int64_t staleness = 0, fc_staleness = 0;
  bool stops = false;  // a rank was asked to stop
};

struct GroupEvent {
  enum class Kind { arrived, updated, reported } kind;
  int group;
  GroupOutcome outcome{};  // once an update was read
};

class EventQueue {
 public:
  void push(GroupEvent event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    arrived_.notify_one();
  }

  // Nothing after `patience`, so that the caller can check for errors and stop requests.
  std::optional<GroupEvent> wait(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, patience, [this] { return !events_.empty(); });
    if (events_.empty()) return {};
    const GroupEvent event = events_.front();
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<GroupEvent> events_;
};

}  // namespace omni
