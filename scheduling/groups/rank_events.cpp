#include "scheduling/groups/rank_events.hpp"

#include <memory>
#include <utility>

#include "runtime/communicator/ranks.hpp"
#include "runtime/signals.hpp"

namespace omni {
namespace {

void send_event(const GroupEvent& event, int first_peer, int end_peer) {
  const auto copy = std::make_shared<GroupEvent>(event);
  std::vector<ranks::Message> messages;
  for (int peer = first_peer; peer < end_peer; ++peer)
    messages.push_back({copy.get(), sizeof *copy, peer, ranks::kEventTag, true});
  ranks::post(std::move(messages), [copy] {});
}

}  // namespace

RankEvents::RankEvents(EventQueue& queue) : queue_(queue) {
  for (int peer = 0; peer < ranks::size(); ++peer)
    if (peer != ranks::rank() && (peer == 0 || ranks::first()))
      channels_.emplace_back().peer = peer;
}

// Receives one after the other, so that they keep their order.
void RankEvents::expect(int rank) {
  if (ranks::first() && rank == 0) return;
  Channel& channel = channels_[ranks::first() ? static_cast<std::size_t>(rank) - 1 : 0];
  const std::lock_guard lock(channel.mutex);
  if (channel.awaited++ == 0) receive(channel);
}

void RankEvents::receive(Channel& channel) {
  ranks::post({{&channel.arriving, sizeof channel.arriving, channel.peer, ranks::kEventTag, false}},
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

bool RankEvents::pass_on(GroupEvent& event) {
  const bool own = event.kind == GroupEvent::Kind::updated;
  if (!own && !ranks::first()) return true;
  event.outcome.stops = event.outcome.stops || stop_requested();
  ranks::first() ? send_event(event, 1, ranks::size()) : send_event(event, 0, 1);
  return ranks::first();
}

}  // namespace omni
