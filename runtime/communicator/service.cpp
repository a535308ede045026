#include "runtime/communicator/service.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "runtime/farewell.hpp"
#include "runtime/log.hpp"
#include "runtime/signals.hpp"
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
constexpr double kBeats = 8;             // in the patience, at least
constexpr Service::Seconds kPause = 1s;  // between two beats, at most
// If messages do not arrive for so many times the patience, the job ends although all ranks live.
constexpr double kStuck = 10;
// Of several ranks that give up, the lowest one does so first. The others follow after this time.
constexpr Service::Seconds kNextGivesUp = 2s, kLastGivesUp = 10s;

// Hydra treats a rank that exits without PMI's `finalize` as failed, and kills the others.
// MPI_Finalize, which sends it, may hang (mpi_transport.cpp).
void say_finalize() {
  const char* line = std::getenv("PMI_FD");
  constexpr std::string_view kWord = "cmd=finalize\n";
  char answer[256];
  if (line == nullptr || ::write(std::atoi(line), kWord.data(), kWord.size()) < 0) return;
  pollfd answers{std::atoi(line), POLLIN, 0};
  if (poll(&answers, 1, 1000) > 0) (void)!::read(answers.fd, answer, sizeof answer);
}

}  // namespace

Service::Service(OpenTransport open, const Options& options)
    : patience(options.patience),
      silent_code_(options.silent_code),
      stopped_code_(options.stopped_code),
      aborts_(options.aborts),
      looked_at_(std::chrono::steady_clock::now()) {
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

void Service::set_hosts(std::vector<std::string> hosts) {
  const std::lock_guard lock(mutex_);
  hosts_ = std::move(hosts);
}

void Service::post(std::vector<Message> messages, std::function<void()> done) {
  const std::lock_guard lock(mutex_);
  begin(messages, std::move(done), false);
  fresh_ = true;
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
  notices_.resize(ranks);
  peers_.resize(ranks);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    hear(peer);
    char& awaited = awaited_[static_cast<std::size_t>(peer)];
    const auto come = [&awaited] { awaited = 0; };
    awaited = rank_ == 0 || peer == 0 ? 1 : 0;
    if (rank_ == 0)
      begin_own(&notices_[static_cast<std::size_t>(peer)], sizeof(Notice), peer, kNotice, false,
                come);
    else if (peer == 0)
      begin_own(&go_, 1, 0, kGo, false, come);
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
    Operations complete;
    bool progress, awaits, leaves;
    {
      std::unique_lock lock(mutex_);
      if (operations_.empty() && empty_.empty() && !leaving_) changed_.wait_for(lock, kIdle);
      take_time();
      take_done(complete);
      progress = std::exchange(fresh_, false) || !complete.empty();
      awaits = !operations_.empty();
      leaves = leaving_.has_value();
    }
    for (const Operation& each : complete) each.done();  // it may post messages
    {
      const std::lock_guard lock(mutex_);
      send_beats();
      look_for_silent();
      look_for_stuck();
      look_for_notices();
      look_for_gone();
      if (!std::exchange(is_losing_, false)) loss_.reset();
    }
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
  now_ += std::min<Seconds>(looked_at_ - before, beat_interval());
}

void Service::begin(const std::vector<Message>& messages, std::function<void()> done, bool is_own) {
  Operations& into = is_own ? own_operations_ : messages.empty() ? empty_ : operations_;
  into.push_back({.done = std::move(done),
                  .is_own = is_own,
                  .peer = messages.empty() ? rank_ : messages.front().peer,
                  .number = begun_++,
                  .begun = now_});
  const auto operation = std::prev(into.end());
  for (const Message& message : messages)
    for (std::size_t at = 0; at == 0 || at < message.bytes; at += Transport::kMostBytes) {
      char* const data = static_cast<char*>(message.data) + at;
      const std::size_t bytes = std::min(Transport::kMostBytes, message.bytes - at);
      const Transport::Ticket ticket =
          message.sends ? transport_->send(data, bytes, message.peer, message.tag)
                        : transport_->receive(data, bytes, message.peer, message.tag);
      if (ticket >= of_ticket_.size()) of_ticket_.resize(ticket + 1);
      of_ticket_[ticket] = operation;
      ++operation->left;
    }
}

void Service::begin_own(void* data, std::size_t bytes, int peer, int tag, bool sends,
                        std::function<void()> done) {
  begin({{data, bytes, peer, tag, sends}}, std::move(done), true);
}

void Service::take_done(Operations& complete) {
  Operations own;
  for (const Transport::Ticket ticket : transport_->take_done()) {
    const auto operation = of_ticket_[ticket];
    if (--operation->left > 0) continue;
    operation->is_own ? own.splice(own.end(), own_operations_, operation)
                      : complete.splice(complete.end(), operations_, operation);
  }
  complete.splice(complete.end(), empty_);
  complete.sort(
      [](const Operation& one, const Operation& other) { return one.number < other.number; });
  for (const Operation& each : own) each.done();
}

void Service::hear(int peer) {
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  begin_own(&from.in, sizeof(Beat), peer, kBeatTag, false, [this, peer, &from] {
    from.heard = now_;
    from.waits_for = from.in.waits_for;
    from.leaves = from.in.leaves;
    hear(peer);
  });
}

Service::Seconds Service::beat_interval() const {
  return std::min<Seconds>(kPause, Seconds(patience / kBeats));
}

void Service::send_beats() {
  if (now_ - beaten_ < beat_interval()) return;
  beaten_ = now_;
  const bool waits = !operations_.empty() && now_ - operations_.front().begun > Seconds(patience);
  for (int peer = 0; peer < size_; ++peer) {
    Peer& to = peers_[static_cast<std::size_t>(peer)];
    if (peer == rank_ || to.is_sending || to.out.leaves) continue;
    to.is_sending = true;
    // A rank that leaves soon ends. Until then only the first rank and it watch each other.
    to.out = {waits ? operations_.front().peer : -1, left_at_ && rank_ > 0 && peer > 0};
    begin_own(&to.out, sizeof(Beat), peer, kBeatTag, true, [&to] { to.is_sending = false; });
  }
}

// The beats of several ranks that are cut off together end within a few intervals. If those of all
// other ranks end, it is this rank that is cut off.
void Service::look_for_silent() {
  const auto silent_for = [this](Seconds time) {
    std::vector<int> silent;
    for (int peer = 0; peer < size_; ++peer) {
      const Peer& each = peers_[static_cast<std::size_t>(peer)];
      const bool beats = peer != rank_ && !each.leaves && !(left_at_ && rank_ > 0 && peer > 0);
      if (beats && now_ - each.heard > time) silent.push_back(peer);
    }
    return silent;
  };
  const Seconds most(patience);
  if (silent_for(most).empty()) return;
  const std::vector<int> silent = silent_for(most - 3 * beat_interval());
  std::string who = name_in_job(silent.front());
  for (std::size_t i = 1; i < silent.size(); ++i) who += ", " + name_in_job(silent[i]);
  if (std::ssize(silent) == size_ - 1 && size_ > 2)
    who = fmt::format("{} is cut off from all other ranks:", name_in_job(rank_));
  lose(fmt::format("{} silent for {:.0f} s", silent.size() == 1 ? who + " has been" : who,
                   most.count()));
}

// Names the rank at the end of the chain of ranks that wait for each other.
void Service::look_for_stuck() {
  const Seconds most(kStuck * patience);
  if (operations_.empty() || now_ - operations_.front().begun <= most) return;
  int rank = operations_.front().peer;
  for (int steps = 0; steps < size_; ++steps) {
    const int next = peers_[static_cast<std::size_t>(rank)].waits_for;
    if (next < 0 || next == rank_) break;
    rank = next;
  }
  lose(fmt::format("{} lives, but has not answered for {:.0f} s", name_in_job(rank), most.count()));
}

// Before a rank ends in order, it has sent the first rank a notice, or the first rank has allowed
// all others to go. If a rank ended without that, this rank gives up.
void Service::look_for_gone() {
  if (gone < 0 || awaited_[rank_ == 0 ? static_cast<std::size_t>(gone) : 0] == 0) return;
  if (!gone_at_) gone_at_ = now_;
  if (now_ - *gone_at_ > 1s) lose(name_in_job(gone) + " has ended");
}

// The lowest remaining rank gives up first: it prints the error, and ends the other ranks. While
// this rank waits for lower ones, it still sends beats.
void Service::lose(const std::string& why) {
  const bool fails = left_at_ && own_.code != 0;
  if (fails || allowed_at_) return;
  is_losing_ = true;
  if (!loss_) loss_ = {why, now_ + std::min(rank_ * kNextGivesUp, kLastGivesUp)};
  if (now_ < loss_->at) return;
  why_ = loss_->why;
  log::urgent(
      fmt::format("error: {}; the last iteration here was {} (--patience sets how long "
                  "one may be silent; --resume auto goes on from the last checkpoint)",
                  why_, iteration.load()));
  end(silent_code_);
}

void Service::look_for_notices() {
  if (!leaving_ && end_requested()) leaving_ = stopped_code_;
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
    beaten_ = -beat_interval();
    send_beats();
    begin_own(&own_, sizeof own_, 0, kNotice, true, [] {});
  }
  if (awaited_[0] == 0) end_in_order(own_.code);
  if (own_.code != 0 && now_ - *left_at_ > kLongGrace) {
    log::urgent("error: " + log::last_error());
    end(own_.code);
  }
}

