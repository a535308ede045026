// A Service runs the communicator's thread. The thread tests messages that are under way, ends the
// job if another rank stays silent, and makes all ranks leave together.
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

class Service {
 public:
  using Seconds = std::chrono::duration<double>;

  // Returns when all ranks have begun. The job ends with `silent_code` if a rank is silent.
  // `aborts` means that the launcher passes on the exit code of an abort, but not the code with
  // which ranks exit by themselves.
  Service(OpenTransport open, int silent_code, bool aborts);

  int rank() const { return rank_; }
  int size() const { return size_; }
  void set_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }
  const std::vector<std::string>& hosts() const { return hosts_; }
  void post(std::vector<Message> messages, std::function<void()> done);
  void watch_silence(std::function<void(bool silence)> watch);
  [[noreturn]] void leave(int code);

  std::atomic<double> patience{300};  // seconds
  std::atomic<std::uint64_t> iteration{0};
  std::atomic<int> gone{-1};  // the rank that has ended; -1: none

 private:
  struct Operation {
    std::vector<Message> messages;
    std::vector<Transport::Ticket> tickets{};
    std::function<void()> done;
    Seconds begun{0};
  };
  // A Notice is what a rank sends to the first rank when it leaves.
  struct Notice {
    int code = 0;
    std::array<char, 2000> text{};
  };

  void await_notices();
  void run();
  void begin(Operation& operation);
  bool advance(Operation& operation);  // true: all its messages are done
  void take_time();
  void look_for_gone();
  [[noreturn]] void give_up(int rank, const std::string& what);
  [[noreturn]] void give_up_silent(std::ptrdiff_t rank);
  void look_for_notices();
  void leave_as_first();
  void leave_as_other();
  void tell_errors();
  [[noreturn]] void end_in_order(int code);
  [[noreturn]] void end(int code);

  int rank_ = 0, size_ = 1, silent_code_;
  bool aborts_;
  std::vector<std::string> hosts_;
  // Only a thread that holds mutex_ calls the transport. The thread that posts starts the messages
  // itself: where workers compute on all cores, the service's thread may wait long until it runs.
  std::mutex mutex_;
  std::condition_variable changed_;
  Transport* transport_ = nullptr;
  std::list<Operation> operations_;
  bool fresh_ = false;          // true: operations have begun since the thread last looked
  std::optional<int> leaving_;  // the code given to leave(); none: not called yet
  Seconds now_{0};              // without pauses of this process, which are no silence of others
  std::chrono::steady_clock::time_point looked_at_;

  std::mutex watch_mutex_;
  std::function<void(bool)> watch_;

  std::vector<Notice> notices_;  // by rank; used by the first rank only
  // On the first rank each ticket, by rank, is for receiving that rank's notice. On other ranks
  // ticket 0 is for receiving the first rank's permission to leave. Null: it has come.
  std::vector<Transport::Ticket> awaited_;
  std::vector<Transport::Ticket> goodbyes_;  // for sending: permissions, or the own notice
  Notice own_;
  std::string why_;  // why the job ends, if another rank is the cause; else ""
  bool told_errors_ = false;
  char go_ = 0;
  std::optional<Seconds> left_at_, failed_at_, gone_at_;
};

// Opens a connection (a "lifeline") from every other rank to the first one. The kernel closes it
// when a process ends in any way, so a killed rank is noticed at once. Without a connection a
// killed rank is noticed only when the patience ends.
//
// Collective. A thread calls `gone` with the rank that has ended.
void hold_lifelines(const std::function<void(int rank)>& gone);

}  // namespace omni::ranks
