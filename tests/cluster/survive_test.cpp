// These tests lose ranks of trainings with --survive. The trainings go on, and end with the bits of
// undisturbed ones: no sample is left out or trained twice.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cluster/ranks.hpp"
#include "tests/support/net_text.hpp"

namespace omni::test {
namespace {

constexpr int kIterations = 400;

class Survivors : public testing::Test {
 protected:
  Survivors() {
    put(net_, test::net(6, {8, 8, 1}, "learning_rate=0.002\nmomentum=0.9\n") + kLayers);
  }

  Words training(Words more = {}) {
    Words words{"--net",          net_,
                "--data",         "synthetic:60:3",
                "--models",       folder_ / "models",
                "--workers",      "1",
                "--slice",        "2",
                "--groups",       "3",
                "--display",      "1",
                "--test-every",   "20",
                "--max-batches",  std::to_string(kIterations),
                "--deterministic"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Words surviving(Words more = {}) {
    more.insert(more.end(), {"--survive", "--out", out_, "--metrics", metrics_, "--patience", "4",
                             "--save-weights", folder_ / "weights", "--checkpoint-every", every_});
    return training(std::move(more));
  }
  pid_t start(int ranks, Words options = {}) {
    Words command = mpiexec(ranks, surviving());
    command.insert(command.begin() + 1, options.begin(), options.end());
    return start_program(command, "/dev/null", errors_);
  }
  // Returns this rank's process: the one that trains, or its keeper. 0: there is none.
  pid_t process(int rank, bool keeper) const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t id = std::atoi(entry.path().filename().c_str());
      if (id <= 0 || bytes(id, "cmdline").find(out_) == std::string::npos) continue;
      const std::string variables = '\0' + bytes(id, "environ");
      const bool trains = variables.find('\0' + std::string("OMNI_KEPT=")) != std::string::npos;
      const std::string variable = '\0' + ("PMI_RANK=" + std::to_string(rank)) + '\0';
      if (trains != keeper && bytes(id, "comm").starts_with("omni-run") &&
          variables.find(variable) != std::string::npos)
        return id;
    }
    return 0;
  }
  // Signals that process. None is a failure: the number 0 would be the test's own group.
  void strike(int rank, bool keeper, int signal) const {
    const pid_t id = process(rank, keeper);
    ASSERT_GT(id, 0) << "rank " << rank << " has ended";
    kill(id, signal);
  }
  void wait_for_iteration(int iteration) {
    wait_for_text(metrics_, "\"iteration\":" + std::to_string(iteration) + ",");
  }
  // Fails unless the training has each iteration once, and ends with the bits of one process.
  void expect_undisturbed() {
    const std::string said = get(errors_), straight = folder_ / "straight";
    std::vector<int> iterations, all;
    for (const auto& line : read_metrics(metrics_))
      if (line.contains("loss")) iterations.push_back(line["iteration"]);
    for (int i = 1; i <= kIterations; ++i) all.push_back(i);
    EXPECT_EQ(iterations, all) << said;
    const Finished one = omni_run(training({"--save-weights", straight}));
    EXPECT_EQ(one.exit_code, 0) << one.errors;
    EXPECT_EQ(get(folder_ / "weights"), get(straight)) << said;
  }
  void expect_said(const std::string& text) {
    EXPECT_NE(get(errors_).find(text), std::string::npos) << text << "\n" << get(errors_);
  }

