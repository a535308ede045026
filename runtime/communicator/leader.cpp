#include "runtime/communicator/leader.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "runtime/log.hpp"

namespace omni::ranks {
namespace {

using namespace std::chrono_literals;

// A keeper that does not say for so long that its process has ended is lost.
constexpr auto kAnswer = 3s;
// Other processes may join in this time after the first of them, before a round ends for them.
constexpr auto kGather = 1s;
constexpr std::ptrdiff_t kMostSilent = 64;  // connections
constexpr int kMostFalls = 3, kMostFruitless = 10;

auto after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(seconds));
}

std::string how(int code) {
  return code < 0 ? fmt::format("was killed by signal {}", -code)
                  : fmt::format("ended with code {}", code);
}

}  // namespace

std::string Leader::Keeper::name() const {
  return rank >= 0 ? fmt::format("rank {} on {}", rank, host) : "a process on " + host;
}

Leader::Leader(LeaderOptions options, Door door)
    : options_(std::move(options)), door_(std::move(door)), until_(after(options_.wait)) {}

void Leader::run() {
  while (!final_ || (!keepers_.empty() && Clock::now() < until_)) {
    std::vector<pollfd> all{{door_.number(), POLLIN, 0}};
    for (const Keeper& each : keepers_) all.push_back({each.line.number(), POLLIN, 0});
    poll(all.data(), all.size(), 50);
    for (Keeper& each : keepers_)
      for (const std::string& line : each.line.lines()) hear(each, line);
    if (all.front().revents != 0) {
      std::string address;
      LineSocket line = door_.accept(options_.patience, address);
      keepers_.push_back({.line = std::move(line), .address = std::move(address)});
    }
    if (const auto now = Clock::now(); now - beaten_ > 1s) {
      beaten_ = now;
      for (Keeper& each : keepers_) each.line.say(word::beat);
    }
    drop_closed();
    if (!final_) look();
  }
}

void Leader::hear(Keeper& from, const std::string& line) {
  std::istringstream words(line);
  std::string first;
  words >> first;
  if (first == word::hello) {
    std::string secret, command;
    int number = -1;
    std::uint64_t iteration = 0, saved = 0;
    words >> secret >> command >> number >> iteration >> saved >> from.host;
    if (secret != options_.secret || number < 0) return from.line.close();
    if (command != options_.command) return from.line.say(word::refuse);
    note(iteration, saved);
    from.number = number;
    from.took_part = iteration > 0;
    if (final_) from.line.say(fmt::format("{} {}", word::end, *final_));
    if (board_ && !joined_) joined_ = Clock::now();
  } else if (from.number < 0) {
    from.line.close();  // another program
  } else if (first == word::ask) {
    if (board_ && from.rank >= 0)
      for (const auto& [rank, answer] : board_->ask(from.rank, line.substr(first.size() + 1)))
        for (Keeper& each : keepers_)
          if (each.rank == rank) each.line.say(fmt::format("{} {}", word::ask, answer));
  } else if (first == word::ended) {
    int round = 0, code = 0;
    std::uint64_t iteration = 0, saved = 0;
    if (words >> round >> code >> iteration >> saved && round == round_ && from.rank >= 0)
      has_ended(from, code, iteration, saved);
  } else if (first == word::stopped) {
    stopped_ = true;
    if (!board_ && !final_) end(options_.stopped_code);
  }
}

void Leader::has_ended(Keeper& keeper, int code, std::uint64_t iteration, std::uint64_t saved) {
  keeper.code = code;
  if (keeper.rank == 0) {
    first_code_ = code;
    // The training has ended, so the others' processes have to end, too.
    if (!is_lost(code) && !broken_) until_ = after(options_.patience);
  }
  note(iteration, saved);
  if (!is_lost(code) || broken_ || (first_code_ && !is_lost(*first_code_))) return;
  if (code < 0) ++keeper.falls;  // with the other code it has lost another rank
  break_round(keeper, how(code));
}

void Leader::note(std::uint64_t iteration, std::uint64_t saved) {
  reached_ = std::max(reached_, iteration);
  saved_ = std::max(saved_, saved);
}

// A connection is closed when a host or a keeper is lost.
void Leader::drop_closed() {
  for (const Keeper& each : keepers_)
    if (!each.line.is_open() && each.rank >= 0 && !each.code && !broken_ && !final_ &&
        !(first_code_ && !is_lost(*first_code_)))
      break_round(each, "is not there any more");
  // Whatever connects has to say who it is.
  std::ptrdiff_t silent =
      std::ranges::count_if(keepers_, [](const Keeper& each) { return each.number < 0; });
  for (Keeper& each : keepers_)
    if (each.number < 0 && (Clock::now() - each.came > 2s || silent-- > kMostSilent))
      each.line.close();
  std::erase_if(keepers_, [](const Keeper& each) { return !each.line.is_open(); });
}

std::ptrdiff_t Leader::waiting() const {
  return std::ranges::count_if(
      keepers_, [](const Keeper& each) { return each.number >= 0 && !each.told_to_end; });
}

