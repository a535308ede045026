// Measures how long a task holds the policy's lock, which all workers share. A task is put into the
// queue of 64 equal workers and taken from the queue, each time under the lock. One thread does so,
// or two that contend for the lock. StarPU's calls that ask whether a worker may run a task are not
// measured.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "scheduling/policy/dispatcher.hpp"

namespace {

using namespace omni;

constexpr int kWorkers = 64, kPriorities = 20, kTasks = 400000, kRounds = 7;

// All workers are equal, so only priorities decide.
struct Facts {
  using Kind = WorkerKind<int>;
  int priority(int task) const { return task % kPriorities; }
  BacklogForecast::Sort sort(int) const { return {}; }
  bool holds_shared(int) const { return false; }
  bool runs(int, unsigned) const { return true; }
  bool is_for(int, unsigned) const { return true; }
  std::optional<double> length(int, const Kind&) const { return 1.0; }
  double guess(int, const Kind&) const { return 1.0; }
  double transfer(int, unsigned) const { return 0.0; }
  double back(int, unsigned) const { return 0; }
  void takes(int, unsigned) const {}
};

double seconds_per_task(int threads, int waiting) {
  Dispatcher<int, Facts> dispatcher(Facts{}, 0);
  for (unsigned worker = 0; worker < kWorkers; ++worker) dispatcher.add_worker(worker, 0, 0);
  std::mutex mutex;
  const auto push = [&](int task) {
    const std::scoped_lock lock(mutex);
    dispatcher.push(dispatcher.only_place(), task, task % kWorkers);
  };
  for (int task = 0; task < waiting; ++task) push(task);
  std::atomic<int> taken = 0;
  const auto before = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> all;
    for (int thread = 0; thread < threads; ++thread)
      all.emplace_back([&, thread] {
        for (int task = thread; task < kTasks; task += threads) {
          push(task);
          const std::scoped_lock lock(mutex);
          taken += dispatcher.pop(static_cast<unsigned>(7 * task % kWorkers), 0).has_value();
        }
      });
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
  return took.count() / taken;
}

}  // namespace

int main() {
  for (const int threads : {1, 2})
    for (const int waiting : {1, 64, 512}) {
      std::vector<double> seconds;
      for (int round = 0; round < kRounds; ++round)
        seconds.push_back(seconds_per_task(threads, waiting));
      std::sort(seconds.begin(), seconds.end());
      const double median = seconds[kRounds / 2];
      fmt::print(
          "{} thread{}, {:>3} waiting: {:.0f} ns per task ({:.0f} to {:.0f}); {} workers with "
          "tasks of 1 ms would use {:.1f} % of what the lock lets through\n",
          threads, threads == 1 ? "" : "s", waiting, 1e9 * median, 1e9 * seconds.front(),
          1e9 * seconds.back(), kWorkers, 100 * kWorkers * median / 1e-3);
    }
}
