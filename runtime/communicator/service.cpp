#include "runtime/communicator/service.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "runtime/farewell.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/threads.hpp"

namespace omni::ranks {
namespace {

using namespace std::chrono_literals;

constexpr int kNotice = 1, kGo = 2;  // tags
// After a failure the first rank waits kGrace for others, which may report the same error. Another
// rank that has failed waits kLongGrace for the first.
constexpr Service::Seconds kGrace = 3s, kLongGrace = 8s;
// The service's thread pauses between two tests of messages. The pause is kNap while messages get
// done, kLongNap when none got done for kLively, and kIdle when none is under way.
constexpr std::chrono::microseconds kNap = 50us, kLongNap = 1ms, kIdle = 100ms;
constexpr Service::Seconds kLively = 20ms;

// Hydra treats a rank that exits without PMI's `finalize` as failed, and kills the others.
// MPI_Finalize, which sends it, may hang (mpi_transport.cpp).
void say_finalize() {
  const char* line = std::getenv("PMI_FD");
  constexpr std::string_view kWord = "cmd=finalize\n";
  char answer[256];
  if (line != nullptr && ::write(std::atoi(line), kWord.data(), kWord.size()) > 0)
    (void)!::read(std::atoi(line), answer, sizeof answer);
}

// Both ends of a lifeline (see hold_lifelines()) first send a Greeting. Other programs that connect
// do not know the secret.
struct Greeting {
  std::uint64_t secret = 0;
  int rank = 0;
};

void limit_waiting(int line, long seconds) {  // 0: no limit
  const timeval limit{seconds, 0};
  setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(line, SOL_SOCKET, SO_SNDTIMEO, &limit,
             sizeof limit);  // it is the timeout of connect(), too
}

bool says(int line, const Greeting& own) {
  return send(line, &own, sizeof own, MSG_NOSIGNAL) == sizeof own;
}
Greeting heard(int line) {
  Greeting all;
  return recv(line, &all, sizeof all, MSG_WAITALL) == sizeof all ? all : Greeting();
}

// On the first rank: accepts the connections of other ranks, and calls gone() when one is closed.
void hold_first(int door, std::uint64_t secret, const std::function<void(int)>& gone) {
  std::vector<pollfd> lines{{door, POLLIN, 0}};
  std::vector<int> ranks{0};
  while (poll(lines.data(), lines.size(), -1) > 0 || errno == EINTR) {
    for (std::size_t i = 1; i < lines.size(); ++i)
      if (lines[i].revents != 0) {
        lines[i].fd = -1;  // poll() skips negative descriptors
        gone(ranks[i]);
      }
    if (lines[0].revents == 0) continue;
    const int line = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
    limit_waiting(line, 1);
    const Greeting other = heard(line);
    if (other.secret != secret || other.rank <= 0 || other.rank >= place_in_job().size ||
        !says(line, other)) {
      close(line);
      continue;
    }
    lines.push_back({line, POLLIN, 0});
    ranks.push_back(other.rank);
  }
}

// On another rank: connects to the first rank, and calls gone() when the connection is closed.
void hold_other(const std::string& host, const std::string& port, std::uint64_t secret,
                const std::function<void(int)>& gone) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), port.c_str(), &wanted, &found) != 0) return;
  const int line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  limit_waiting(line, 10);
  char nothing = 0;
  const bool held = connect(line, found->ai_addr, found->ai_addrlen) == 0 &&
                    says(line, {secret, place_in_job().rank}) && heard(line).secret == secret;
  limit_waiting(line, 0);
  if (held && recv(line, &nothing, 1, 0) <= 0) gone(0);
}

}  // namespace

Service::Service(OpenTransport open, int silent_code, bool aborts)
    : silent_code_(silent_code), aborts_(aborts), looked_at_(std::chrono::steady_clock::now()) {
  const auto begun = std::make_shared<std::promise<void>>();
  // With several ranks this thread lives to the end of the process.
  start_thread([this, open, begun] {
    transport_ = open();
    rank_ = transport_->rank();
    size_ = transport_->size();
    await_notices();
    begun->set_value();
    if (size_ > 1) run();
  });
  if (begun->get_future().wait_for(Seconds(patience)) == std::future_status::timeout) {
    log::error("the other ranks have not started within {:.0f} s", patience.load());
    _exit(silent_code_);
  }
}

void Service::post(std::vector<Message> messages, std::function<void()> done) {
  Operation operation{.messages = {}, .done = std::move(done)};
  for (const Message& message : messages)
    for (std::size_t at = 0; at == 0 || at < message.bytes; at += Transport::kMostBytes)
      operation.messages.push_back({static_cast<char*>(message.data) + at,
                                    std::min(Transport::kMostBytes, message.bytes - at),
                                    message.peer, message.tag, message.sends});
  const std::lock_guard lock(mutex_);
  begin(operations_.emplace_back(std::move(operation)));
  changed_.notify_one();
}

