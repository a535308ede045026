// Groups of several ranks report their updates to the first rank. It puts the reports in one order
// and hands them to all ranks. The training loops of all ranks go by them alone, so they decide
// alike: who begins next, with which samples, and when to stop.
#pragma once

#include <deque>
#include <mutex>

#include "scheduling/groups/event_queue.hpp"

namespace omni {

class RankEvents {
 public:
  explicit RankEvents(EventQueue& queue);

  // A group of this rank begins a mini-batch, so a report will come.
  void expect(int rank);
  // Of an event of this rank, or a report. False: it will come again, as a report.
  bool pass_on(GroupEvent& event);

 private:
  struct Channel {
    std::mutex mutex;
    int peer;
    int awaited = 0;
    GroupEvent arriving{};
  };
  void receive(Channel& channel);

  EventQueue& queue_;
  std::deque<Channel> channels_;  // of the first rank, to all others; else to the first
};

}  // namespace omni
