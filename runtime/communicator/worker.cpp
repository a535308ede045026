#include "runtime/communicator/worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "runtime/communicator/keeper.hpp"
#include "runtime/communicator/transport.hpp"
#include "runtime/own_command.hpp"

extern char** environ;

namespace omni::ranks {

// The process that trains writes these numbers, and its keeper reads them, also after a kill.
struct Progress {
  std::atomic<std::uint64_t> iteration, saved;
};

namespace {

Progress* map_progress(int descriptor) {
  void* const page =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return page == MAP_FAILED ? nullptr : static_cast<Progress*>(page);
}

Progress* progress_of_keeper() {
  static Progress* const progress = [] {
    std::istringstream words(environment(kKept));
    int keeper = 0, descriptor = -1;
    words >> keeper >> descriptor;
    return descriptor < 0 ? nullptr : map_progress(descriptor);
  }();
  return progress;
}

std::vector<std::string> environment_of(int rank, int size, int on_node, int questions,
                                        int progress) {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    // The launcher of the keepers knows nothing of the processes that train.
    const bool of_launcher = text.starts_with("PMI") || text.starts_with("HYDI_") ||
                             text.starts_with("HYDRA_") || text.starts_with("MPI_LOCAL");
    if (!of_launcher) all.emplace_back(text);
  }
  all.push_back(fmt::format("PMI_RANK={}", rank));
  all.push_back(fmt::format("PMI_SIZE={}", size));
  all.push_back(fmt::format("PMI_FD={}", questions));
  all.push_back(fmt::format("MPI_LOCALNRANKS={}", on_node));
  // The process of the keeper, and the descriptor of the Progress.
  all.push_back(fmt::format("{}={} {}", kKept, getpid(), progress));
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& each : words) all.push_back(each.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

Worker::Worker() : shared_(memfd_create("omni-progress", MFD_CLOEXEC)) {
  if (shared_ >= 0 && ftruncate(shared_, sizeof(Progress)) == 0) progress_ = map_progress(shared_);
}
std::uint64_t Worker::iteration() const { return progress_->iteration; }
std::uint64_t Worker::saved() const { return progress_->saved; }

Status Worker::start(int rank, int size, int on_node) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error{ErrorKind::failed, "--survive", "no socket for the process that trains", ""};
  questions_.emplace(Descriptor(ends[0]));
  const Descriptor theirs(ends[1]);
  std::vector<std::string> words = own_words(),
                           variables = environment_of(rank, size, on_node, theirs, shared_);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (const int each : {int{theirs}, int{shared_}})  // to itself: it is kept open
    posix_spawn_file_actions_adddup2(&files, each, each);
  std::error_code none;
  std::string program = std::filesystem::read_symlink("/proc/self/exe", none);
  // Under its name another program may be installed by now.
  if (!std::filesystem::exists(program, none)) program = "/proc/self/exe";
  const int problem = posix_spawn(&process_, program.c_str(), &files, nullptr,
                                  pointers_to(words).data(), pointers_to(variables).data());
  posix_spawn_file_actions_destroy(&files);
  if (problem != 0) {
    process_ = 0;
    return Error{
        ErrorKind::failed, "--survive",
        "the process that trains cannot be started: " + std::generic_category().message(problem),
        ""};
  }
  end_ = static_cast<int>(syscall(SYS_pidfd_open, process_, 0));
  if (end_ >= 0) return {};
  const int error = errno;
  kill(process_, SIGKILL);
  wait();
  return Error{
      ErrorKind::failed, "--survive",
      "the process that trains cannot be watched: " + std::generic_category().message(error),
      "it needs Linux 5.3"};
}

int Worker::wait() {
  int state = 0;
  while (waitpid(process_, &state, 0) < 0 && errno == EINTR) {
  }
  process_ = 0;
  close(std::exchange(end_, -1));
  questions_.reset();
  return WIFSIGNALED(state) ? -WTERMSIG(state) : WEXITSTATUS(state);
}

bool is_kept() { return !environment(kKept).empty(); }

void end_with_keeper() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != std::atoi(environment(kKept).c_str())) _exit(1);
}

void tell_keeper(std::uint64_t iteration) {
  if (Progress* const progress = progress_of_keeper()) progress->iteration = iteration;
}

void tell_keeper_saved(std::uint64_t iteration) {
  if (Progress* const progress = progress_of_keeper()) progress->saved = iteration;
}

}  // namespace omni::ranks
