// For how long a task holds the policy's lock, which all workers share: being put into the queue of
// 64 equal workers and taken from it, while so many others wait. What the lock is busy, were every
// worker to take a task of a millisecond, follows.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "scheduling/policy/dispatcher.hpp"

namespace {

using namespace omni;

constexpr int kWorkers = 64, kPriorities = 20, kPairs = 200000, kRounds = 7;

// Equal workers: nothing but priorities is asked.
struct Facts {
  using Kind = WorkerKind<int>;
  int priority(int task) const { return task % kPriorities; }
  Foresight::Sort sort(int) const { return {}; }
  bool holds_shared(int) const { return false; }
  bool runs(int, unsigned) const { return true; }
  bool is_for(int, unsigned) const { return true; }
  std::optional<double> length(int, const Kind&) const { return 1.0; }
  double guess(int, const Kind&) const { return 1.0; }
  double transfer(int, unsigned) const { return 0.0; }
};

double seconds_per_task(int waiting) {
  Dispatcher<int, Facts> dispatcher(Facts{}, 0);
  for (unsigned worker = 0; worker < kWorkers; ++worker) dispatcher.add_worker(worker, 0, 0);
  const auto push = [&](int task) {
    dispatcher.push(dispatcher.only_place(), task, task % kWorkers);
  };
  for (int task = 0; task < waiting; ++task) push(task);
  const auto before = std::chrono::steady_clock::now();
  for (int task = 0; task < kPairs; ++task) {
    push(task);
    if (!dispatcher.pop(static_cast<unsigned>(7 * task % kWorkers), 0)) return 0;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count() / kPairs;
}

}  // namespace

int main() {
  for (const int waiting : {1, 16, 64, 512}) {
    std::vector<double> seconds;
    for (int round = 0; round < kRounds; ++round) seconds.push_back(seconds_per_task(waiting));
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[kRounds / 2];
    fmt::print(
        "{:>4} waiting: {:.0f} ns per task ({:.0f} to {:.0f}); of {} workers' tasks of 1 ms "
        "the lock is held {:.1f} % of the time\n",
        waiting, 1e9 * median, 1e9 * seconds.front(), 1e9 * seconds.back(), kWorkers,
        100 * kWorkers * median / 1e-3);
  }
}
