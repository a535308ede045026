#include "scheduling/groups/rank_events.hpp"

#include <memory>
#include <utility>

#include "runtime/communicator/ranks.hpp"
#include "runtime/signals.hpp"

namespace omni {
RankEvents::RankEvents(EventQueue& queue) : queue_(queue) {
  for (int peer = 0; peer < ranks::size(); ++peer)
    if (peer != ranks::rank() && (peer == 0 || ranks::first()))
      channels_.emplace_back().peer = peer;
}

void RankEvents::expect(RankRange ranks) {
  if (!ranks::first()) return await(channels_.front());
  for (Channel& channel : channels_)
    if (ranks.has(channel.peer)) await(channel);
}

// Receives one after the other, so that they keep their order.
void RankEvents::await(Channel& channel) {
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

bool RankEvents::complete(GroupEvent& event, int ranks) {
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

void RankEvents::send(GroupEvent& event) {
  event.outcome.stops = event.outcome.stops || stop_requested();
  const auto copy = std::make_shared<GroupEvent>(event);
  std::vector<ranks::Message> messages;
  for (const Channel& channel : channels_)
    messages.push_back({copy.get(), sizeof *copy, channel.peer, ranks::kEventTag, true});
  ranks::post(std::move(messages), [copy] {});
}

}  // namespace omni
