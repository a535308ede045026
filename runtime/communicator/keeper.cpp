#include "runtime/communicator/keeper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <memory>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "runtime/communicator/leader.hpp"
#include "runtime/communicator/line_socket.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/communicator/worker.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/threads.hpp"

namespace omni::ranks {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr double kWaitAgain = 5;  // seconds for keepers that have lost their leader
constexpr int kGivesUp = 10;      // times the patience without a word of the leader

// What the file `leader` of the run folder says.
struct LeaderFile {
  bool ended = false;
  int code = 0;  // if it has ended
  std::string secret;
  int port = 0;
  std::vector<std::string> addresses;
};

int request_ends[2] = {-1, -1};  // a pipe, through which the handler sends numbers of signals

extern "C" void on_request(int number) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(number);
  (void)!::write(request_ends[1], &byte, 1);
  errno = error;
}

// From now on a request to stop is read from the pipe. Hydra sends SIGUSR1 when a rank is lost.
void hear_requests(bool to_hydra) {
  if (pipe2(request_ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  for (const int each : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction now {};
    sigaction(each, nullptr, &now);
    if (now.sa_handler != SIG_IGN)
      std::signal(each, each == SIGUSR1 && to_hydra ? SIG_IGN : on_request);
  }
}

// Returns a number that stands for the options of this command line.
std::string own_command() {
  std::vector<std::string> words = own_words();
  words.erase(words.begin());
  return fmt::format("{:016x}", std::hash<std::string>()(for_shell(words)));
}

class Keeper {
 public:
  explicit Keeper(const KeeperOptions& options) : options_(options) {}
  Result<int> run();

 private:
  bool find_leader();  // false: not yet
  Status try_to_lead();
  void greet();
  std::optional<int> serve();  // to the end of the training, or of the connection
  std::optional<int> obey(const std::string& line);
  void take_signals();
  void report_end();
  bool is_long(Clock::time_point since) const;
  int alone() const;
  LeaderFile read_leader() const;

  const KeeperOptions& options_;
  Launch launch_;
  int number_ = 0;
  int size_ = 0;  // of the last round; 0: there was none
  int round_ = 0;
  std::string secret_;  // of the training that this keeper belongs to; "": of none
  std::optional<LineSocket> line_;
  std::shared_ptr<std::promise<void>> leads_;  // null: another keeper leads
  Worker worker_;
  bool stopped_ = false, heard_ = false;  // heard_: the leader has said something
};

LeaderFile Keeper::read_leader() const {
  LeaderFile file;
  const Result<std::string> text =
      read_file(std::filesystem::path(options_.folder) / "leader", 1 << 16);
  if (!text) return file;
  std::istringstream words(*text);
  std::string first;
  words >> first >> file.secret;
  file.ended = first == "ended";
  words >> (file.ended ? file.code : file.port);
  for (std::string each; words >> each;) file.addresses.push_back(each);
  return file;
}

// Whoever holds the lock leads. The kernel, or the file system, releases it if the keeper dies.
Status Keeper::try_to_lead() {
  const auto failed = [this](const char* what) {
    return Error{ErrorKind::usage, options_.folder,
                 fmt::format("{}: {}", what, std::generic_category().message(errno)),
                 "--survive needs a run folder that can be written and locked"};
  };
  const auto path = std::filesystem::path(options_.folder) / "leader.lock";
  const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (lock < 0) return failed("cannot open leader.lock");
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const Error error = failed("cannot lock leader.lock");
    const bool is_held = errno == EWOULDBLOCK;
    close(lock);
    return is_held ? Status() : error;
  }
  if (const LeaderFile file = read_leader(); file.ended && file.secret == secret_) {
    close(lock);
    return {};
  }
  Door door;
  std::random_device random;
  if (secret_.empty()) secret_ = fmt::format("{:016x}", std::uint64_t{random()} << 32 | random());
  std::string text = fmt::format("leads {} {}", secret_, door.port());
  for (const std::string& each : own_addresses()) text += " " + each;
  const auto leader = std::filesystem::path(options_.folder) / "leader";
  Status written = write_file_atomically(leader, text + "\n");
  if (door.port() == 0) written = failed("cannot listen");
  if (!written) {
    close(lock);
    return written;
  }
  std::error_code ignored;  // others shall not read the secret
  std::filesystem::permissions(leader, std::filesystem::perms(0600), ignored);
  leads_ = std::make_shared<std::promise<void>>();
  const LeaderOptions leading{
      .folder = options_.folder,
      .size = size_,
      .expected = std::max(1, size_ > 0 ? size_ - 1 : launch_.tasks),
      .wait = size_ > 0 ? std::min(kWaitAgain, options_.patience) : options_.patience,
      .patience = options_.patience,
      .lost_code = options_.lost_code,
      .stopped_code = options_.stopped_code,
      .secret = secret_,
      .command = own_command()};
  start_thread([leading, leads = leads_, held = std::make_shared<Door>(std::move(door))]() mutable {
    Leader(leading, std::move(*held)).run();
    leads->set_value();
  });
  return {};
}

bool Keeper::find_leader() {
  const LeaderFile file = read_leader();
  if (file.ended || file.port == 0) return false;
  for (const std::string& each : file.addresses) {
    line_.emplace(connect_to(each, file.port, options_.patience));
    if (!line_->is_open()) continue;
    secret_ = file.secret;
    line_->say(fmt::format("{} {} {} {} {} {} {}", word::hello, secret_, own_command(),
                           leads_ ? 0 : number_ + 1, worker_.iteration(), worker_.saved(),
                           own_host()));
    if (stopped_) line_->say(word::stopped);
    return true;
  }
  line_.reset();
  return false;
}

void Keeper::take_signals() {
  for (unsigned char number = 0; ::read(request_ends[0], &number, 1) == 1;) {
    if (!std::exchange(stopped_, true) && line_) line_->say(word::stopped);
    worker_.signal(number);
  }
}

void Keeper::report_end() {
  const int code = worker_.wait();
  if (line_)
    line_->say(fmt::format("{} {} {} {} {}", word::ended, round_, code, worker_.iteration(),
                           worker_.saved()));
}

std::optional<int> Keeper::obey(const std::string& line) {
  std::istringstream words(line);
  std::string first;
  words >> first;
  if (first == word::ask) worker_.answer(line.substr(first.size() + 1));
  if (first == word::kill) worker_.signal(SIGKILL);
  if (first == word::rest) worker_.signal(SIGALRM);
  int rank = 0, on_node = 0, code = 0;
  if (first == word::end && words >> code) return code;
  if (first == word::refuse) {
    log::urgent(
        fmt::format("error: {}: a training with another command line runs there (wait for "
                    "it, or name another folder with --out)",
                    options_.folder));
    return options_.usage_code;
  }
  if (first == word::start && words >> round_ >> rank >> size_ >> on_node) {
    if (const Status started = worker_.start(rank, size_, on_node); !started) {
      log::error("{}", started.error().message());
      line_->say(fmt::format("{} {} {} 0 0", word::ended, round_, options_.lost_code));
    } else if (stopped_) {
      worker_.signal(SIGTERM);
    }
  }
  return std::nullopt;
}

std::optional<int> Keeper::serve() {
  auto heard = Clock::now();
  while (line_->is_open()) {
    std::vector<pollfd> all{{line_->number(), POLLIN, 0},
                            {request_ends[0], POLLIN, 0},
                            {worker_.ended(), POLLIN, 0},
                            {worker_.questions(), POLLIN, 0}};
    poll(all.data(), all.size(), 200);
    take_signals();
    if (all[3].revents != 0)
      for (const std::string& each : worker_.asked())
        line_->say(fmt::format("{} {}", word::ask, each));
    if (all[2].revents != 0) report_end();
    for (const std::string& each : line_->lines()) {
      heard = Clock::now();
      heard_ = true;
      if (const auto code = obey(each)) return code;
    }
    if (is_long(heard)) return alone();
  }
  return std::nullopt;
}

// A leader that stands still keeps its lock, so no other keeper can lead.
bool Keeper::is_long(Clock::time_point since) const {
  return Clock::now() - since > std::chrono::duration<double>(kGivesUp * options_.patience);
}

int Keeper::alone() const {
  log::urgent(fmt::format("error: --survive: {} has heard of no other rank for {:.0f} s",
                          own_host(), kGivesUp * options_.patience));
  return options_.lost_code;
}

Result<int> Keeper::run() {
  OMNI_TRY(launch_, read_launch([](const char* name) { return std::getenv(name); }));
  if (!worker_.has_progress())
    return Error{ErrorKind::out_of_memory, "--survive", "no memory for what ranks report", ""};
  const std::string place = environment("PMI_RANK");
  number_ = std::atoi((place.empty() ? environment("SLURM_PROCID") : place).c_str());
  std::error_code failure;
  std::filesystem::create_directories(options_.folder, failure);
  if (failure)
    return Error{ErrorKind::usage, options_.folder,
                 "cannot make the run folder: " + failure.message(),
                 "name a writable one with --out"};
  hear_requests(launch_.by_hydra);
  std::optional<int> code;
  auto since = Clock::now();
  while (!code) {
    const auto waited = Clock::now() - since;
    // The launcher's first rank leads if it can, so that it prints.
    if (!leads_ && waited > std::min(number_, 10) * 200ms) OMNI_CHECK(try_to_lead());
    if (find_leader()) {
      code = serve();
      line_.reset();
      if (worker_.runs()) {
        worker_.signal(SIGKILL);
        worker_.wait();
      }
      // What only accepts connections is no leader.
      if (std::exchange(heard_, false)) {
        since = Clock::now();
        continue;
      }
    }
    const LeaderFile file = read_leader();
    if (file.ended && file.secret == secret_) code = file.code;
    if (stopped_) code = options_.stopped_code;
    if (!code && is_long(since)) code = alone();
    pollfd requests{request_ends[0], POLLIN, 0};
    poll(&requests, 1, 100);
    take_signals();
  }
  if (!leads_) return *code;
  leads_->get_future().wait();
  // After a signal, hydra may forget the code with which processes end (4 of 12 times).
  const std::string word = fmt::format("cmd=abort exitcode={}\n", *code);
  if (launch_.by_hydra && *code != 0)
    (void)!::write(std::atoi(environment("PMI_FD").c_str()), word.data(), word.size());
  return *code;
}

}  // namespace

Result<int> keep_rank(const KeeperOptions& options) { return Keeper(options).run(); }

}  // namespace omni::ranks
