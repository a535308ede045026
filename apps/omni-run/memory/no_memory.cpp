// This file ends the process with a message if memory runs out in any thread or library.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <string_view>
#include <vector>

#include "apps/command_line.hpp"
#include "apps/omni-run/setup.hpp"
#include "runtime/farewell.hpp"
#include "runtime/memory/memory_limits.hpp"

namespace omni {
namespace {

// With more than this many bytes of address space per core, OpenBLAS and the C library may allocate
// as they like.
constexpr std::size_t kPerCore = std::size_t{2} << 30;
constexpr std::size_t kNextToNothing = 16 << 20;  // bytes; memory that lacks them has run out

// The process ends at once, because ending in order needs memory. Files that were saved before are
// complete.
void leave_without_memory() {
  constexpr std::string_view kText =
      "error: out of memory (raise ulimit -v, or use a smaller --batch or fewer --workers)\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText.data(), kText.size());
  say_farewell(kText.substr(std::string_view("error: ").size()));
  _exit(exit_code(ErrorKind::out_of_memory));
}

// StarPU aborts if it has no memory. After the return the signal has its usual effect.
extern "C" void on_fatal_signal(int) {
  if (!can_map(kNextToNothing)) leave_without_memory();
}

// Runs before libraries are initialised. If address space is short, OpenBLAS must not start
// threads, which would try for ever to map their buffers. Nor must the C library give each thread a
// heap.
void begin_with_little_memory(int, char** arguments, char** environment) {
  rlimit space{}, data{};
  getrlimit(RLIMIT_AS, &space);
  getrlimit(RLIMIT_DATA, &data);
  if (space.rlim_cur == RLIM_INFINITY && data.rlim_cur == RLIM_INFINITY) return;
  if (!can_map(kNextToNothing)) leave_without_memory();
  if (can_map(static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN)) * kPerCore)) return;
  static char one_thread[] = "OPENBLAS_NUM_THREADS=1", one_heap[] = "MALLOC_ARENA_MAX=1";
  std::vector<char*> variables{one_heap};
  for (; *environment != nullptr; ++environment) {
    if (std::string_view(*environment) == one_thread) return;
    if (!std::string_view(*environment).starts_with("OPENBLAS_NUM_THREADS="))
      variables.push_back(*environment);
  }
  variables.insert(variables.end(), {one_thread, nullptr});
  ::execve("/proc/self/exe", arguments, variables.data());  // on failure all goes on as before
}

[[gnu::used, gnu::section(".preinit_array")]] void (*const before_libraries)(int, char**, char**) =
    begin_with_little_memory;

}  // namespace

void end_in_order_without_memory() {
  constexpr std::size_t kUnlimited = std::size_t{1} << 42;
  if (can_map(kUnlimited)) return;
  struct sigaction action {};
  action.sa_handler = on_fatal_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGABRT, SIGSEGV}) sigaction(number, &action, nullptr);
}

}  // namespace omni