void Service::watch_silence(std::function<void(bool)> watch) {
  const std::lock_guard lock(watch_mutex_);
  if (watch_) watch_(false);
  watch_ = std::move(watch);
}

void Service::leave(int code) {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = code;
    changed_.notify_one();
  }
  while (true) ::pause();
}

void Service::await_notices() {
  const auto ranks = static_cast<std::size_t>(size_);
  awaited_.resize(ranks);
  goodbyes_.resize(ranks);
  notices_.resize(ranks);
  if (rank_ > 0) awaited_[0] = transport_->receive(&go_, 1, 0, kGo);
  for (int peer = 1; rank_ == 0 && peer < size_; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    awaited_[at] = transport_->receive(&notices_[at], sizeof(Notice), peer, kNotice);
  }
}

void Service::run() {
  prctl(PR_SET_TIMERSLACK, 1000UL);
  // With SCHED_BATCH this thread does not interrupt a worker that computes on its core. A worker
  // that waits yields the core.
  const sched_param priority{};
  sched_setscheduler(0, SCHED_BATCH, &priority);
  Seconds lively_until{0};
  while (true) {
    std::list<Operation> complete;
    bool progress, awaits, leaves;
    {
      std::unique_lock lock(mutex_);
      if (operations_.empty() && !leaving_) changed_.wait_for(lock, kIdle);
      take_time();
      progress = std::exchange(fresh_, false);
      for (auto next = operations_.begin(); next != operations_.end();) {
        const auto each = next++;
        const std::size_t before = each->tickets.size();
        if (advance(*each))
          complete.splice(complete.end(), operations_, each);
        else if (now_ - each->begun > Seconds(patience))
          give_up_silent(each->messages.front().peer);
        progress = progress || each->tickets.size() != before;
      }
      look_for_notices();
      look_for_gone();
      awaits = !operations_.empty();
      leaves = leaving_.has_value();
    }
    for (const Operation& each : complete) each.done();  // it may post messages
    if (progress) lively_until = now_ + kLively;
    {
      const std::lock_guard lock(watch_mutex_);
      if (watch_) watch_(awaits && now_ > lively_until);
    }
    if (!progress && (awaits || leaves))
      std::this_thread::sleep_for(now_ < lively_until ? kNap : kLongNap);
  }
}

void Service::take_time() {
  const auto before = std::exchange(looked_at_, std::chrono::steady_clock::now());
  now_ += std::min<Seconds>(looked_at_ - before, 1s);
}

void Service::begin(Operation& operation) {
  operation.begun = now_;
  fresh_ = true;
  for (const Message& each : operation.messages)
    operation.tickets.push_back(
        each.sends ? transport_->send(each.data, each.bytes, each.peer, each.tag)
                   : transport_->receive(each.data, each.bytes, each.peer, each.tag));
}

// Tests which messages are done. Those that remain keep their order, and so do their tickets.
bool Service::advance(Operation& operation) {
  std::size_t left = 0;
  for (std::size_t i = 0; i < operation.tickets.size(); ++i) {
    if (transport_->done(operation.tickets[i])) continue;
    operation.tickets[left] = operation.tickets[i];
    operation.messages[left++] = operation.messages[i];
  }
  operation.tickets.resize(left);
  operation.messages.resize(left);
  return left == 0;
}

// Before a rank ends in order, it has sent the first rank a notice, or the first rank has allowed
// all others to go. If a rank ended without that, this rank gives up.
void Service::look_for_gone() {
  const bool failed = left_at_ && own_.code != 0;
  if (gone < 0 || failed || awaited_[rank_ == 0 ? static_cast<std::size_t>(gone) : 0] == nullptr)
    return;
  if (!gone_at_) gone_at_ = now_;
  if (now_ - *gone_at_ > 1s) give_up(gone, "has ended");
}

// The lowest remaining rank gives up first: it prints the error, and ends the other ranks.
void Service::give_up(int rank, const std::string& what) {
  std::this_thread::sleep_for(rank_ * 2s);
  why_ = fmt::format("{} {}", name(rank), what);
  log::urgent(
      fmt::format("error: {}; the last iteration here was {} (--patience sets how long "
                  "one may be silent; --resume auto goes on from the last checkpoint)",
                  why_, iteration.load()));
  end(silent_code_);
}