  static std::string bytes(pid_t process, const char* name) {
    std::ifstream file("/proc/" + std::to_string(process) + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  inline static const std::string kLayers =
      convolutional(20, "tanh") + connected(10, "tanh") + connected(3) + layer("softmax");
  TemporaryDirectory folder_;
  const std::string net_ = folder_ / "net.cfg", out_ = folder_ / "run",
                    metrics_ = folder_ / "metrics", errors_ = folder_ / "errors";
  std::string every_ = "7";  // iterations from one checkpoint to the next
};

// Ranks are killed between two checkpoints, so that iterations are lost.
TEST_F(Survivors, go_on_when_any_rank_is_killed) {
  every_ = "100";
  for (const int rank : {0, 2}) {
    const pid_t job = start(3);
    wait_for_iteration(117);
    strike(rank, false, SIGKILL);
    EXPECT_EQ(wait_for_program(job), 0) << get(errors_);
    expect_said("rank " + std::to_string(rank) + " on ");
    expect_said("was killed by signal 9");
    expect_said("3 ranks again after 3, from iteration ");
    expect_said(" are lost, and trained again");
    const std::string said = get(errors_);
    EXPECT_EQ(number_after(said, "ranks again after 3, from iteration "),
              number_after(said, " at iteration "))
        << said;
    expect_undisturbed();
    for (const auto& each : {out_, metrics_, errors_}) std::filesystem::remove_all(each);
  }
}

TEST_F(Survivors, go_on_when_a_rank_is_stopped) {
  const pid_t job = start(2);
  wait_for_iteration(9);
  strike(1, false, SIGSTOP);
  EXPECT_EQ(wait_for_program(job), 0) << get(errors_);
  expect_said("has been silent for 4 s");
  expect_undisturbed();
}

// The keeper is lost, too, as when a host loses its power. Another process takes its place.
TEST_F(Survivors, take_in_a_rank_that_is_started_again) {
  for (const int rank : {0, 1}) {
    const pid_t job =
        start(2, {"-disable-auto-cleanup", "-launcher", "fork", "-hosts", "h1,h2", "-ppn", "1"});
    wait_for_iteration(9);
    strike(rank, true, SIGKILL);
    wait_for_text(errors_, "resumed ");
    Words again = surviving();
    again.insert(again.begin(), kOmniRun);
    const pid_t left = process(0, false);  // it is not to end before the other one returns
    kill(left, SIGSTOP);
    const pid_t returned = start_program(again, "/dev/null", folder_ / "returned");
    wait_for_text(errors_, "then another process is taken in");
    kill(left, SIGCONT);
    EXPECT_EQ(wait_for_program(returned), 0) << get(folder_ / "returned") << get(errors_);
    wait_for_program(job);
    EXPECT_EQ(get(std::filesystem::path(out_) / "leader").substr(0, 6), "ended ");
    expect_said("2 ranks instead of 1, from iteration ");
    expect_undisturbed();
    for (const auto& each : {out_, metrics_, errors_}) std::filesystem::remove_all(each);
  }
}

TEST_F(Survivors, stop_when_they_are_asked_to) {
  const pid_t job = start(2);
  wait_for_iteration(12);
  kill(job, SIGTERM);
  EXPECT_EQ(wait_for_program(job), 75) << get(errors_) << get(out_ + "/leader");
  EXPECT_EQ(wait_for_program(start(3)), 0) << get(errors_);
  expect_undisturbed();
}

TEST_F(Survivors, end_for_errors_that_another_start_does_not_mend) {
  const Finished diverged = on_ranks(2, surviving({"--learning-rate", "1e30", "--guard", "off"}));
  EXPECT_EQ(diverged.exit_code, 6) << diverged.errors;
  EXPECT_EQ(diverged.errors.find("instead of"), std::string::npos) << diverged.errors;
}

// A process in another folder finds no net there. The others go on without it.
TEST_F(Survivors, leave_out_a_rank_that_cannot_join) {
  std::filesystem::create_directory(folder_ / "elsewhere");
  const auto in_folder = [&](const std::string& folder, Words command) {
    std::ranges::replace(command, net_, std::string("net.cfg"));
    command.insert(command.begin(), {"/usr/bin/env", "-C", folder_ / folder});
    return command;
  };
  const pid_t job = start_program(in_folder(".", mpiexec(2, surviving())), "/dev/null", errors_);
  wait_for_iteration(9);
  const pid_t one = process(0, false);  // it is not to end before the other one comes
  ASSERT_GT(one, 0);
  kill(one, SIGSTOP);
  Words joins = surviving();
  joins.insert(joins.begin(), kOmniRun);
  const pid_t joiner =
      start_program(in_folder("elsewhere", joins), "/dev/null", folder_ / "joiner");
  wait_for_text(errors_, "then another process is taken in");
  kill(one, SIGCONT);
  EXPECT_EQ(wait_for_program(joiner), 2) << get(folder_ / "joiner") << get(errors_);
  EXPECT_EQ(wait_for_program(job), 0) << get(errors_);
  expect_said("the training cannot go on, so it is left out");
  expect_undisturbed();
}

TEST_F(Survivors, are_refused_where_ranks_cannot_take_each_others_place) {
  const auto refused = [&](Words words, const std::string& why) {
    const Finished run = omni_run(std::move(words));
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_NE(run.errors.find(why), std::string::npos) << run.errors;
  };
  const Words lenet{"--net", "lenet", "--data", "synthetic:60:10", "--workers", "1", "--survive"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), lenet.begin(), lenet.end());
    return more;
  };
  refused(with({}), "--survive: ranks find each other in the run folder (--out FOLDER");
  for (const Words& sync : {Words{}, Words{"--strategy", "sync"}, Words{"--strategy", "sma"}}) {
    Words words = with(sync);
    words.insert(words.end(), {"--out", out_});
    refused(words, "--survive: it needs a number of groups; with sync all ranks compute each");
  }
  refused(with({"--out", out_, "--group-layout", "0;0", "--groups", "2"}), "--group-layout: with");
  refused(with({"--out", out_, "--groups", "2", "--resume", folder_ / "x"}), "--survive goes on");
}

}  // namespace
}  // namespace omni::test
