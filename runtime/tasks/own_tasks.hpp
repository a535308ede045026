// OwnTasks counts the tasks of one training, where several trainings of a process submit tasks at
// the same time. wait_for_tasks() then waits for these tasks alone.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace omni {

class OwnTasks {
 public:
  OwnTasks() = default;
  ~OwnTasks() { wait(); }
  OwnTasks(const OwnTasks&) = delete;
  OwnTasks& operator=(const OwnTasks&) = delete;

  // Returns the tasks that the calling thread's submissions belong to; null: nobody counts them.
  static OwnTasks* current() { return current_; }

  void submitted() {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  void done() {
    const std::lock_guard lock(mutex_);  // held while it tells, since a waiter may end this object
    if (--running_ == 0) none_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [this] { return running_ == 0; });
  }

 private:
  friend class OwnTasksScope;
  inline static thread_local OwnTasks* current_ = nullptr;
  std::mutex mutex_;
  std::condition_variable none_;
  std::int64_t running_ = 0;
};

// All tasks that the calling thread submits in this scope belong to `tasks`.
class OwnTasksScope {
 public:
  explicit OwnTasksScope(OwnTasks& tasks) : outer_(OwnTasks::current_) {
    OwnTasks::current_ = &tasks;
  }
  ~OwnTasksScope() { OwnTasks::current_ = outer_; }
  OwnTasksScope(const OwnTasksScope&) = delete;
  OwnTasksScope& operator=(const OwnTasksScope&) = delete;

 private:
  OwnTasks* outer_;
};

}  // namespace omni
