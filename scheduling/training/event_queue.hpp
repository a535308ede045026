// Events from workers to the training loop: a group's mini-batch reached the merged phase, or its
// update is done. With several ranks: an update was reported to all of them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/communicator/ranks.hpp"
#include "runtime/signals.hpp"
#include "scheduling/groups/group_layout.hpp"
#include "scheduling/training/evaluator.hpp"

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

// Groups on several ranks report their updates to the first rank. It joins the reports of the ranks
// of a group, puts them in one order, and hands them to all ranks. The training loops of all ranks
// go by them alone, so they decide alike: who begins next, with which samples, and when to stop.
class RankEvents {
 public:
  explicit RankEvents(EventQueue& queue) : queue_(queue) {
    for (int peer = 0; peer < ranks::size(); ++peer)
      if (peer != ranks::rank() && (peer == 0 || ranks::first()))
        channels_.emplace_back().peer = peer;
  }

  // A group of these ranks begins a mini-batch, so reports will come.
  void expect(RankRange ranks) {
    if (!ranks::first()) return await(channels_.front());
    for (Channel& channel : channels_)
      if (ranks.has(channel.peer)) await(channel);
  }

  // On the first rank: whether so many ranks of the group have reported the update. The event then
  // has what came out of all.
  bool complete(GroupEvent& event, int ranks) {
    const auto found = partial_.try_emplace(event.outcome.number).first;
    auto& [all, reported] = found->second;
    all.tally.add(event.outcome.tally);
    all.staleness += event.outcome.staleness;
    all.fc_staleness += event.outcome.fc_staleness;
    all.stops = all.stops || event.outcome.stops;
    if (++reported < ranks) return false;
    all.number = event.outcome.number;
    event.outcome = all;
    partial_.erase(found);
    return true;
  }

  // From the first rank to all others, from others to the first.
  void send(GroupEvent& event) {
    event.outcome.stops = event.outcome.stops || stop_requested();
    const auto copy = std::make_shared<GroupEvent>(event);
    std::vector<ranks::Message> messages;
    for (const Channel& channel : channels_)
      messages.push_back({copy.get(), sizeof *copy, channel.peer, ranks::kEventTag, true});
    ranks::post(std::move(messages), [copy] {});
  }

 private:
  struct Channel {
    std::mutex mutex;
    int peer;
    int awaited = 0;
    GroupEvent arriving{};
  };
  // Receives one after the other, so that they keep their order.
  void await(Channel& channel) {
    const std::lock_guard lock(channel.mutex);
    if (channel.awaited++ == 0) receive(channel);
  }

  void receive(Channel& channel) {
    ranks::post(
        {{&channel.arriving, sizeof channel.arriving, channel.peer, ranks::kEventTag, false}},
        [this, &channel] {
          GroupEvent event{};
          {
            const std::lock_guard lock(channel.mutex);
            event = channel.arriving;
            if (--channel.awaited > 0) receive(channel);
          }
          event.kind = GroupEvent::Kind::reported;
          queue_.push(event);  // the last: whoever waits for it may end this object
        });
  }

  EventQueue& queue_;
  std::deque<Channel> channels_;  // of the first rank, to all others; else to the first
  struct Partial {
    GroupOutcome outcome;
    int ranks = 0;
  };
  std::map<std::uint64_t, Partial> partial_;  // by mini-batch
};

}  // namespace omni
