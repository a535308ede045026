// These tests check --deterministic: the same bits with any number of workers and any scheduler,
// also after a kill and a resume.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;

// The net has every kind of layer whose result could depend on the order of sums or on random
// numbers.
const std::string kDeterministicNet =
    net(24, {20, 20, 3},
        "subdivisions=2\nlearning_rate=0.02\nmomentum=0.9\ndecay=0.0005\nflip=1\nangle=7\n") +
    convolutional(12, "leaky", "pad=1\nbatch_normalize=1\n") +
    layer("maxpool", "size=2\nstride=2\n") + convolutional(16, "relu") +
    layer("normalization", "alpha=0.001\nsize=5\n") + layer("route", "layers=-1,-3\n") +
    layer("convolutional", "filters=16\nsize=1\nactivation=linear\n") +
    layer("shortcut", "from=-4\nactivation=relu\n") + layer("avgpool", "size=2\nstride=2\n") +
    layer("dropout", "probability=0.3\n") + connected(10) + layer("softmax");

class Determinism : public testing::Test {
 protected:
  Determinism() { put(folder_ / "net.cfg", kDeterministicNet); }

  std::vector<std::string> arguments(const std::string& weights, std::vector<std::string> more) {
    std::vector<std::string> all{
        "--net", folder_ / "net.cfg", "--data",          "synthetic:300",   "--slice",
        "3",     "--save-weights",    folder_ / weights, "--deterministic", "-q"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Returns the bytes of the weights after the run.
  std::string train(const std::string& weights, std::vector<std::string> more) {
    const Finished run = omni_run(arguments(weights, std::move(more)));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return get(folder_ / weights);
  }
  void expect_resuming_changes_nothing(const std::vector<std::string>& more);

  TemporaryDirectory folder_;
};

TEST_F(Determinism, SameBitsWithAnyWorkersAndScheduler) {
  const std::string expected = train("first", {"--max-batches", "12", "--workers", "1"});
  ASSERT_GT(expected.size(), 1000u);
  for (const char* workers : {"1", "2"})
    for (const char* scheduler : {"eager", "random", "dmdas", "omni"})
      EXPECT_TRUE(expected == train("again", {"--max-batches", "12", "--workers", workers,
                                              "--sched", scheduler}))
          << workers << " workers, " << scheduler;
  EXPECT_FALSE(expected == train("other", {"--max-batches", "12", "--seed", "2"}))
      << "the seed makes no difference: the comparison proves nothing";
}

// Waits for the checkpoint at `step`, and returns its folder.
fs::path wait_for_checkpoint(const fs::path& folder, const std::string& step) {
  for (int tries = 0; tries < 6000; ++tries) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().filename().string().ends_with(step) &&
          entry.path().filename().string().starts_with("save-"))
        return entry.path();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until another process has written
  }
  return {};
}

// Compares 40 iterations with a run that is killed after the checkpoint at iteration 20, and that
// resumes from this checkpoint to iteration 40.
void Determinism::expect_resuming_changes_nothing(const std::vector<std::string>& more) {
  const auto with = [&more](std::vector<std::string> own) {
    own.insert(own.end(), more.begin(), more.end());
    return own;
  };
  const std::string straight = train("straight", with({"--max-batches", "40", "--workers", "2"}));

  std::vector<std::string> command =
      arguments("never", with({"--max-batches", "100000", "--checkpoint-every", "20", "--keep",
                               "1000", "--out", folder_ / "run"}));
  command.insert(command.begin(), kOmniRun);
  const pid_t child = start_program(command);
  const fs::path saved = wait_for_checkpoint(folder_ / "run", "step-000000020");
  kill(child, SIGKILL);
  EXPECT_EQ(wait_for_program(child), 128 + SIGKILL);
  ASSERT_FALSE(saved.empty());

  const std::string resumed = train("resumed", with({"--max-batches", "40", "--workers", "1",
                                                     "--resume", saved, "--out", folder_ / "run"}));
  EXPECT_TRUE(straight == resumed);
  EXPECT_FALSE(straight == train("shorter", with({"--max-batches", "39"})));
}

TEST_F(Determinism, KilledAndResumedEqualsStraight) { expect_resuming_changes_nothing({}); }

TEST_F(Determinism, KilledAndResumedAdamEqualsStraight) {
  expect_resuming_changes_nothing({"--set", "adam=1", "--learning-rate", "0.001"});
}

TEST_F(Determinism, KilledAndResumedGroupsEqualStraight) {
  expect_resuming_changes_nothing({"--groups", "3"});
}

TEST_F(Determinism, GroupsHaveTheSameBitsWithAnyWorkersAndScheduler) {
  const std::vector<std::string> common{"--max-batches", "12", "--groups", "3"};
  const auto with = [&common](std::vector<std::string> own) {
    own.insert(own.end(), common.begin(), common.end());
    return own;
  };
  const std::string expected = train("first", with({"--workers", "1"}));
  for (const char* workers : {"1", "2"})
    for (const char* scheduler : {"eager", "random", "dmdas", "lws", "omni"})
      EXPECT_TRUE(expected == train("again", with({"--workers", workers, "--sched", scheduler})))
          << workers << " workers, " << scheduler;
  EXPECT_FALSE(expected == train("alone", {"--max-batches", "12"}));
}

TEST_F(Determinism, StopSignalSavesAndExits75) {
  const std::string straight = train("straight", {"--max-batches", "400"});
  for (const int signal : {SIGTERM, SIGINT}) {
    const fs::path run = folder_ / ("run" + std::to_string(signal));
    const std::vector<std::string> common{"--max-batches",
                                          "400",
                                          "--checkpoint-every",
                                          "10",
                                          "--out",
                                          run,
                                          "--display",
                                          "1",
                                          "--metrics",
                                          run / "metrics.jsonl"};
    fs::create_directories(run);
    std::vector<std::string> command = arguments("never", common);
    command.insert(command.begin(), kOmniRun);
    const pid_t child = start_program(command);
    ASSERT_FALSE(wait_for_checkpoint(run, "step-000000010").empty());
    kill(child, signal);
    ASSERT_EQ(wait_for_program(child), 75);

    std::vector<std::string> again = common;
    again.insert(again.end(), {"--resume", "auto"});
    EXPECT_TRUE(straight == train("resumed", again));
    // The metrics hold every iteration once, although some iterations ran again after the resume.
    std::uint64_t expected = 1;
    for (const auto& line : read_metrics(run / "metrics.jsonl"))
      if (line.contains("loss")) {
        EXPECT_EQ(line["iteration"], expected++);
      }
    EXPECT_EQ(expected, 401u);
  }
}

}  // namespace
}  // namespace omni::test
