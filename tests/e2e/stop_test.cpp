// These tests ask omni-run to stop in every phase of every command. It saves what was learned, and
// the exit code is 75.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr int kRequests[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

class Stop : public testing::Test {
 protected:
  // Sends the signal as soon as there() returns true, and returns the program's exit code.
  int asked(Words words, int number, const std::function<bool()>& there,
            const std::string& output = "/dev/null") {
    words.insert(words.begin(), kOmniRun);
    fs::remove(errors_);
    const pid_t child = start_program(words, output, errors_);
    for (int tries = 0; tries < 12000 && !there(); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kill(child, number);
    return wait_for_program(child);
  }
  bool said(const std::string& text) const { return get(errors_).find(text) != std::string::npos; }
  // Returns the path of a pipe. A program that writes to it waits until the test reads.
  std::string pipe() const {
    const std::string path = folder_ / "pipe";
    mkfifo(path.c_str(), 0600);
    return path;
  }

  TemporaryDirectory folder_;
  fs::path errors_ = folder_ / "errors";
};

TEST_F(Stop, ATrainingSavesWhateverTheRequest) {
  for (const int number : kRequests) {
    const fs::path out = folder_ / std::to_string(number), metrics = out.string() + ".jsonl";
    const int code =
        asked({"--net", "lenet", "--batch", "8", "--data", "synthetic:40", "--no-test",
               "--max-batches", "1000000", "--display", "1", "--metrics", metrics, "--out", out},
              number, [&] { return fs::exists(metrics) && fs::file_size(metrics) > 0; });
    EXPECT_EQ(code, 75) << number;
    EXPECT_EQ(entries_in(out), 2) << "lock and checkpoint, after signal " << number;
    EXPECT_TRUE(said("; to go on:\n")) << get(errors_);
  }
}

// One group trains eight iterations, then two groups. The stop comes when the last of the eight
// iterations are unfinished.
TEST_F(Stop, BetweenTwoPiecesOfATraining) {
  for (const std::string at : {"5", "6", "7"}) {
    const fs::path out = folder_ / at;
    const int code = asked({"--net", "mlp", "--batch", "64", "--data", "synthetic:640", "--no-test",
                            "--groups", "2", "--fc", "replicated", "--cold-start", "8",
                            "--max-batches", "1000000", "--display", "1", "--out", out},
                           SIGTERM, [&] { return said("\n" + at + ", "); });
    EXPECT_EQ(code, 75) << get(errors_);
    EXPECT_TRUE(said("; to go on:\n")) << get(errors_);
    EXPECT_EQ(entries_in(out), 2) << "lock and checkpoint, after iteration " << at;
  }
}

TEST_F(Stop, BeforeTrainingThereIsNothingToSave) {
  for (const int number : kRequests) {
    const int code = asked({"--net", "lenet", "--data", "synthetic:40", "--no-test", "--metrics",
                            pipe(), "--out", folder_ / "run"},
                           number, [&] { return said("scheduler "); });
    EXPECT_EQ(code, 75) << number;
    EXPECT_TRUE(said("stopped; nothing was done yet that could be saved; to start again:\n  " +
                     kOmniRun + " --net lenet --data synthetic:40 --no-test --metrics "))
        << get(errors_);
  }
  EXPECT_EQ(entries_in(folder_ / "run"), 1) << "the lock";
}

TEST_F(Stop, ListensBeforeItSaysAnything) {
  const int code =
      asked({"--net", "lenet", "--data", "synthetic:40", "--no-test", "--metrics", pipe(), "--out",
             folder_ / "run"},
            SIGUSR1, [&] { return fs::exists(errors_) && fs::file_size(errors_) > 0; });
  EXPECT_EQ(code, 75);
}

// With LD_DEBUG=libs, the dynamic linker tells when it has found all libraries, and when it
// initialises each of them.
TEST_F(Stop, WhileLibrariesBegin) {
  const std::string told = pipe();
  const int line = ::open(told.c_str(), O_RDWR | O_CLOEXEC);
  for (const int number : kRequests) {
    setenv("LD_DEBUG", "libs", 1);
    const pid_t child = start_program({kOmniRun, "--net", "lenet", "--data", "synthetic:40",
                                       "--no-test", "--out", folder_ / "run"},
                                      "/dev/null", told);
    unsetenv("LD_DEBUG");
    std::string text;
    const auto read_on = [&] {
      char some[4096];
      const ssize_t count = ::read(line, some, sizeof some);
      text.append(some, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    };
    const auto begun = [&] { return text.find("calling init: ", text.find("calling init: ") + 1); };
    while (begun() == std::string::npos) read_on();
    kill(child, number);
    EXPECT_EQ(wait_for_program(child), 75) << number;
    EXPECT_EQ(::write(line, ".", 1), 1);
    while (text.back() != '.') read_on();
    EXPECT_NE(text.find("stopp"), std::string::npos) << text.substr(text.size() - 200);
  }
  close(line);
}

TEST_F(Stop, CommandsThatSaveNothingLeaveAtOnce) {
  const std::string weights = folder_ / "w";
  ASSERT_EQ(omni_run({"--net", "lenet", "--data", "synthetic:40", "--no-test", "--max-batches", "1",
                      "-q", "--save-weights", weights})
                .exit_code,
            0);
  const auto computing = [&] { return said("scheduler "); };
  for (const Words& words : {Words{"valid", "--net", "lenet", "--data", "synthetic:2000000",
                                   "--weights", weights, "--per-class-csv", folder_ / "m.csv"},
                             Words{"time", "--net", "lenet", "--iterations", "1000000"},
                             Words{"plan", "--net", "lenet", "--iterations", "100000"}}) {
    EXPECT_EQ(asked(words, SIGTERM, computing), 75) << words[0];
    EXPECT_TRUE(get(errors_).ends_with("\nstopped\n")) << get(errors_);
  }
  EXPECT_EQ(entries_in(folder_.path()), 2) << "weights and errors";
}

TEST_F(Stop, WhatWasPredictedIsPrinted) {
  const std::string weights = folder_ / "w", image = folder_ / "i.pgm", output = folder_ / "output";
  put(image, "P5 28 28 255\n" + std::string(28 * 28, 'x'));
  ASSERT_EQ(omni_run({"--net", "lenet", "--data", "synthetic:40", "--no-test", "--max-batches", "1",
                      "-q", "--save-weights", weights})
                .exit_code,
            0);
  Words words{"predict", "-q", "--net", "lenet", "--weights", weights, "--json"};
  words.insert(words.end(), 20'000, image);
  EXPECT_EQ(asked(
                words, SIGINT, [&] { return fs::exists(output) && !get(output).empty(); }, output),
            75);
  EXPECT_EQ(get(errors_), "stopped\n");
  EXPECT_EQ(get(output).back(), '\n') << "whole lines";
}

// nohup starts programs with SIGHUP ignored.
TEST_F(Stop, AHangUpThatIsIgnoredIsIgnored) {
  const fs::path metrics = folder_ / "m.jsonl";
  const pid_t child = start_program(
      {"/bin/sh", "-c",
       "trap '' HUP; exec " + kOmniRun +
           " -q --net lenet --batch 8 --data synthetic:40 --no-test --max-batches 300 --display 1 "
           "--out " +
           (folder_ / "run").string() + " --metrics " + metrics.string()});
  for (int tries = 0; tries < 12000 && !fs::exists(metrics); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(child, SIGHUP);
  EXPECT_EQ(wait_for_program(child), 0);
  EXPECT_EQ(read_metrics(metrics).size(), 300u);
}

// A shell script starts background programs with SIGINT ignored.
TEST_F(Stop, AnInterruptThatIsIgnoredIsSaidOnce) {
  const std::string train =
      kOmniRun + " --net mlp --batch 8 --data synthetic:40 --no-test --max-batches 1 2>&1";
  const auto said = [](const std::string& command) {
    return run_program({"/bin/sh", "-c", command}).output;
  };
  const std::string line =
      "SIGINT (Ctrl-C) is ignored, as in scripts' background jobs; use kill -TERM ";
  const std::string ignoring = said("trap '' INT; echo $$; exec " + train);
  const std::string pid = ignoring.substr(0, ignoring.find('\n') + 1);
  const std::size_t at = ignoring.find(line + pid);
  EXPECT_NE(at, std::string::npos) << ignoring;
  EXPECT_EQ(ignoring.find("SIGINT", at + line.size()), std::string::npos) << ignoring;
  EXPECT_EQ(said("/usr/bin/env --default-signal=INT " + train).find("SIGINT"), std::string::npos);
}

TEST_F(Stop, APipeThatCloses) {
  const std::string weights = folder_ / "w";
  const Finished run =
      run_program({"/bin/sh", "-c",
                   "{ " + kOmniRun +
                       " --net lenet --batch 8 --data synthetic:40 --no-test --max-batches 2 "
                       "--display 1 --save-weights " +
                       weights + " 2>&1; echo $? >&3; } 3>&2 | true"});
  EXPECT_EQ(run.errors, "0\n");
  EXPECT_TRUE(fs::exists(weights));
}

// If the file size limit is known to be too small, the training is refused. Otherwise writing fails
// later, as with a full disk.
TEST_F(Stop, LimitsOfFileSizesAreErrors) {
  const auto limited = [&](const std::string& kilobytes, const std::string& more) {
    return run_program({"/bin/sh", "-c",
                        "ulimit -f " + std::to_string(2 * std::stoi(kilobytes)) + "; cd " +
                            folder_.path().string() + " && exec " + kOmniRun +
                            " -q --net lenet --batch 8 --data synthetic:40 --no-test "
                            "--max-batches 1500 --display 1 " +
                            more});
  };
  for (const char* more : {"--save-weights w", "--out run", ""}) {
    const Finished refused = limited("1000", more);
    EXPECT_EQ(refused.exit_code, 2) << refused.errors;
    EXPECT_NE(refused.errors.find("File too large"), std::string::npos) << refused.errors;
  }
  EXPECT_EQ(entries_in(folder_.path()), 1) << "a run folder that was asked for";
  // Checkpoints also hold the optimizer's state and every group's replicas.
  for (const auto& [kilobytes, more] :
       {std::pair{"4000", "--out run --set adam=1"}, {"3500", "--out run --groups 2"}}) {
    const Finished refused = limited(kilobytes, more);
    EXPECT_EQ(refused.exit_code, 2) << more << refused.errors;
    EXPECT_NE(refused.errors.find("has no room for "), std::string::npos) << refused.errors;
  }
  const Finished run = limited("4000", "--metrics m --trace t --save-weights w");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.errors.find("cannot write the trace: File too large"), std::string::npos)
      << run.errors;
  EXPECT_TRUE(fs::exists(folder_ / "w"));
}

TEST_F(Stop, ATraceNeedsRoomBeforeAnythingElse) {
  for (const char* command :
       {"--data synthetic:40 --max-batches 1", "valid --weights none", "time"}) {
    const Finished refused =
        run_program({"/bin/sh", "-c",
                     "ulimit -f 2000; cd " + folder_.path().string() + " && exec " + kOmniRun +
                         " " + command + " -q --net lenet --trace t"});
    EXPECT_EQ(refused.exit_code, 2) << command << refused.errors;
    EXPECT_EQ(refused.errors,
              "error: " + folder_.path().string() +
                  ": has no room for 1048576 bytes: File too large (name a writable folder with "
                  "free space with --trace)\n");
    EXPECT_EQ(entries_in(folder_.path()), 0);
  }
}

// A training is stopped in an evaluation in the middle and in the last one, and is resumed each
// time. It must have the same evaluations as without a stop, each once, also with a virtual clock
// and with groups.
TEST_F(Stop, AnEvaluationThatWasInterruptedIsMadeUp) {
  const std::vector<Words> kinds{{},
                                 {"--groups", "2"},
                                 {"--strategy", "local", "--groups", "2"},
                                 {"--groups", "2", "--arrivals", "virtual", "--machine", "8-gpus"},
                                 {"--auto", "--arrivals", "virtual", "--machine", "8-gpus"},
                                 {"--strategy", "hogbatch", "--groups", "3", "--group-batches",
                                  "2x4,16", "--arrivals", "virtual", "--machine", "8-gpus"}};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const fs::path out = folder_ / std::to_string(kind);
    const auto words = [&](const std::string& name) {
      Words all{"--net",           "lenet",
                "--batch",         "16",
                "--data",          "synthetic:10000",
                "--deterministic", "-q",
                "--max-batches",   "24",
                "--display",       "1",
                "--test-every",    "8",
                "--resume",        "auto",
                "--out",           out.string() + name,
                "--metrics",       out.string() + name + ".jsonl"};
      all.insert(all.end(), kinds[kind].begin(), kinds[kind].end());
      return all;
    };
    const auto points = [&](const std::string& name) {
      std::vector<nlohmann::json> found;
      for (nlohmann::json line : read_metrics(out.string() + name + ".jsonl"))
        if (line.contains("test_loss")) {
          line.erase("time");
          found.push_back(line);
        }
      return found;
    };
    ASSERT_EQ(omni_run(words("straight")).exit_code, 0);
    const std::string metrics = out.string() + "stopped.jsonl";
    for (const int at : {8, 16, 24}) {
      const std::string line = "{\"iteration\":" + std::to_string(at) + ",";
      const auto reached = [&] {
        return fs::exists(metrics) && get(metrics).find(line) != std::string::npos;
      };
      if (reached()) continue;  // the request before came late; a program not begun would die of it
      const int code = asked(words("stopped"), SIGTERM, reached);
      EXPECT_TRUE(code == 75 || code == 0) << "it may have been faster: " << get(errors_);
    }
    const Finished ended = omni_run(words("stopped"));
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    EXPECT_EQ(points("straight").size(), 3u);
    EXPECT_EQ(points("stopped"), points("straight")) << kind;
  }
}

// Two trainings of one net without --out are stopped at the same time, as when a machine shuts
// down.
TEST_F(Stop, RunsWithoutAFolderDoNotTakeTheSame) {
  std::vector<pid_t> children;
  for (const char* name : {"a", "b"})
    children.push_back(start_program(
        {"/bin/sh", "-c",
         "cd " + folder_.path().string() + " && exec " + kOmniRun +
             " -q --net lenet --batch 8 --data synthetic:40 --no-test --display 1 --workers 1 "
             "--max-batches 1000000 --metrics " +
             name}));
  for (const char* name : {"a", "b"})
    for (int tries = 0;
         tries < 12000 && (!fs::exists(folder_ / name) || get(folder_ / name).empty()); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (const pid_t child : children) kill(child, SIGTERM);
  for (const pid_t child : children) EXPECT_EQ(wait_for_program(child), 75);
  for (const char* name : {"lenet", "lenet-2"})
    EXPECT_EQ(entries_in(folder_ / "omni-runs" / name), 2) << name;
}

}  // namespace
}  // namespace omni::test