void Service::leave_as_first() {
  if (allowed_at_) {
    if (goodbyes_ == 0 || now_ - *allowed_at_ > kGrace) end_in_order(allowed_code_);
    return;
  }
  bool all = true;
  int code = left_at_ ? own_.code : 0;
  for (std::size_t peer = 1; peer < awaited_.size(); ++peer) {
    if (awaited_[peer] != 0)
      all = false;
    else if (code == 0)
      code = notices_[peer].code;
  }
  if (code != 0 && !failed_at_) failed_at_ = now_;
  if (left_at_ && all) {
    tell_errors();
    if (code != 0 && aborts_) end(code);
    allowed_at_ = now_;
    allowed_code_ = code;
    for (int peer = 1; peer < size_; ++peer) {
      ++goodbyes_;
      begin_own(&go_, 1, peer, kGo, true, [this] { --goodbyes_; });
    }
    return;
  }
  if (failed_at_ && now_ - *failed_at_ > kGrace) {
    tell_errors();
    end(code);
  }
  if (left_at_ && now_ - *left_at_ > Seconds(patience)) {
    const auto late = std::ranges::find(awaited_, 1) - awaited_.begin();
    lose(fmt::format("{} has not ended for {:.0f} s", name_in_job(static_cast<int>(late)),
                     patience.load()));
  }
}

void Service::tell_errors() {
  std::vector<std::string> said{left_at_ ? own_.text.data() : ""};
  for (std::size_t peer = 1; peer < notices_.size(); ++peer) {
    const std::string text = notices_[peer].text.data();
    if (awaited_[peer] != 0 || notices_[peer].code == 0 ||
        std::ranges::find(said, text) != said.end())
      continue;
    said.push_back(text);
    why_ = fmt::format("{}: {}", name_in_job(static_cast<int>(peer)), text);
    log::urgent(fmt::format("error: {}, after iteration {}: {}",
                            name_in_job(static_cast<int>(peer)), iteration.load(), text));
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

}  // namespace omni::ranks
