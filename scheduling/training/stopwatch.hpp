// A Stopwatch measures wall time and can be paused.
#pragma once

#include <chrono>

namespace omni {

class Stopwatch {
 public:
  explicit Stopwatch(bool running = true) : running_(running) {}

  void start() { started_ = Clock::now(), running_ = true; }
  void pause() {
    elapsed_ = seconds();
    running_ = false;
  }
  double seconds() const {
    return elapsed_ +
           (running_ ? std::chrono::duration<double>(Clock::now() - started_).count() : 0);
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point started_ = Clock::now();
  double elapsed_ = 0;
  bool running_;
};

}  // namespace omni
