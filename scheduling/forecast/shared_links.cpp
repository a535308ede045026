#include "scheduling/forecast/shared_links.hpp"

#include <algorithm>
#include <cmath>

#include "scheduling/forecast/ticks.hpp"

namespace omni {

void SharedLinks::Link::settle(double now) {
  const double passed = now - settled;
  if (!messages.empty()) busy += passed;
  for (Message& each : messages) each.left -= passed / static_cast<double>(messages.size());
  settled = now;
}

void SharedLinks::Link::foresee() {
  next = INFINITY;
  if (messages.empty()) return;
  const double least = std::ranges::min_element(messages, {}, &Message::left)->left;
  next = settled + in_ticks(least * static_cast<double>(messages.size()));
}

void SharedLinks::send(std::size_t number, double now, const Message& message) {
  Link& link = links_[number];
  link.settle(now);
  link.messages.push_back(message);
  link.foresee();
}

double SharedLinks::next_arrival() const {
  return links_.empty() ? INFINITY : std::ranges::min_element(links_, {}, &Link::next)->next;
}

std::vector<Message> SharedLinks::arrived(double now) {
  std::vector<Message> all;
  for (Link& link : links_) {
    if (link.next > now) continue;
    link.settle(now);
    // The message with the least left counts as arrived, even if times are too large to be counted
    // in ticks.
    const double least = std::ranges::min_element(link.messages, {}, &Message::left)->left;
    std::erase_if(link.messages, [&](const Message& each) {
      if (each.left > std::max(kTick, least)) return false;
      all.push_back(each);
      return true;
    });
    link.foresee();
  }
  return all;
}

void SharedLinks::give_up(double now) {
  for (Link& link : links_) {
    link.settle(now);
    link.messages.clear();
    link.foresee();
  }
}

double SharedLinks::busiest() const {
  return links_.empty() ? 0 : std::ranges::max_element(links_, {}, &Link::busy)->busy;
}

int SharedLinks::under_way(int group, bool for_later) const {
  int count = 0;
  for (const Link& link : links_)
    for (const Message& each : link.messages)
      count += each.group == group && each.for_later == for_later ? 1 : 0;
  return count;
}

int SharedLinks::under_way() const {
  int count = 0;
  for (const Link& link : links_) count += static_cast<int>(link.messages.size());
  return count;
}

}  // namespace omni
