#include "runtime/threads.hpp"

#include <exception>
#include <future>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/memory/memory_limits.hpp"

namespace omni {
namespace {

constexpr std::size_t kStack = 16 << 20;  // bytes; twice the C library's default

// Starts a thread. The system has one error for a lack of memory and for too many threads.
std::thread started(std::function<void()> work) {
  try {
    return std::thread([work = std::move(work)]() noexcept { work(); });
  } catch (const std::system_error& problem) {
    if (!can_map(kStack)) throw std::bad_alloc();
    throw std::runtime_error(std::string("cannot start a thread: ") + problem.code().message() +
                             " (raise the limit of processes: ulimit -u)");
  }
}

}  // namespace

void run_together(int count, const std::function<void(int)>& work) {
  std::mutex mutex;
  std::exception_ptr thrown;
  std::promise<bool> all;
  const std::shared_future<bool> go = all.get_future();
  std::vector<std::thread> team;
  team.reserve(static_cast<std::size_t>(count));
  try {
    for (int i = 0; i < count; ++i)
      team.push_back(started([&, go, i] {
        if (!go.get()) return;
        try {
          work(i);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!thrown) thrown = std::current_exception();
        }
      }));
    all.set_value(true);
  } catch (...) {
    thrown = std::current_exception();
    all.set_value(false);
  }
  for (std::thread& each : team) each.join();
  if (thrown) std::rethrow_exception(thrown);
}

void start_thread(std::function<void()> work) { started(std::move(work)).detach(); }

}  // namespace omni