void Leader::look() {
  const auto now = Clock::now();
  if (!board_) {
    if (waiting() >= options_.expected || (now > until_ && waiting() > 0)) start_round();
    return;
  }
  const auto runs = [](const Keeper& each) { return each.rank >= 0 && !each.code; };
  if (std::ranges::none_of(keepers_, runs)) return conclude();
  if (!broken_ && first_code_ && !is_lost(*first_code_) && now > until_) {
    end_processes();
  } else if (broken_ && now > until_) {
    for (Keeper& each : keepers_)
      if (runs(each)) each.line.close();
  } else if (joined_ && !broken_ && !resting_ && now - *joined_ > kGather) {
    resting_ = true;
    log::warn("--survive: the ranks save a checkpoint, then another process is taken in");
    for (Keeper& each : keepers_)
      if (runs(each)) each.line.say(word::rest);
  }
}

void Leader::start_round() {
  keepers_.sort([](const Keeper& one, const Keeper& other) { return one.number < other.number; });
  std::vector<std::string> nodes;
  std::vector<Keeper*> members;
  for (Keeper& each : keepers_)
    if (each.number >= 0 && !each.told_to_end) {
      members.push_back(&each);
      nodes.push_back(each.host + " " + each.address);
    }
  board_.emplace(nodes);
  ++round_;
  const auto size = static_cast<int>(members.size());
  if (options_.size > 0)
    log::warn("--survive: {} rank{} {} {}, from iteration {}", size, size == 1 ? "" : "s",
              size == options_.size ? "again after" : "instead of", options_.size, saved_);
  else if (size < options_.expected && round_ == 1)
    log::warn("--survive: {} of {} ranks have come", size, options_.expected);
  if (reached_ > saved_)
    log::warn("--survive: iterations {} to {} are lost, and trained again", saved_ + 1, reached_);
  reached_ = begun_at_ = saved_;
  for (Keeper* each : members)
    each->is_new = !std::exchange(each->took_part, true) && options_.size > 0;
  options_.size = size;
  broken_ = resting_ = false;
  joined_.reset();
  first_code_.reset();
  for (int rank = 0; rank < size; ++rank) {
    members[rank]->rank = rank;
    members[rank]->code.reset();
    members[rank]->line.say(fmt::format("{} {} {} {} {}", word::start, round_, rank, size,
                                        std::ranges::count(nodes, nodes[rank])));
  }
}

void Leader::break_round(const Keeper& lost, const std::string& why) {
  log::warn("--survive: {} {}", lost.name(), why);
  end_processes();
}

void Leader::end_processes() {
  broken_ = true;
  until_ = Clock::now() + kAnswer;
  for (Keeper& each : keepers_)
    if (each.rank >= 0 && !each.code) each.line.say(word::kill);
}

void Leader::conclude() {
  const int code = first_code_.value_or(options_.lost_code);
  board_.reset();
  for (Keeper& each : keepers_) each.rank = -1;
  const bool rests = resting_ && code == options_.stopped_code && !stopped_;
  const bool failed = !is_lost(code) && code != 0 && code != options_.stopped_code;
  if (failed && reached_ == begun_at_ && leave_out_new(code)) {
    until_ = Clock::now();
    return;
  }
  if (!is_lost(code) && !rests) return end(code);
  if (saved_ > std::exchange(saved_before_, saved_) || rests) {
    fruitless_ = 0;
    for (Keeper& each : keepers_) each.falls = 0;
  } else if (++fruitless_ == kMostFruitless) {
    log::error("--survive: {} starts in a row have saved no checkpoint", kMostFruitless);
    return end(options_.lost_code);
  }
  if (stopped_) return end(is_lost(code) ? options_.stopped_code : code);
  for (Keeper& each : keepers_)
    if (each.falls >= kMostFalls && waiting() > 1) {
      log::warn("--survive: a process on {} has broken {} starts in a row, and is left out",
                each.host, kMostFalls);
      each.told_to_end = true;
      each.line.say(fmt::format("{} {}", word::end, options_.lost_code));
    }
  options_.expected = 1;
  until_ = Clock::now();
}

bool Leader::leave_out_new(int code) {
  const auto is_old = [](const Keeper& each) {
    return each.took_part && !each.is_new && !each.told_to_end;
  };
  if (std::ranges::none_of(keepers_, is_old)) return false;
  bool some = false;
  for (Keeper& each : keepers_) {
    if (!std::exchange(each.is_new, false) || each.told_to_end) continue;
    log::warn("--survive: with the process on {} the training cannot go on, so it is left out",
              each.host);
    each.told_to_end = some = true;
    each.line.say(fmt::format("{} {}", word::end, code));
  }
  options_.expected = 1;
  return some;
}

void Leader::end(int code) {
  final_ = code;
  until_ = after(5);
  for (Keeper& each : keepers_) each.line.say(fmt::format("{} {}", word::end, code));
  (void)write_file_atomically(options_.folder / "leader",
                              fmt::format("ended {} {}\n", options_.secret, code));
}

}  // namespace omni::ranks
