// These tests check that errors beside a training lose neither the training nor the checkpoints of
// another run.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "scheduling/training/metrics_log.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;

class LostWork : public testing::Test {
 protected:
  Finished train(std::vector<std::string> more) {
    std::vector<std::string> all{"--net",  "lenet",        "--batch",   "8",
                                 "--data", "synthetic:40", "--no-test", "-q"};
    all.insert(all.end(), more.begin(), more.end());
    return omni_run(all);
  }
  std::vector<fs::path> checkpoints(const fs::path& folder) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("save-")) found.push_back(entry.path());
    return found;
  }
  TemporaryDirectory folder_;
};

TEST_F(LostWork, MetricsThatCannotBeWrittenCostNothing) {
  const fs::path weights = folder_ / "w.weights";
  const Finished run = train({"--max-batches", "3", "--display", "1", "--metrics", "/dev/full",
                              "--save-weights", weights});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_NE(run.errors.find("warning: /dev/full"), std::string::npos) << run.errors;
  EXPECT_EQ(fs::file_size(weights), 431080u * 4 + 20);
}

TEST_F(LostWork, ResumingIntoAnotherRunsFolderIsRefused) {
  const fs::path mine = folder_ / "mine", theirs = folder_ / "theirs";
  for (const fs::path& out : {mine, theirs})
    ASSERT_EQ(train({"--max-batches", "4", "--checkpoint-every", "2", "--out", out}).exit_code, 0);
  const auto before = checkpoints(theirs);
  ASSERT_EQ(before.size(), 2u);
  const Finished run =
      train({"--max-batches", "8", "--checkpoint-every", "1", "--resume", mine, "--out", theirs});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.errors.find("holds checkpoints of another run"), std::string::npos) << run.errors;
  EXPECT_EQ(checkpoints(theirs), before);
}

// A run with --resume auto saves at its end. Otherwise the same command would train again.
TEST_F(LostWork, WhatResumesByItselfIsSavedAtTheEnd) {
  const fs::path out = folder_ / "run";
  ASSERT_EQ(train({"--max-batches", "5", "--resume", "auto", "--out", out}).exit_code, 0);
  EXPECT_EQ(checkpoints(out).size(), 1u);
  const auto before = checkpoints(out);
  EXPECT_EQ(train({"--max-batches", "5", "--resume", "auto", "--out", out}).exit_code, 0);
  EXPECT_EQ(checkpoints(out), before) << "nothing was left to do";
  ASSERT_EQ(train({"--max-batches", "5", "--out", folder_ / "other"}).exit_code, 0);
  EXPECT_EQ(checkpoints(folder_ / "other").size(), 0u);
}

TEST_F(LostWork, TheCheckpointsSeedIsTheRunsSeed) {
  const fs::path out = folder_ / "run", straight = folder_ / "a", resumed = folder_ / "b";
  ASSERT_EQ(
      train({"--max-batches", "10", "--seed", "5", "--deterministic", "--save-weights", straight})
          .exit_code,
      0);
  ASSERT_EQ(train({"--max-batches", "5", "--seed", "5", "--deterministic", "--checkpoint-every",
                   "5", "--out", out})
                .exit_code,
            0);
  ASSERT_EQ(train({"--max-batches", "10", "--deterministic", "--resume", "auto", "--out", out,
                   "--save-weights", resumed})
                .exit_code,
            0);
  EXPECT_TRUE(get(straight) == get(resumed));
}

