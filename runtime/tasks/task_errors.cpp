#include "runtime/tasks/task_errors.hpp"

#include <starpu.h>

#include <atomic>
#include <mutex>
#include <optional>

#include "runtime/tasks/own_tasks.hpp"
#include "runtime/tasks/recorder.hpp"

namespace omni {
namespace {
std::mutex mutex;
std::optional<Error> first_error;
std::string message_of_first;
std::atomic<const char*> first_message = nullptr;
std::string what_to_try;
}  // namespace

void report_task_error(Error error) {
  const std::lock_guard lock(mutex);
  if (first_error) return;
  first_error = std::move(error);
  message_of_first = first_error->message();
  first_message = message_of_first.c_str();
}

const char* first_task_error() { return first_message; }

Status task_status() {
  const std::lock_guard lock(mutex);
  if (first_error) return *first_error;
  return {};
}

Status wait_for_tasks() {
  {
    const recording::WaitScope waiting(true);
    if (OwnTasks* const own = OwnTasks::current())
      own->wait();
    else
      starpu_task_wait_for_all();
  }
  return task_status();
}

void clear_task_errors() {
  const std::lock_guard lock(mutex);
  first_error.reset();
  first_message = nullptr;
}

void set_hint_for_full_gpu(std::string hint) {
  const std::lock_guard lock(mutex);
  what_to_try = std::move(hint);
}

std::string hint_for_full_gpu() {
  const std::lock_guard lock(mutex);
  return what_to_try;
}

}  // namespace omni
