// With --survive a training is a sequence of rounds. In a round MPI starts anew among the ranks
// that are there, and they go on from the newest checkpoint. A round ends when a rank is lost, or
// when another process joins.
//
// Each rank is two processes: a keeper (keeper.hpp), which never calls MPI, and in each round
// another process that trains. The keeper that holds the lock of the run folder has the Leader,
// which decides who takes part, starts each round, and answers MPI's questions.
#pragma once

#include <chrono>
#include <filesystem>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "runtime/communicator/line_socket.hpp"
#include "runtime/communicator/process_board.hpp"

namespace omni::ranks {

struct LeaderOptions {
  std::filesystem::path folder;  // of the run
  int size = 0;                  // number of ranks before; 0: none trained before
  int expected = 1;              // ranks with which the first round begins
  double wait = 0;               // seconds for which they are awaited
  double patience = 0;
  int lost_code = 5, stopped_code = 75;  // exit codes
  std::string secret, command;           // `command` stands for the command line
};

// The words between a keeper and the Leader, which begin their lines.
namespace word {
inline constexpr const char *hello = "hello", *start = "start", *ask = "ask", *ended = "ended",
                            *kill = "kill", *rest = "rest", *stopped = "stopped", *end = "end",
                            *refuse = "refuse", *beat = "beat";
}

class Leader {
 public:
  Leader(LeaderOptions options, Door door);
  void run();  // to the end of the training

 private:
  using Clock = std::chrono::steady_clock;
  struct Keeper {
    LineSocket line;
    std::string address;
    std::string host{};
    int number =
        -1;         // its place among the ranks, the leader's is 0; negative: it has not said hello
    int rank = -1;  // in this round; negative: none
    std::optional<int> code{};  // how its process ended in this round; negative: by that signal
    int falls = 0;              // rounds in a row without a checkpoint that it has broken
    bool told_to_end = false;
    bool took_part = false;  // in a round
    bool is_new = false;     // its first round is under way, and is not the first of all
    Clock::time_point came = Clock::now();
    std::string name() const;
  };

  void hear(Keeper& from, const std::string& line);
  void has_ended(Keeper& keeper, int code, std::uint64_t iteration, std::uint64_t saved);
  void note(std::uint64_t iteration, std::uint64_t saved);
  void drop_closed();
  void look();  // decides what is next
  void start_round();
  void break_round(const Keeper& lost, const std::string& why);
  void end_processes();  // of this round; who does not obey is lost
  void conclude();
  // Ends the keepers that came for this round. Returns false if there are none.
  bool leave_out_new(int code);
  void end(int code);
  bool is_lost(int code) const { return code < 0 || code == options_.lost_code; }
  std::ptrdiff_t waiting() const;  // keepers that have said hello and may take part

  LeaderOptions options_;
  Door door_;
  std::list<Keeper> keepers_;
  std::optional<ProcessBoard> board_;          // none: no round is under way
  Clock::time_point until_;                    // of what is awaited in this phase
  std::optional<Clock::time_point> joined_{};  // when a further keeper said hello
  int round_ = 0;
  std::optional<int> first_code_{};  // of rank 0, in this round
  Clock::time_point beaten_;
  bool broken_ = false, resting_ = false, stopped_ = false;
  std::optional<int> final_{};
  std::uint64_t reached_ = 0, saved_ = 0, saved_before_ = 0, begun_at_ = 0;  // iterations
  int fruitless_ = 0;  // rounds in a row that were broken before a checkpoint
};

}  // namespace omni::ranks
