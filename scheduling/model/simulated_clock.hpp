// Simulated time: what is to happen when.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace omni {

class SimulatedClock {
 public:
  double now() const { return now_; }  // s
  void at(double time, std::function<void()> happens) {
    events_.emplace(std::pair{time, count_++}, std::move(happens));
  }
  // Lets the next thing happen; false: nothing is left.
  bool step() {
    if (events_.empty()) return false;
    auto next = events_.extract(events_.begin());
    now_ = next.key().first;
    next.mapped()();
    return true;
  }

 private:
  std::map<std::pair<double, std::uint64_t>, std::function<void()>> events_;
  std::uint64_t count_ = 0;
  double now_ = 0;
};

}  // namespace omni
