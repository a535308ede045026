// Messages under way, and the thread that tests them. It sleeps in between, ends the job if another
// rank stays silent, and makes all ranks leave together.
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

  // Returns when all ranks have begun. `silent_code`: what the job ends with when a rank is silent.
  // `aborts`: the launcher hands on the code of an abort, but not one that ranks exit with.
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
  // What a rank says when it leaves.
  struct Notice {
    int code = 0;
    std::array<char, 2000> text{};
  };

  void await_notices();
  void run();
  void begin(Operation& operation);
  bool advance(Operation& operation);  // true: it is done
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
  // Whoever holds it may call the transport. Who posts starts the messages at once: where workers
  // compute on all cores, the service's thread may wait long for its turn.
  std::mutex mutex_;
  std::condition_variable changed_;
  Transport* transport_ = nullptr;
  std::list<Operation> operations_;
  bool fresh_ = false;          // operations have begun since the thread last looked
  std::optional<int> leaving_;  // the code
  Seconds now_{0};              // a pause of this process is not the silence of others
  std::chrono::steady_clock::time_point looked_at_;

  std::mutex watch_mutex_;
  std::function<void(bool)> watch_;

  // Of the first rank, by rank: the notice to come. Of others: the first one's permission to go.
  std::vector<Notice> notices_;
  std::vector<Transport::Ticket> awaited_;
  std::vector<Transport::Ticket> goodbyes_;
  Notice own_;
  bool told_ = false;
  char go_ = 0;
  std::optional<Seconds> left_at_, failed_at_, gone_at_;
};

// A connection from every other rank to the first one, over which nothing is said. The kernel
// closes it when a process ends, however it ends: so a killed rank is known at once. Where none
// comes about, a killed rank is silent until the patience ends.
//
// Collective. Threads of their own, to the end of the process, call `gone` with the rank that
// ended.
void hold_lifelines(const std::function<void(int rank)>& gone);

}  // namespace omni::ranks