TEST_F(LostWork, TheLastLineOfAStoppedRunGoesOn) {
  const fs::path out = folder_ / "somebody's run", errors = folder_ / "errors";
  fs::create_directories(out);
  const pid_t child = start_program(
      {kOmniRun, "--net", "lenet", "--set", "batch=8", "--data", "synthetic:40", "--max-batches",
       "1500", "--checkpoint-every", "50", "--resume=auto", "--out", out},
      "/dev/null", errors);
  for (int tries = 0; tries < 6000 && checkpoints(out).empty(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until another process has saved
  kill(child, SIGINT);
  ASSERT_EQ(wait_for_program(child), 75);
  std::string said = get(errors);
  EXPECT_NE(said.find("\nstopping: finishing the iteration, then saving a checkpoint ("),
            std::string::npos)
      << said;
  ASSERT_EQ(said.back(), '\n');
  said.pop_back();
  const std::string command = said.substr(said.rfind('\n') + 1);
  EXPECT_NE(said.find("; to go on:\n" + command), std::string::npos) << said;

  const Finished resumed = run_program({"/bin/sh", "-c", command});  // as if pasted
  EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.errors.find("\nresumed " + out.string()), std::string::npos) << resumed.errors;
  EXPECT_NE(resumed.errors.find("\niteration 1500,"), std::string::npos) << resumed.errors;
  const Finished again = run_program({"/bin/sh", "-c", command});
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_NE(again.errors.find("\nalready at iteration 1500 of 1500: nothing to do (raise --epochs "
                              "or --max-batches)\n"),
            std::string::npos)
      << again.errors;
}

// The metrics of another run are not overwritten. Only a resume of that run adds to them.
TEST_F(LostWork, MetricsOfAnotherRunStay) {
  const fs::path metrics = folder_ / "m.jsonl", out = folder_ / "run";
  const std::vector<std::string> run{"--max-batches",      "4",    "--display", "1",
                                     "--checkpoint-every", "2",    "--out",     out,
                                     "--metrics",          metrics};
  ASSERT_EQ(train(run).exit_code, 0);
  const std::string lines = get(metrics);
  const Finished again = train({"--max-batches", "4", "--metrics", metrics});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_EQ(again.errors,
            "error: " + metrics.string() +
                ": holds metrics of another run (name another file, or remove this one; --resume "
                "continues it)\n");
  EXPECT_EQ(get(metrics), lines);
  const Finished first = train({"--metrics", metrics, "--out", metrics});
  EXPECT_EQ(first.errors, again.errors) << "before anything takes time";
  // The run was killed while it wrote the last line.
  put(metrics, lines + "{\"iteration\":5}\n{\"iteration\":4");
  auto more = run;
  more[1] = "6";
  more.insert(more.end(), {"--resume", "auto"});
  ASSERT_EQ(train(more).exit_code, 0);
  const auto all = read_metrics(metrics);
  ASSERT_EQ(all.size(), 6u);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i]["iteration"], i + 1);
  EXPECT_TRUE(get(metrics).starts_with(lines));
}

// The same command is started several times, also as a Slurm job. Each line is in the metrics once,
// and times and averages go on.
TEST_F(LostWork, MetricsGoOnAsIfNobodyHadStopped) {
  const fs::path out = folder_ / "run", metrics = folder_ / "m.jsonl", whole = folder_ / "w.jsonl";
  const auto with = [&](const std::string& batches, const fs::path& file, const fs::path& run) {
    const std::vector<std::string> words{"/usr/bin/env",
                                         "SLURM_JOB_ID=7",
                                         kOmniRun,
                                         "--net",
                                         "lenet",
                                         "--batch",
                                         "8",
                                         "--data",
                                         "synthetic:40",
                                         "--deterministic",
                                         "--max-batches",
                                         batches,
                                         "--display",
                                         "1",
                                         "--test-every",
                                         "4",
                                         "--resume",
                                         "auto",
                                         "--metrics",
                                         file,
                                         "--out",
                                         run};
    const Finished trained = run_program(words);
    EXPECT_EQ(trained.exit_code, 0) << trained.errors;
    return trained.errors;
  };
  with("14", whole, folder_ / "other");
  with("8", metrics, out);
  const std::string finished = get(metrics);
  const std::string again = with("8", metrics, out);
  EXPECT_EQ(get(metrics), finished) << "nothing was left to do";
  EXPECT_NE(again.find("\niteration 8, epoch 1.60: test loss "), std::string::npos) << again;
  // The run was killed after its last checkpoint and before its last evaluation.
  put(metrics, finished.substr(0, finished.rfind("{\"iteration\"")));
  const std::string goes_on = with("14", metrics, out);

  const auto told = [](const fs::path& file) {
    std::vector<nlohmann::json> lines;
    double time = 0, average = -1;
    for (nlohmann::json line : read_metrics(file)) {
      if (line.contains("slurm_job")) continue;
      EXPECT_GE(line["time"].get<double>(), time) << line;
      time = line["time"];
      if (line.contains("loss")) {
        const double now = line["accuracy"];
        average = average < 0 ? now : 0.9 * average + 0.1 * now;
        EXPECT_NEAR(line["accuracy_average"].get<double>(), average, 1e-5) << line;
      }
      for (const char* measured : {"time", "images_per_second"}) line.erase(measured);
      lines.push_back(line);
    }
    return lines;
  };
  EXPECT_EQ(told(metrics), told(whole));
  std::vector<int> tested;
  for (const nlohmann::json& line : read_metrics(metrics))
    if (line.contains("test_loss")) tested.push_back(line["iteration"]);
  EXPECT_EQ(tested, (std::vector{4, 8, 12, 14}));
  // The progress line shows the average accuracy.
  EXPECT_NE(goes_on.find(fmt::format(" images/s, {:.2f} % correct\nsaved ",
                                     100 * told(metrics)[16]["accuracy_average"].get<double>())),
            std::string::npos)
      << goes_on;
}

