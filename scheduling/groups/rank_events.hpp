// Groups on several ranks report their updates to the first rank. It joins the reports of the ranks
// of a group, puts them in one order, and hands them to all ranks. The training loops of all ranks
// go by them alone, so they decide alike: who begins next, with which samples, and when to stop.
#pragma once

#include <deque>
#include <map>
#include <mutex>

#include "scheduling/groups/event_queue.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {

class RankEvents {
 public:
  explicit RankEvents(EventQueue& queue);

  // A group of these ranks begins a mini-batch, so reports will come.
  void expect(RankRange ranks);
  // On the first rank: whether so many ranks of the group have reported the update. The event then
  // has what came out of all.
  bool complete(GroupEvent& event, int ranks);
  // From the first rank to all others, from others to the first.
  void send(GroupEvent& event);

 private:
  struct Channel {
    std::mutex mutex;
    int peer;
    int awaited = 0;
    GroupEvent arriving{};
  };
  void await(Channel& channel);
  void receive(Channel& channel);

  EventQueue& queue_;
  std::deque<Channel> channels_;  // of the first rank, to all others; else to the first
  struct Partial {
    GroupOutcome outcome;
    int ranks = 0;
  };
  std::map<std::uint64_t, Partial> partial_;  // by mini-batch
};

}  // namespace omni
