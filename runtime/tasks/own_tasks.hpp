// OwnTasks counts the tasks of one training, if several trainings of a process submit tasks at the
// same time. Then wait_for_tasks() waits for these tasks alone.
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

  // Returns the object that counts the calling thread's submissions; null: none does.
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

// `tasks` counts all tasks that the calling thread submits in this scope.
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
