#include "layers/memory_plan.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace omni {
namespace {

using Stays = std::vector<PlannedBuffer::Lifetime>;

// How many tasks after one the other comes, where they are closest; 0 or less: they meet.
std::ptrdiff_t distance(const Stays& a, const Stays& b) {
  auto least = std::numeric_limits<std::ptrdiff_t>::max();
  for (auto one = a.begin(), other = b.begin(); one != a.end() && other != b.end();) {
    const bool one_first = one->first < other->first;
    const PlannedBuffer::Lifetime &earlier = one_first ? *one : *other,
                                  &later = one_first ? *other : *one;
    least = std::min(least, static_cast<std::ptrdiff_t>(later.first) -
                                static_cast<std::ptrdiff_t>(earlier.last));
    one_first ? ++one : ++other;
  }
  return least;
}

struct Arena {
  std::size_t owner;
  Stays lifetimes;  // of all buffers, ascending

  void add(const Stays& more) {
    Stays all;
    std::ranges::merge(lifetimes, more, std::back_inserter(all), {},
                       &PlannedBuffer::Lifetime::first, &PlannedBuffer::Lifetime::first);
    lifetimes = std::move(all);
  }
};

}  // namespace

// The largest first, as every memory is then large enough for whoever comes later; of equals, the
// earliest, which needs the fewest memories.
std::vector<std::size_t> plan_memory(std::span<const PlannedBuffer> buffers,
                                     std::size_t most_times) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const auto start = [&](std::size_t each) {
      return buffers[each].lifetimes.empty() ? 0 : buffers[each].lifetimes.front().first;
    };
    if (buffers[a].bytes != buffers[b].bytes) return buffers[a].bytes > buffers[b].bytes;
    return start(a) < start(b);
  });
  std::vector<std::size_t> home(buffers.size());
  std::unordered_map<int, std::vector<Arena>> houses;  // by slice
  for (const std::size_t each : order) {
    const PlannedBuffer& buffer = buffers[each];
    std::vector<Arena>& there = houses[buffer.slice];
    // Where nobody else is for the longest time before and after, so that tasks hardly wait for it.
    auto free = there.end();
    std::ptrdiff_t furthest = 0;
    for (auto house = there.begin(); house != there.end(); ++house) {
      if (buffers[house->owner].bytes > most_times * buffer.bytes) continue;
      const std::ptrdiff_t away = distance(house->lifetimes, buffer.lifetimes);
      if (away <= furthest) continue;
      furthest = away;
      free = house;
    }
    if (free == there.end()) {
      home[each] = each;
      there.push_back({each, buffer.lifetimes});
    } else {
      home[each] = free->owner;
      free->add(buffer.lifetimes);
    }
  }
  return home;
}

}  // namespace omni