void Service::give_up_silent(std::ptrdiff_t rank) {
  give_up(static_cast<int>(rank), fmt::format("has been silent for {:.0f} s", patience.load()));
}

void Service::look_for_notices() {
  for (Transport::Ticket& each : awaited_)
    if (each != nullptr) transport_->done(each);
  if (leaving_ && !left_at_) {
    left_at_ = now_;
    own_.code = *leaving_;
    own_.text[log::last_error().copy(own_.text.data(), own_.text.size() - 1)] = 0;
  }
  rank_ == 0 ? leave_as_first() : leave_as_other();
}

void Service::leave_as_other() {
  if (!left_at_) return;
  if (!std::exchange(told_errors_, true)) {
    std::fflush(nullptr);
    goodbyes_[0] = transport_->send(&own_, sizeof own_, 0, kNotice);
  }
  transport_->done(goodbyes_[0]);
  if (awaited_[0] == nullptr) end_in_order(own_.code);
  if (own_.code == 0 && now_ - *left_at_ > Seconds(patience)) give_up_silent(0);
  if (own_.code != 0 && now_ - *left_at_ > kLongGrace) {
    log::urgent("error: " + log::last_error());
    end(own_.code);
  }
}

void Service::leave_as_first() {
  bool all = true;
  int code = left_at_ ? own_.code : 0;
  for (std::size_t peer = 1; peer < awaited_.size(); ++peer) {
    if (awaited_[peer] != nullptr)
      all = false;
    else if (code == 0)
      code = notices_[peer].code;
  }
  if (code != 0 && !failed_at_) failed_at_ = now_;
  if (left_at_ && all) {
    tell_errors();
    if (code != 0 && aborts_) end(code);
    for (int peer = 1; peer < size_; ++peer)
      goodbyes_[static_cast<std::size_t>(peer)] = transport_->send(&go_, 1, peer, kGo);
    while (!std::ranges::all_of(goodbyes_, [&](auto& each) { return transport_->done(each); }))
      std::this_thread::sleep_for(kNap);
    end_in_order(code);
  }
  if (failed_at_ && now_ - *failed_at_ > kGrace) {
    tell_errors();
    end(code);
  }
  if (left_at_ && now_ - *left_at_ > Seconds(patience))
    give_up_silent(std::ranges::find_if(awaited_, std::identity()) - awaited_.begin());
}

void Service::tell_errors() {
  std::vector<std::string> said{left_at_ ? own_.text.data() : ""};
  for (std::size_t peer = 1; peer < notices_.size(); ++peer) {
    const std::string text = notices_[peer].text.data();
    if (awaited_[peer] != nullptr || notices_[peer].code == 0 ||
        std::ranges::find(said, text) != said.end())
      continue;
    said.push_back(text);
    why_ = fmt::format("{}: {}", name(static_cast<int>(peer)), text);
    log::urgent(fmt::format("error: {}, after iteration {}: {}", name(static_cast<int>(peer)),
                            iteration.load(), text));
  }
}

void Service::end_in_order(int code) {
  say_farewell(why_.empty() ? log::last_error() : why_);
  std::fflush(nullptr);
  if (aborts_) say_finalize();
  _exit(code);
}

void Service::end(int code) {
  say_farewell(why_.empty() ? log::last_error() : why_);
  std::fflush(nullptr);
  // The abort below waits for the launcher, whose connection may be lost.
  try {
    start_thread([code] {
      std::this_thread::sleep_for(kGrace);
      _exit(code);
    });
  } catch (const std::exception&) {
    _exit(code);
  }
  // When a rank aborts, the launcher drops output that it has not read yet.
  int looks = 0, unread = 0;
  while (++looks < 100 && ioctl(STDERR_FILENO, FIONREAD, &unread) == 0 && unread > 0)
    std::this_thread::sleep_for(10ms);
  transport_->abort(code);
  _exit(code);
}

void hold_lifelines(const std::function<void(int)>& gone) {
  std::random_device random;
  std::uint64_t secret = (std::uint64_t{random()} << 32 | random()) | 1;
  sockaddr_in place{};
  place.sin_family = AF_INET;
  socklen_t length = sizeof place;
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  const int door = first() ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  const bool open = door >= 0 && bind(door, address, length) == 0 && listen(door, SOMAXCONN) == 0 &&
                    getsockname(door, address, &length) == 0;
  const std::string host = gather(own_host()).front(),
                    port = gather(std::to_string(ntohs(place.sin_port))).front();
  secret = std::stoull(gather(std::to_string(secret)).front());
  if (open) start_thread([=] { hold_first(door, secret, gone); });
  if (!first()) start_thread([=] { hold_other(host, port, secret, gone); });
}

}  // namespace omni::ranks
