// Recording and omni-perf together, on real runs: the parts of the time add up, equal runs compare
// equal, a slower kernel is seen, and a killed run leaves what happened before.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using nlohmann::json;

Finished omni_perf(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), beside_this_program("omni-perf"));
  return run_program(std::move(arguments));
}

constexpr int kIterations = 12;

std::vector<std::string> alexnet(const std::string& trace, const std::string& implementation) {
  return {"--net",          "alexnet",
          "--batch",        "2",
          "--subdivisions", "1",
          "--max-batches",  "12",
          "--data",         "synthetic:64",
          "--no-test",      "--quiet",
          "--impl",         implementation,
          "--trace",        trace};
}

class Traced : public testing::Test {
 protected:
  std::string record(const std::string& name, const std::string& implementation = "onednn") {
    const std::string trace = folder_ / name;
    const Finished run = omni_run(alexnet(trace, implementation));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return trace;
  }
  TemporaryDirectory folder_;
};

TEST_F(Traced, TheTimeOfEveryWorkerIsAccountedFor) {
  const std::string trace = record("run");
  const Finished idle = omni_perf({"idle", trace, "--json"});
  ASSERT_EQ(idle.exit_code, 0) << idle.errors;
  const json workers = json::parse(idle.output).at("workers");
  ASSERT_FALSE(workers.empty());
  const double trained = read_metrics(trace + "/metrics.jsonl").back().at("time");
  for (const json& worker : workers) {
    const double wall = worker.at("wall");
    double sum = 0;
    for (const auto& [name, seconds] : worker.at("parts").items()) {
      EXPECT_GE(seconds.get<double>(), 0) << name;
      sum += seconds.get<double>();
    }
    EXPECT_NEAR(sum, wall, 0.01 * wall);
    EXPECT_GT(worker.at("parts").at("compute").get<double>(), 0);
    // The trainer's own clock stops at the last loss; the rest of that iteration follows.
    EXPECT_GE(wall, 0.99 * trained);
    EXPECT_LE(wall, 1.05 * trained + trained / kIterations);
  }
}

// Time is noisy: three tries to find two equal runs equal. A slowed kernel must be seen every time.
TEST_F(Traced, EqualRunsCompareEqual) {
  std::string said;
  bool clean = false;
  for (int i = 0; i < 3 && !clean; ++i) {
    const std::string number = std::to_string(i);
    const Finished diff = omni_perf({"diff", record("a" + number), record("b" + number)});
    ASSERT_LE(diff.exit_code, 1) << diff.errors;
    clean = diff.exit_code == 0;
    said += diff.output;
  }
  EXPECT_TRUE(clean) << said;
}

// The product takes half as long again, so a convolution by lowering, which does other things,
// too, takes 30 to 50 per cent more of a quiet machine.
TEST_F(Traced, AKernelThatIsTwoFifthsSlowerIsSeen) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer does not let another library be loaded first";
#endif
  const std::string fast = record("fast", "lowering"), slow = folder_ / "slow";
  std::vector<std::string> words{"/usr/bin/env", "LD_PRELOAD=" OMNI_SLOW_GEMM, kOmniRun};
  const auto arguments = alexnet(slow, "lowering");
  words.insert(words.end(), arguments.begin(), arguments.end());
  const Finished run = run_program(words);
  ASSERT_EQ(run.exit_code, 0) << run.errors;

  const Finished diff = omni_perf({"diff", fast, slow, "--json"});
  EXPECT_EQ(diff.exit_code, 1) << diff.errors;
  bool named = false;
  const json compared = json::parse(diff.output);
  for (const json& row : compared.at("rows"))
    if (row.at("what") == "codelet" && row.at("codelet") == "conv_forward") {
      EXPECT_EQ(row.at("verdict"), "slower") << row;
      EXPECT_GT(row.at("change").get<double>(), 0.2) << row;
      named = true;
    }
  EXPECT_TRUE(named) << diff.output;
}

TEST_F(Traced, TimeRecordsWhatItMeasured) {
  const std::string trace = folder_ / "time";
  const Finished run = omni_run({"time", "--net", "lenet", "--warm-up", "5", "--iterations", "7",
                                 "--quiet", "--trace", trace});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  std::istringstream table(run.output);
  for (std::string line; std::getline(table, line);) EXPECT_LE(line.size(), 100u) << line;
  const Finished summary = omni_perf({"summary", trace, "--json"});
  ASSERT_EQ(summary.exit_code, 0) << summary.errors;
  EXPECT_EQ(json::parse(summary.output).at("iterations"), 7) << summary.output;
}

TEST_F(Traced, AKilledRunLeavesAReadableTrace) {
  const std::string trace = folder_ / "killed", file = trace + "/rank-0.jsonl.part";
  const pid_t child = start_program({kOmniRun, "--net", "lenet", "--data", "synthetic:512",
                                     "--max-batches", "0", "--no-test", "--trace", trace});
  const auto recorded = [&] {
    std::error_code none;
    const auto bytes = std::filesystem::file_size(file, none);
    return none ? 0 : bytes;
  };
  for (int tries = 0; tries < 6000 && recorded() < 300'000; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // another process is at work
  kill(child, SIGKILL);
  EXPECT_EQ(wait_for_program(child), 128 + SIGKILL);

  const Finished summary = omni_perf({"summary", trace, "--json"});
  EXPECT_EQ(summary.exit_code, 0) << summary.errors;
  EXPECT_NE(summary.errors.find("the run was killed"), std::string::npos) << summary.errors;
  EXPECT_EQ(json::parse(summary.output).at("complete"), false);

  // The same bytes under the name of a run that ended have lost their tail.
  std::filesystem::rename(file, trace + "/rank-0.jsonl");
  const Finished truncated = omni_perf({"summary", trace});
  EXPECT_EQ(truncated.exit_code, 3);
  EXPECT_NE(truncated.errors.find("rank-0.jsonl:"), std::string::npos) << truncated.errors;
}

}  // namespace
}  // namespace omni::test
