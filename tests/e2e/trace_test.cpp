// These tests record real runs and read the traces with omni-perf. The parts of the time add up,
// runs can be compared, and a killed run leaves a readable trace.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
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

std::vector<std::string> alexnet(const std::string& trace) {
  return {"--net",     "alexnet",       "--batch", "2",      "--subdivisions",
          "1",         "--max-batches", "12",      "--data", "synthetic:64",
          "--no-test", "--quiet",       "--trace", trace};
}

class Traced : public testing::Test {
 protected:
  std::string record(const std::string& name) {
    const std::string trace = folder_ / name;
    const Finished run = omni_run(alexnet(trace));
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
    // The trainer's time ends with the last loss. The trace also holds the rest of that iteration.
    EXPECT_GE(wall, 0.99 * trained);
    EXPECT_LE(wall, 1.05 * trained + trained / kIterations);
  }
}

// tests/unit/perf/diff_test.cpp tests, with traces made by hand, which differences are more than
// noise.
TEST_F(Traced, ARecordedRunCanBeCompared) {
  const std::string trace = record("run");
  const Finished diff = omni_perf({"diff", trace, trace, "--json"});
  EXPECT_EQ(diff.exit_code, 0) << diff.errors;
  const json rows = json::parse(diff.output).at("rows");
  EXPECT_TRUE(std::ranges::any_of(rows, [](const json& row) {
    return row.at("codelet") == "conv_forward" && row.at("before") == row.at("after");
  })) << diff.output;
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

  // Without its last lines, a trace with the name of a finished run is refused.
  std::filesystem::rename(file, trace + "/rank-0.jsonl");
  const Finished truncated = omni_perf({"summary", trace});
  EXPECT_EQ(truncated.exit_code, 3);
  EXPECT_NE(truncated.errors.find("rank-0.jsonl:"), std::string::npos) << truncated.errors;
}

}  // namespace
}  // namespace omni::test
