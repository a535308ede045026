// A Service runs the communicator's thread. The thread tests messages that are under way, and makes
// all ranks leave together. It sends every other rank a message, the beat, several times in the
// patience, whatever this rank computes or waits for. It ends the job if beats of another rank fail
// to come.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/communicator/ranks.hpp"
#include "runtime/communicator/transport.hpp"

namespace omni::ranks {

inline constexpr int kBeatTag = 6;

class Service {
 public:
  using Seconds = std::chrono::duration<double>;

  struct Options {
    int silent_code = 1;   // the exit code of the job if a rank is silent
    int stopped_code = 1;  // if a signal comes before there is something to save
    // True: the launcher passes on the exit code of an abort, but not the code with which ranks
    // exit by themselves.
    bool aborts = false;
    double patience = 300;  // seconds for which another rank may be silent
  };
  Service(OpenTransport open, const Options& options);  // returns when all ranks have begun

  int rank() const { return rank_; }
  int size() const { return size_; }
  void set_hosts(std::vector<std::string> hosts);
  const std::vector<std::string>& hosts() const { return hosts_; }
  void post(std::vector<Message> messages, std::function<void()> done);
  void watch_silence(std::function<void(bool silence)> watch);
  [[noreturn]] void leave(int code);

  std::atomic<double> patience;  // seconds
  std::atomic<std::uint64_t> iteration{0};
  std::atomic<int> gone{-1};  // the rank that has ended; -1: none

 private:
  struct Operation {
    std::size_t left = 0;  // messages under way
    std::function<void()> done;
    bool is_own = false;  // of the service itself; `done` may begin others
    int peer = 0;         // of the first message
    std::uint64_t number = 0;
    Seconds begun{0};
  };
  using Operations = std::list<Operation>;
  // A Notice is what a rank sends to the first rank when it leaves.
  struct Notice {
    int code = 0;
    std::array<char, 2000> text{};
  };
  // A Beat says that its sender lives.
  struct Beat {
    int waits_for = -1;   // the rank for which it has waited longer than the patience; -1: none
    bool leaves = false;  // its last beat: it waits for the first rank's permission to end
  };
  // Peer is what this rank knows of another one.
  struct Peer {
    Seconds heard{0};  // when its last beat came
    int waits_for = -1;
    bool leaves = false;
    bool is_sending = false;  // a beat to it is under way
    Beat in{}, out{};
  };
  struct Loss {
    std::string why;
    Seconds at;  // when this rank ends the job
  };

  void run();
  // The callers of the following functions hold mutex_, or are the only thread.
  void begin(const std::vector<Message>& messages, std::function<void()> done, bool is_own);
  void begin_own(void* data, std::size_t bytes, int peer, int tag, bool sends,
                 std::function<void()> done);
  void take_done(Operations& complete);  // calls `done` of the service's own operations
  void take_time();
  void await_notices();
  void hear(int peer);
  Seconds beat_interval() const;
  void send_beats();
  void look_for_silent();
  void look_for_stuck();
  void look_for_gone();
  void lose(const std::string& why);
  void look_for_notices();
  void leave_as_first();
  void leave_as_other();
  void tell_errors();
  [[noreturn]] void end_in_order(int code);
  [[noreturn]] void end(int code);

  int rank_ = 0, size_ = 1, silent_code_, stopped_code_;
  bool aborts_;
  std::vector<std::string> hosts_;
  // Only a thread that holds mutex_ calls the transport. The thread that posts starts the messages
  // itself: where workers compute on all cores, the service's thread may wait long until it runs.
  std::mutex mutex_;
  std::condition_variable changed_;
  Transport* transport_ = nullptr;
  Operations operations_, own_operations_;  // of post(), and of the service itself
  Operations empty_;                        // of post(), without messages
  std::uint64_t begun_ = 0;                 // number of operations
  std::vector<Operations::iterator> of_ticket_;
  bool fresh_ = false;          // true: operations have begun since the thread last looked
  std::optional<int> leaving_;  // the code given to leave(); none: not called yet
  Seconds now_{0};              // without pauses of this process, which are no silence of others
  std::chrono::steady_clock::time_point looked_at_;

  std::vector<Peer> peers_;  // by rank
  Seconds beaten_{0};        // when beats were last sent
  bool is_losing_ = false;
  std::optional<Loss> loss_;  // why this rank will end the job

  std::mutex watch_mutex_;
  std::function<void(bool)> watch_;

  std::vector<Notice> notices_;  // by rank; used by the first rank only
  // On the first rank, by rank: that rank's notice has not come yet. On other ranks, at 0: the
  // first rank's permission to leave has not come yet.
  std::vector<char> awaited_;
  int goodbyes_ = 0;  // permissions of the first rank that are under way
  int allowed_code_ = 0;
  Notice own_;
  std::string why_;  // why the job ends, if another rank is the cause; else ""
  bool told_errors_ = false;
  char go_ = 0;
  std::optional<Seconds> left_at_, failed_at_, gone_at_, allowed_at_;
};

}  // namespace omni::ranks