TEST_F(LostWork, MetricsWithoutACheckpointStay) {
  const fs::path metrics = folder_ / "m.jsonl";
  const std::vector<std::string> run{
      "--max-batches", "2",         "--display", "1",     "--resume",
      "auto",          "--metrics", metrics,     "--out", folder_ / "run"};
  ASSERT_EQ(train(run).exit_code, 0);
  const std::string first = get(metrics), cut = first + "{\"iterat";
  put(metrics, cut);  // killed before the first checkpoint, twice
  fs::remove_all(folder_ / "run");
  ASSERT_EQ(train(run).exit_code, 0);
  fs::remove_all(folder_ / "run");
  ASSERT_EQ(train(run).exit_code, 0);
  EXPECT_EQ(get(metrics.string() + ".1"), cut);
  EXPECT_EQ(read_metrics(metrics.string() + ".2").size(), 2u);
  EXPECT_EQ(read_metrics(metrics).size(), 2u);
}

TEST_F(LostWork, AFileThatHoldsNoMetricsStays) {
  const fs::path text = folder_ / "notes";
  for (const std::string line : {"mine\n", "mine", "{\"loss\":1}\n", "{\"loss\"",
                                 "{\"iteration\":-1}\n", "\n", "{\"step\":3,\"iteration\":900}\n",
                                 "\x7f"
                                 "ELF\1"}) {
    for (const std::string& all : {"{\"iteration\":1}\n" + line, line, line + line}) {
      put(text, all);
      for (const std::optional<std::uint64_t> resumed :
           {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(0),
            std::optional<std::uint64_t>(5)}) {
        const auto opened = MetricsLog::open(text, resumed);
        ASSERT_FALSE(opened) << all;
        EXPECT_EQ(opened.error().kind, ErrorKind::usage);
        EXPECT_NE(opened.error().message().find("holds lines that are no metrics"),
                  std::string::npos);
        EXPECT_EQ(get(text), all);
      }
    }
  }
  EXPECT_EQ(entries_in(folder_.path()), 1) << "nothing was renamed";
  const Finished refused = train(
      {"--max-batches", "1", "--resume", "auto", "--metrics", text, "--trace", folder_ / "t"});
  EXPECT_EQ(refused.exit_code, 2) << refused.errors;
  EXPECT_EQ(entries_in(folder_.path()), 1) << "refused before anything was made";
  // A file of zero bytes is no metrics file.
  put(text, std::string(9, '\0'));
  EXPECT_FALSE(MetricsLog::open(text, 5));
  // After a power failure a file may have its full size, but zeros at its end.
  const std::string whole = "{\"iteration\":1}\n";
  for (const std::string tail : {"", "{\"iter", "{\"iteration\":2,\"lo"}) {
    put(text, whole + tail + std::string(9, '\0'));
    ASSERT_TRUE(MetricsLog::open(text, 5)) << tail;
    EXPECT_EQ(get(text), whole) << tail;
  }
  // The last line lacks only its line end.
  put(text, "{\"iteration\":1}");
  ASSERT_TRUE(MetricsLog::open(text, 5));
  EXPECT_EQ(get(text), "{\"iteration\":1}\n");
}

