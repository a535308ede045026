// omni-run compare trains with every strategy and every seed, one training after another.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "apps/command_line.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/compare/record.hpp"
#include "apps/omni-run/progress.hpp"
#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/own_command.hpp"
#include "runtime/result.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/signals.hpp"
#include "scheduling/training/stopwatch.hpp"

namespace omni {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr int kNotStarted = 127;

// This runs in the forked child, so it only calls async-signal-safe functions. posix_spawn() cannot
// ask for a signal on the parent's death.
[[noreturn]] void become(char* const* words, int log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kNotStarted);
  const int input = open("/dev/null", O_RDONLY);
  for (const auto& [from, to] : {std::pair(input, 0), std::pair(log, 1), std::pair(log, 2)})
    if (dup2(from, to) < 0) _exit(kNotStarted);
  execv("/proc/self/exe", words);
  _exit(kNotStarted);
}

// Runs this program with other words and waits for its end. Its output goes into the file `log`. A
// stop request to this process is passed on; if this process dies, the child gets SIGTERM. Returns
// the exit code, or 128 + the number of the signal that ended the child.
Result<int> run_child(std::vector<std::string> words, const std::filesystem::path& log) {
  const auto failed = [](const std::string& where) {
    return Error{ErrorKind::failed, where, std::strerror(errno), ""};
  };
  words.insert(words.begin(), own_words().front());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return failed(log.string());
  const pid_t parent = getpid(), child = fork();
  if (child == 0) become(pointers.data(), file, parent);
  close(file);
  if (child < 0) return failed("a new process");
  bool passed_on = false;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (ended < 0 && errno != EINTR) return failed("a training");
    if (stop_requested() && !passed_on) {
      kill(child, SIGTERM);
      passed_on = true;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using perf::Outcome;

bool names(const std::string& word, std::string_view option) {
  return word == option || (word.starts_with(option) && word[option.size()] == '=');
}

bool has_option(const Words& words, std::string_view option) {
  return std::ranges::any_of(words, [&](const auto& word) { return names(word, option); });
}

Status check_options(const Words& options) {
  constexpr std::array kOwn{"--net",          "--data",    "--classes", "--seed", "--epochs",
                            "--arrivals",     "--machine", "--metrics", "--out",  "--resume",
                            "--strategy",     "--groups",  "--auto",    "--json", "--trace",
                            "--save-weights", "--no-test", "--dry-run"};
  if (!options.empty() && !options.front().starts_with('-'))
    return Error{ErrorKind::usage, "", "unexpected argument " + shown_name(options.front()),
                 "options of every training come after --"};
  for (const char* own : kOwn)
    if (has_option(options, own))
      return Error{ErrorKind::usage, own, "is not for every training",
                   "compare sets it itself, or takes it before --"};
  return {};
}

Words words_of_training(const CompareArguments& arguments, const NamedStrategy& strategy, int seed,
                        const std::string& name, const ComparisonRecord& record) {
  Words words{"--net",     arguments.net,
              "--data",    arguments.data,
              "--seed",    std::to_string(seed),
              "--metrics", record.path(name + ".jsonl"),
              "--out",     record.path("runs") / name,
              "--resume",  "auto"};
  for (const auto& [option, value] :
       {std::pair("--classes", arguments.classes), std::pair("--epochs", arguments.epochs),
        std::pair("--arrivals", arguments.arrivals), std::pair("--machine", arguments.machine)})
    if (!value.empty()) words.insert(words.end(), {option, value});
  if (!has_option(arguments.options, "--checkpoint-every"))
    words.insert(words.end(), {"--checkpoint-every", "1000"});
  words.insert(words.end(), strategy.words.begin(), strategy.words.end());
  words.insert(words.end(), arguments.options.begin(), arguments.options.end());
  return words;
}

// Waits, at most 10 s, for a training that a killed comparison left behind and that still saves.
void wait_until_free(const fs::path& run) {
  for (int tries = 0; tries < 100 && fs::is_directory(run) && !stop_requested(); ++tries) {
    if (RunLock::acquire(run)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

std::string last_error(const fs::path& log) {
  constexpr std::string_view kMark = "error: ";
  std::string found = "ended without a result";
  auto lines = open_lines(log);
  while (lines) {
    const auto line = lines->next();
    if (!line || !*line) break;
    if ((*line)->text.starts_with(kMark)) found = (*line)->text.substr(kMark.size());
  }
  return found;
}

std::string told(const perf::Training& training, double target) {
  if (training.outcome == Outcome::diverged) return "diverged";
  const bool by_clock = perf::are_simulated(training.evaluations);
  if (const perf::MetricsLine* line = training.reached(target, by_clock))
    return fmt::format("{} reached after {:.4g} epoch{}{}", target, line->epoch,
                       line->epoch == 1 ? "" : "s",
                       by_clock ? ", " + simulated(line->simulated_seconds) : "");
  double best = 0;
  for (const auto& line : training.evaluations) best = std::max(best, line.test_accuracy);
  return fmt::format("{} not reached, {:.4g} at most", target, best);
}

Error stopped(const CompareArguments& arguments, const ComparisonRecord& record) {
  return {ErrorKind::interrupted, "",
          fmt::format("stopped; {} of {} trainings are done; to go on:\n  {}",
                      record.trainings().size(), record.strategies() * arguments.seeds,
                      for_shell(own_words())),
          ""};
}

Status train(const CompareArguments& arguments, const NamedStrategy& strategy, int seed,
             ComparisonRecord& record) {
  const std::string name = fmt::format("{}-{}", strategy.file_name(), seed);
  const std::string which = fmt::format("{}, seed {} of {}", strategy.name, seed, arguments.seeds);
  const fs::path log = record.path(name + ".log");
  Stopwatch watch;
  wait_until_free(record.path("runs") / name);
  OMNI_TRY(const int code,
           run_child(words_of_training(arguments, strategy, seed, name, record), log));
  if (code == exit_code(ErrorKind::interrupted)) return stopped(arguments, record);
  for (const ErrorKind kind : {ErrorKind::usage, ErrorKind::data})
    if (code == exit_code(kind))
      return Error{kind, which, last_error(log), "all that it printed: " + log.string()};

  perf::Training training{.strategy = strategy.name, .seed = seed};
  if (code != kSuccess)
    training.outcome = code == exit_code(ErrorKind::diverged) ? Outcome::diverged : Outcome::failed;
  if (const auto metrics = perf::read_metrics(record.path(name + ".jsonl")))
    training.evaluations = perf::evaluations_in(*metrics);
  if (training.outcome == Outcome::failed)
    log::warn("{}: {} (exit code {}; all that it printed: {})", which, last_error(log), code,
              log.string());
  else if (training.outcome == Outcome::trained && training.evaluations.empty())
    return Error{ErrorKind::data, which, "has no evaluation", "the data need test images"};
  else
    log::info("compare: {}: {}; the training took {}", which, told(training, arguments.target),
              duration(watch.seconds()));
  return record.add(std::move(training));
}

}  // namespace

Status compare_command(const CompareArguments& arguments) {
  if (!(arguments.target > 0 && arguments.target <= 1))
    return Error{ErrorKind::usage, "--target", "is not above 0 and at most 1", "--target 0.9"};
  OMNI_TRY(const std::vector<NamedStrategy> strategies, parse_strategies(arguments.strategies));
  OMNI_CHECK(check_options(arguments.options));
  OMNI_TRY(ComparisonRecord record, ComparisonRecord::open(arguments, strategies));
  stop_in_order();
  // All strategies train with one seed before the next seed, so that changes of the machine affect
  // all of them.
  for (int seed = 1; seed <= arguments.seeds; ++seed)
    for (const NamedStrategy& strategy : strategies) {
      if (record.has(strategy.name, seed)) continue;
      if (stop_requested()) return stopped(arguments, record);
      OMNI_CHECK(train(arguments, strategy, seed, record));
    }
  OMNI_CHECK(record.write());  // the target may differ from that of the last call
  const perf::Comparison comparison = record.comparison();
  log::result("{}", arguments.common.json ? json_text(record.json(), 1) + "\n"
                                          : comparison_table(comparison));
  log::info("curves: {}", record.path("compare.html").string());
  const auto failed =
      std::ranges::count(record.trainings(), Outcome::failed, &perf::Training::outcome);
  if (failed > 0)
    return Error{ErrorKind::failed, "", fmt::format("{} trainings failed", failed),
                 "the same command repeats them"};
  return {};
}

}  // namespace omni
