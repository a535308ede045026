// EventQueue holds events for the training loop; workers push them. RankEvents adds the events that
// other ranks send.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>

#include "runtime/communicator/ranks.hpp"
#include "runtime/signals.hpp"
#include "scheduling/groups/group_layout.hpp"
#include "scheduling/training/evaluator.hpp"

namespace omni {

// A GroupOutcome is the result of an update, either on one rank or added up over all ranks of the
// group.
struct GroupOutcome {
  std::uint64_t number = 0;  // the mini-batch's, see MiniBatch::number
  Tally tally;
  std::int64_t staleness = 0, fc_staleness = 0;
  bool stops = false;  // a rank was asked to stop
};

struct GroupEvent {
  enum class Kind {
    arrived,   // the mini-batch reached the merged phase, or its next passes can be submitted
    updated,   // this rank's part of the update is done
    reported,  // another rank sent the outcome
  } kind;
  int group;
  GroupOutcome outcome{};  // empty until the update is read
};

class EventQueue {
 public:
  void push(GroupEvent event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    arrived_.notify_one();
  }

  // Waits for an event. Returns nothing after `patience`, so that the caller can check for errors
  // and stop requests.
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

// With groups on several ranks, each rank of a group reports its part of an update to the first
// rank. The first rank adds up the reports of an update, puts the sums in one order, and sends them
// to all ranks. The training loops of all ranks follow only these sums. So they agree on the next
// group, its samples, and when to stop.
class RankEvents {
 public:
  explicit RankEvents(EventQueue& queue) : queue_(queue) {
    for (int peer = 0; peer < ranks::size(); ++peer)
      if (peer != ranks::rank() && (peer == 0 || ranks::first()))
        channels_.emplace_back().peer = peer;
  }

  // Prepares to receive the reports of a mini-batch that a group on `ranks` begins.
  void expect(RankRange ranks) {
    if (!ranks::first()) return await(channels_.front());
    for (Channel& channel : channels_)
      if (ranks.has(channel.peer)) await(channel);
  }

  // On the first rank, adds up the outcomes that ranks report for an update; call it for each
  // report. Returns true once `ranks` ranks have reported; the event then holds the sum.
  bool complete(GroupEvent& event, int ranks) {
    const auto found = partial_.try_emplace(event.outcome.number).first;
    auto& [all, reported] = found->second;
    all.tally.add(event.outcome.tally);
    all.staleness += event.outcome.staleness;
    all.fc_staleness += event.outcome.fc_staleness;
    all.stops = all.stops || event.outcome.stops;
    if (++reported < ranks) return false;
    if (ranks > 1) all.tally.auxiliary.clear();  // others do not send theirs
    all.number = event.outcome.number;
    event.outcome = all;
    partial_.erase(found);
    return true;
  }

  // On the first rank, sends the event to all others; on any other rank, to the first.
  void send(GroupEvent& event) {
    event.outcome.stops = event.outcome.stops || stop_requested();
    const auto copy = std::make_shared<Sent>(event);
    std::vector<ranks::Message> messages;
    for (const Channel& channel : channels_)
      messages.push_back({copy.get(), sizeof *copy, channel.peer, ranks::kEventTag, true});
    ranks::post(std::move(messages), [copy] {});
  }

 private:
  // A Sent is an event as ranks send it, without the parts of the loss.
  struct Sent {
    Sent() = default;
    explicit Sent(const GroupEvent& of)
        : group(of.group),
          number(of.outcome.number),
          loss(of.outcome.tally.loss),
          top1(of.outcome.tally.top1),
          top5(of.outcome.tally.top5),
          images(of.outcome.tally.images),
          staleness(of.outcome.staleness),
          fc_staleness(of.outcome.fc_staleness),
          stops(of.outcome.stops) {}
    GroupEvent event() const {
      return {GroupEvent::Kind::reported,
              group,
              {number, {loss, top1, top5, images}, staleness, fc_staleness, stops}};
    }

    int group = 0;
    std::uint64_t number = 0;
    double loss = 0, top1 = 0, top5 = 0, images = 0;
    std::int64_t staleness = 0, fc_staleness = 0;
    bool stops = false;
  };
  static_assert(std::is_trivially_copyable_v<Sent>);
  struct Channel {
    std::mutex mutex;
    int peer;
    int awaited = 0;  // messages
    Sent arriving{};
  };
  // Posts a receive for the next message of a channel. Only one is posted at a time, so that
  // messages keep their order.
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
            event = channel.arriving.event();
            if (--channel.awaited > 0) receive(channel);
          }
          queue_.push(event);  // comes last, as the waiting thread may then destroy this object
        });
  }

  EventQueue& queue_;
  std::deque<Channel> channels_;  // on the first rank: to all others; elsewhere: to the first
  struct Partial {
    GroupOutcome outcome;
    int ranks = 0;  // that have reported
  };
  std::map<std::uint64_t, Partial> partial_;  // by number of the mini-batch
};

}  // namespace omni
