// These tests check where a user sees simulated time: during a training, at its end, and in its
// metrics. Without a virtual clock nothing is called simulated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using Words = std::vector<std::string>;

const Words kClock{"--arrivals", "virtual", "--machine", "8-gpus"};

class SimulatedTime : public testing::Test {
 protected:
  Words words(const Words& more, const Words& clock = kClock) const {
    Words all{"--net",         "lenet", "--batch",   "8", "--data",    "synthetic:80",
              "--max-batches", "10",    "--display", "5", "--metrics", folder_ / "metrics.jsonl"};
    all.insert(all.end(), clock.begin(), clock.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  double last_time() const {
    return read_metrics(folder_ / "metrics.jsonl").back()["simulated_time"].get<double>();
  }

  TemporaryDirectory folder_;
};

// Returns the lines of `text` that begin with `beginning`.
Words lines_of(const std::string& text, const std::string& beginning) {
  Words found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(beginning)) found.push_back(line);
  return found;
}

TEST_F(SimulatedTime, IsInTheLinesOfATraining) {
  const Finished run = omni_run(words({"--groups", "2"}));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const Words steps = lines_of(run.errors, "10, "), tests = lines_of(run.errors, "iteration 10,");
  ASSERT_EQ(steps.size(), 1u) << run.errors;
  EXPECT_THAT(steps[0], MatchesRegex(".* % correct, [0-9.]+ ms simulated"));
  ASSERT_EQ(tests.size(), 1u) << run.errors;
  EXPECT_THAT(tests[0],
              MatchesRegex("iteration 10, epoch 1.00, [0-9.]+ ms simulated: test loss .*"));
  EXPECT_EQ(lines_of(run.errors, "virtual clock: ").size(), 2u) << "at the start and at the end";
  EXPECT_THAT(run.errors, HasSubstr(" ms simulated\n"));
}

TEST_F(SimulatedTime, IsTheLastLineOfAQuietTraining) {
  const Finished run = omni_run(words({"-q"}));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output,
              MatchesRegex("iteration 10, epoch 1.00, [0-9.]+ ms simulated: test .*\n"));
}

// The summary has the simulated time with and without a test set, for asynchronous groups, --auto
// and hogbatch. It has the time even if a resumed training had nothing left to do.
TEST_F(SimulatedTime, IsInTheSummary) {
  for (const Words& kind : std::vector<Words>{
           {"--groups", "2"},
           {"--groups", "2", "--no-test"},
           {"--auto"},
           {"--auto", "--no-test"},
           {"--strategy", "hogbatch", "--groups", "3", "--group-batches", "2x4,8", "--no-test"}}) {
    const TemporaryDirectory out;
    std::filesystem::remove(folder_ / "metrics.jsonl");
    Words all = words({"--json", "-q", "--out", out / "run", "--resume", "auto"});
    all.insert(all.end(), kind.begin(), kind.end());
    for (const char* start : {"first", "once more"}) {
      const Finished run = omni_run(all);
      ASSERT_EQ(run.exit_code, 0) << run.errors;
      const auto summary = nlohmann::json::parse(run.output);
      ASSERT_TRUE(summary.contains("simulated_seconds")) << start << run.output;
      EXPECT_GT(last_time(), 0);
      EXPECT_EQ(summary["simulated_seconds"], last_time()) << start << run.output;
    }
  }
}

TEST_F(SimulatedTime, IsOnATerminal) {
  Words all = words({"--groups", "2"});
  all.insert(all.begin(), kOmniRun);
  std::vector<char*> pointers;
  for (std::string& word : all) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  winsize size{.ws_row = 24, .ws_col = 160, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  ASSERT_GT(child, 0);
  std::string said;
  char part[4096];
  for (ssize_t count = 0; (count = read(terminal, part, sizeof part)) > 0;)
    said.append(part, static_cast<std::size_t>(count));
  close(terminal);
  EXPECT_EQ(wait_for_program(child), 0) << said;
  EXPECT_THAT(said, testing::ContainsRegex("10/10 epoch 1.00 .* img/s [0-9.]+ ms simulated "));
}

// During a cold start one group trains on all devices. Simulated time goes on when the other groups
// begin, and after a resume.
TEST_F(SimulatedTime, GoesOnBehindAColdStart) {
  const Words cold{"--groups",           "4", "--cold-start", "4", "--no-test", "--deterministic",
                   "--checkpoint-every", "3"};
  const auto times = [&](const std::vector<Words>& pieces) {
    const TemporaryDirectory out;
    std::filesystem::remove(folder_ / "metrics.jsonl");
    for (const Words& piece : pieces) {
      Words all{"--net",        "lenet",     "--batch",  "8",         "--data",
                "synthetic:80", "--display", "1",        "--metrics", folder_ / "metrics.jsonl",
                "--out",        out / "run", "--resume", "auto"};
      for (const Words& more : {kClock, cold, piece})
        all.insert(all.end(), more.begin(), more.end());
      const Finished run = omni_run(all);
      EXPECT_EQ(run.exit_code, 0) << run.errors;
    }
    std::vector<double> found;
    for (const auto& line : read_metrics(folder_ / "metrics.jsonl"))
      found.push_back(line["simulated_time"].get<double>());
    return found;
  };
  const Words all{"--max-batches", "10"};
  const std::vector<double> whole = times({all});
  ASSERT_EQ(whole.size(), 10u);
  for (std::size_t i = 1; i < whole.size(); ++i) EXPECT_GE(whole[i], whole[i - 1]) << i;
  EXPECT_GT(whole[3], 0);
  EXPECT_GT(whole[4], whole[3]);
  for (const char* end : {"3", "6"}) EXPECT_EQ(times({{"--max-batches", end}, all}), whole) << end;
}

TEST_F(SimulatedTime, IsOfAVirtualClockOnly) {
  const Finished run = omni_run(words({"--groups", "2", "--json"}, {}));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.errors, Not(HasSubstr("simulated")));
  EXPECT_THAT(run.output, Not(HasSubstr("simulated")));
  EXPECT_FALSE(read_metrics(folder_ / "metrics.jsonl").back().contains("simulated_time"));
}

}  // namespace
}  // namespace omni::test
