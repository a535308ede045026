// A Worker is the process that trains in a round of --survive (leader.hpp). A keeper starts it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/communicator/line_socket.hpp"
#include "runtime/files.hpp"
#include "runtime/result.hpp"

namespace omni::ranks {

struct Progress;

class Worker {
 public:
  Worker();
  // The process has the options of this one. It finds `on_node` ranks on its node, with itself.
  Status start(int rank, int size, int on_node);
  bool runs() const { return process_ > 0; }
  int ended() const { return end_; }  // for poll(): readable when the process has ended
  int questions() const {             // for poll(): readable when MPI has asked something
    return questions_ ? questions_->number() : -1;
  }
  std::vector<std::string> asked() { return questions_->lines(); }
  void answer(const std::string& line) {
    if (questions_) questions_->say(line);
  }
  void signal(int number) const {
    if (runs()) kill(process_, number);
  }
  int wait();  // returns the exit code, or the negative number of a signal
  // What the last process has told, also after a kill.
  std::uint64_t iteration() const;
  std::uint64_t saved() const;
  bool has_progress() const { return progress_ != nullptr; }

 private:
  Descriptor shared_;
  Progress* progress_ = nullptr;
  pid_t process_ = 0;
  int end_ = -1;  // a descriptor; negative: no process runs
  std::optional<LineSocket> questions_;
};

}  // namespace omni::ranks