TEST_F(LostWork, WhereNothingCouldBeSavedNothingIsTrained) {
  const auto refused = [&](std::vector<std::string> words, const std::string& said) {
    words.insert(words.end(), {"--max-batches", "1"});
    const Finished run = train(words);
    EXPECT_EQ(run.exit_code, 2) << said;
    EXPECT_NE(run.errors.find(said), std::string::npos) << run.errors;
  };
  put(folder_ / "file", "mine");
  refused({"--save-weights", folder_.path()}, "exists and is not a regular file");
  refused({"--save-weights", "/dev/full"}, "exists and is not a regular file");
  refused({"--save-weights", folder_ / "no" / "w"}, "cannot create: No such file or directory");
  refused({"--out", folder_ / "file"}, "cannot list: Not a directory");
  refused({"--out", folder_ / "file" / "run"}, "cannot list: Not a directory");
  refused({"--metrics", folder_ / "no" / "m"}, "cannot create: No such file or directory");
  refused({"--trace", folder_ / "file"}, "no folder, nor a link to one");
  const auto refused_at = [&](const fs::path& place) {
    const Finished run = run_program(
        {"/bin/sh", "-c",
         "cd " + place.parent_path().string() + " && exec " + kOmniRun +
             " -q --net lenet --batch 8 --data synthetic:40 --no-test --max-batches 1"});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_NE(run.errors.find(place.string() +
                              ": no folder, nor a link to one (name a writable folder with free "
                              "space with --out)"),
              std::string::npos)
        << run.errors;
  };
  const fs::path here = folder_ / "here" / "omni-runs";
  fs::create_directory(here.parent_path());
  put(here, "no folder");
  refused_at(here);
  fs::remove(here);
  fs::create_symlink("/nowhere/runs", here);  // a disk that is not mounted now
  refused_at(here);
  EXPECT_TRUE(fs::is_symlink(here));
  EXPECT_EQ(entries_in(folder_.path()), 2);
  EXPECT_EQ(get(folder_ / "file"), "mine");
}

TEST_F(LostWork, TryingAPlaceLeavesNothing) {
  const Finished run =
      run_program({"/bin/sh", "-c",
                   "cd " + folder_.path().string() + " && exec " + kOmniRun +
                       " -q --net lenet --batch 8 --data synthetic:40 --no-test --max-batches 1"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(entries_in(folder_.path()), 0);
}

TEST_F(LostWork, OtherDataIsRefusedUntilItIsWanted) {
  const fs::path out = folder_ / "run";
  ASSERT_EQ(train({"--max-batches", "2", "--checkpoint-every", "2", "--out", out}).exit_code, 0);
  std::vector<std::string> command{"--net", "lenet",     "--batch",  "8",      "--max-batches",
                                   "3",     "--out",     out,        "--data", "synthetic:48",
                                   "-q",    "--no-test", "--resume", "auto"};
  const Finished refused = omni_run(command);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find(": was trained on the data 'synthetic:40', this run has "
                                "'synthetic:48' (give the same --data, or train on with "
                                "--other-data)\n"),
            std::string::npos)
      << refused.errors;
  command.push_back("--other-data");
  const Finished wanted = omni_run(command);
  EXPECT_EQ(wanted.exit_code, 0) << wanted.errors;
}

TEST_F(LostWork, StopDuringTheLastEvaluationSaves) {
  const fs::path out = folder_ / "run", metrics = folder_ / "m.jsonl";
  // The test set has 400,000 images, so the signal comes before they are all tested.
  const pid_t child =
      start_program({kOmniRun, "--net", "lenet", "--data", "synthetic:2000000", "--max-batches",
                     "1", "--out", out, "--metrics", metrics, "-q"});
  for (int tries = 0; tries < 6000 && (!fs::exists(metrics) || fs::file_size(metrics) == 0);
       ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until the iteration is reported
  kill(child, SIGTERM);
  EXPECT_EQ(wait_for_program(child), 75);
  EXPECT_EQ(checkpoints(out).size(), 1u);
}

TEST_F(LostWork, ResultsThatDoNotReachTheirFileAreAFailure) {
  const pid_t child =
      start_program({kOmniRun, "--net", "lenet", "--dry-run", "--json"}, "/dev/full");
  EXPECT_EQ(wait_for_program(child), 1);
}

}  // namespace
}  // namespace omni::test
