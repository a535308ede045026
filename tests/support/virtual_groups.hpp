// Compute groups run in virtual time here. The times at which they finish are drawn from a
// distribution of service times. So a test of asynchrony depends on neither the machine nor its
// load.
#pragma once

#include <functional>
#include <queue>
#include <random>
#include <vector>

namespace omni::test {

class VirtualGroups {
 public:
  using ServiceTime = std::function<double(std::mt19937_64&)>;

  VirtualGroups(int groups, ServiceTime service, std::uint64_t seed)
      : service_(std::move(service)), random_(seed) {
    // Groups start one after the other, as real ones do.
    for (int group = 0; group < groups; ++group)
      finishes_.push({static_cast<double>(group) / groups + service_(random_), group});
  }

  // The group that finishes next; it begins its next iteration at once.
  int next() {
    const auto [time, group] = finishes_.top();
    finishes_.pop();
    finishes_.push({time + service_(random_), group});
    return group;
  }

  static ServiceTime constant() {
    // A little jitter: without it the order is that of the heap, not of time.
    return [](std::mt19937_64& random) {
      return std::uniform_real_distribution(0.999, 1.001)(random);
    };
  }
  static ServiceTime exponential() {
    return [](std::mt19937_64& random) { return std::exponential_distribution(1.0)(random); };
  }

 private:
  struct Finish {
    double time;
    int group;
    bool operator<(const Finish& other) const { return time > other.time; }  // earliest on top
  };
  ServiceTime service_;
  std::mt19937_64 random_;
  std::priority_queue<Finish> finishes_;
};

}  // namespace omni::test
