// VirtualGroups gives the order in which simulated compute groups finish. Their times are drawn
// from a distribution, so a test of asynchrony does not depend on the machine or its load.
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
    // The groups start one after the other, as real groups do.
    for (int group = 0; group < groups; ++group)
      finishes_.push({static_cast<double>(group) / groups + service_(random_), group});
  }

  // Returns the group that finishes next, and starts its next iteration at once.
  int next() {
    const auto [time, group] = finishes_.top();
    finishes_.pop();
    finishes_.push({time + service_(random_), group});
    return group;
  }

  static ServiceTime constant() {
    // The times vary a little. Equal times would be ordered by the heap, not by time.
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
