#include "layers/memory_plan.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "runtime/tasks/tensor_pool.hpp"

namespace omni {
namespace {

using Stays = std::vector<PlannedBuffer::Lifetime>;

// Returns the least number of tasks between a lifetime of `a` and one of `b`. It counts from the
// last task of the earlier lifetime to the first of the later. 0 or less means that they overlap.
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

// The largest buffer is placed first, so every memory is large enough for later buffers. Among
// equally large ones the earliest comes first, which needs the fewest memories.
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
    // Among the free memories, the buffer takes the one that no other buffer uses for the longest
    // time before and after. So tasks hardly wait for it.
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

namespace {

constexpr int kAllSlices = -1;

// A tensor may lie in a memory of at most this many times its size. A transfer between devices
// moves the whole memory, so it takes longer.
constexpr std::size_t kMostTimes = 2;
// No task waits for gradients of weights, so they come late. kLate tasks of the slice, those of
// some layers, go ahead of them. With fewer, the next layers' gradients would wait on machines of
// many cores. With more, the plan takes more memory. (perf/RESULTS.md has both.)
constexpr std::size_t kLate = 8;

bool comes_late(const CapturedTask& task) { return task.priority < 0; }

struct Use {
  int slice = kAllSlices;
  std::vector<PlannedBuffer::Lifetime> lifetimes;
  bool remembers = false;
};
using Uses = std::unordered_map<const Tensor*, Use>;

// Finds for each tensor the slice whose tasks alone use it, if there is one.
Uses find_slices(std::span<const CapturedTask> tasks) {
  Uses uses;
  for (const CapturedTask& task : tasks)
    for (const CapturedTask::Use& use : task.uses) {
      const auto [known, added] = uses.try_emplace(use.part.tensor, Use{task.slice, {}});
      if (known->second.slice != task.slice) known->second.slice = kAllSlices;
    }
  return uses;
}

Uses find_uses(std::span<const CapturedTask> tasks) {
  Uses uses = find_slices(tasks);
  std::unordered_map<int, std::size_t> count;  // of a slice's tasks so far
  for (const CapturedTask& task : tasks) {
    std::unordered_set<int> counted;
    for (const CapturedTask::Use& each : task.uses) {
      Use& use = uses.at(each.part.tensor);
      if (counted.insert(use.slice).second) ++count[use.slice];
      const std::size_t now = count[use.slice];
      if (each.mode == AccessMode::write)
        use.lifetimes.push_back({now, now});
      else if (use.lifetimes.empty())
        use.remembers = true;
      else
        use.lifetimes.back().last = comes_late(task) ? now + kLate : now;
    }
  }
  return uses;
}

}  // namespace

void place_tensors(TensorPool& tensors, std::span<const CapturedTask> tasks,
                   std::span<const Tensor* const> kept, bool share) {
  Uses uses = find_uses(tasks);
  for (const Tensor* each : kept) uses.erase(each);
  std::vector<Tensor*> movable;
  std::vector<PlannedBuffer> buffers;
  for (Tensor& tensor : tensors.all()) {
    const auto found = uses.find(&tensor);
    if (found == uses.end() || found->second.remembers || tensor.parts() > 1) continue;
    movable.push_back(&tensor);
    tensor.make_transient();
    buffers.push_back({tensor.bytes(), found->second.slice, std::move(found->second.lifetimes)});
  }
  if (!share) return;
  const std::vector<std::size_t> home = plan_memory(buffers, kMostTimes);
  for (std::size_t i = 0; i < home.size(); ++i)
    if (home[i] != i) tensors.place(*movable[i], *movable[home[i]]);
}

}  // namespace omni
