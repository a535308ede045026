// These tests check that omni-run slurm refuses wrong options when it writes the job script, not
// when the job starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

Words joined(Words first, const Words& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

Finished write_job(const Words& words) { return omni_run(joined({"slurm"}, words)); }

std::string error_of(const Finished& run) {
  const std::size_t at = run.errors.find("error: ");
  return at == std::string::npos ? "" : run.errors.substr(at);
}

void expect_refused(const Words& words, const std::string& text, int code = 2) {
  const Finished run = write_job(words);
  EXPECT_EQ(run.exit_code, code) << run.errors;
  EXPECT_EQ(run.output, "");
  EXPECT_THAT(error_of(run), HasSubstr(text)) << testing::PrintToString(words);
}

TEST(JobIsRefused, AsItsTrainingIs) {
  const TemporaryDirectory folder;
  put(folder / "train.txt", "nowhere.jpg 3\n");
  put(folder / "metrics", "{\"iteration\":1}\n");
  const Words trainings[] = {
      {"--net", "lenet", "--strategy", "nope"},
      {"--net", "lenet", "--strategy", "sma", "--guard", "on"},
      {"--net", "lenet", "--auto", "--deterministic"},
      {"--net", "lenet", "--auto", "--groups", "auto"},
      {"--net", "lenet", "--groups", "2", "--set", "adam=1"},
      {"--net", "lenet", "--groups", "2", "--group-layout", "0"},
      {"--net", "lenet", "--groups", "2", "--sched", "heteroprio"},
      {"--net", "lenet", "--sched", "nope"},
      {"--net", "lenet", "--batch", "10", "--subdivisions", "3"},
      {"--net", "lenet", "--set", "nothing=1"},
      {"--net", "lenet", "--machine", "here"},
      {"--net", "lenet", "--arrivals", "virtual", "--machine", "nowhere"},
      {"--net", "lenet", "--data", "synthetic:64:5000"},
      {"--net", "lenet", "--data", "synthetic:none"},
      {"--net", "lenet", "--data", "fashion-mnits"},
      {"--net", "lenet", "--data", folder / "train.txt"},
      {"--net", "lenet", "--data", "synthetic", "--scale-features"},
      {"--net", "lenet", "--weights", "nowhere.weights"},
      {"--net", "lenet", "--resume", "nowhere"},
      {"--net", "lenet", "--save-weights", "nowhere/lenet.weights"},
      {"--net", "lenet", "--resume", "none", "--metrics", folder / "metrics"},
      {"--net", "lenet", "--trace", folder / "metrics"},
      {"--net", "lenet", "--epochs", "-1"},
      {"--net", "lenet", "--impl", "nope"}};
  for (const Words& words : trainings) {
    const Finished trained = omni_run(joined(words, {"--gpus", "none"}));
    ASSERT_NE(trained.exit_code, 0) << testing::PrintToString(words);
    ASSERT_NE(error_of(trained), "") << trained.errors;
    const Finished run = write_job(joined(words, {"--", "--gpus", "none"}));
    EXPECT_EQ(run.exit_code, trained.exit_code) << testing::PrintToString(words);
    EXPECT_EQ(run.output, "");
    EXPECT_EQ(error_of(run).substr(0, error_of(run).find(" (omni-run")),
              error_of(trained).substr(0, error_of(trained).find(" (omni-run")));
  }
}

TEST(JobIsRefused, AsItsRanksAre) {
  const auto on_nodes = [](const char* nodes, const Words& words, const std::string& text) {
    expect_refused(joined({"--nodes", nodes, "--net", "mlp", "--data", "synthetic:64:10"}, words),
                   text);
  };
  on_nodes("2", {"--groups", "2"}, "--fc merged: all layers would be on the first rank");
  on_nodes("3", {"--batch", "2"}, "3 ranks cannot share 2 images");
  on_nodes("2-3", {"--batch", "2"}, "3 ranks cannot share 2 images");
  on_nodes("2", {"--batch", "16", "--deterministic", "--slice", "16"}, "(--slice 8, say)");
  on_nodes("2", {"--group-layout", "0-1:0"}, "--group-layout: one group is on all ranks");
  on_nodes("2", {"--arrivals", "virtual", "--machine", "8-gpus", "--slice", "8"},
           "--arrivals virtual");
  for (const Words& one : {Words{"--nodes", "1"}, Words{}, Words{"--nodes", "2-4"}})
    EXPECT_EQ(write_job(joined(one, {"--net", "lenet", "--auto"})).exit_code, 0);
  expect_refused({"--net", "lenet", "--nodes", "2", "--template", "gpu"},
                 "--nodes 2: the template gpu trains on one node (--template nodes)");
  EXPECT_EQ(write_job({"--net", "lenet", "--nodes", "3", "--template", "ensemble"}).exit_code, 0);
}

TEST(JobIsRefused, ForWhatSbatchRefuses) {
  for (const auto& [option, value, text] : std::vector<std::array<std::string, 3>>{
           {"--time", "2hours", "--time '2hours': is no time (minutes, minutes:seconds,"},
           {"--nodes", "abc", "--nodes 'abc': is no number of nodes (as in 4, or 2-4)"},
           {"--nodes", "0", "--nodes '0': is no number of nodes"},
           {"--array", "8-1", "--array '8-1': are no numbers of tasks (as in 0-7,"},
           {"--mem", "much", "--mem 'much': is no size (as in 16G;"},
           {"--cpus-per-task", "some", "--cpus-per-task 'some': is no number of cores (as in 8)"},
           {"--gres", "gpu:a:b", "--gres 'gpu:a:b': is no list of resources"},
           {"--gpus", "all", "--gpus 'all': is no number of GPUs (as for sbatch: 2, or h100:2; "},
           {"--gpus", "0,1", "come behind --: -- --gpus 0,1)"},
           {"--gpus-per-node", "none", "--gpus-per-node 'none': is no number of GPUs (as in 2,"},
           {"--partition", "it's", "--partition 'it\\x27s': holds a character that an #SBATCH"},
           {"--account", "a\x01", "--account 'a\\x01': holds a character"}})
    expect_refused({option, value, "--net", "lenet"}, text);
  expect_refused({"--time", "1", "--template", "trace", "--net", "vgg-16", "--data", "synthetic"},
                 "--time: the job ends in 60 s, and ");
}

TEST(JobIsRefused, ThatIsStoppedAtOnce) {
  const Words net{"--net", "lenet", "--data", "synthetic:64"};
  for (const auto& [time, meant] :
       std::vector<std::array<std::string, 2>>{{"2:00", "2:00 is 2 minutes; 2:00:00 is 2 hours"},
                                               {"1:30", "1:30 is 2 minutes; 1:30:00 is 1.5 hours"},
                                               {"1", "1 is 1 minute; 1:00:00 is 1 hour"},
                                               {"0:02:00", "0:02:00 is 2 minutes"}}) {
    for (const char* form : {"requeue", "cpu", "gpu", "array", "ensemble", "nodes"})
      expect_refused(joined({"--time", time, "--template", form}, net),
                     "--time " + time + ": the template " + form +
                         " has its training stopped 120 s before the end: at once (" + meant + ")");
    const Finished run = write_job(joined({"--time", time, "--template", "trace"}, net));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(run.errors, "warning: --time " + meant + "\n");
  }
  EXPECT_EQ(write_job(joined({"--time", "9"}, net)).errors,
            "warning: --time 9 is 9 minutes; 9:00:00 is 9 hours\n");
  for (const char* time : {"10", "10:00", "2:00:00", "1-0", "UNLIMITED"})
    EXPECT_EQ(write_job(joined({"--time", time}, net)).errors, "") << time;
}

TEST(JobIsRefused, WhereTrainingsWouldWriteTheSame) {
  for (const char* option : {"--out", "--metrics", "--save-weights"}) {
    expect_refused({"--net", "lenet", "--array", "0-3", option, "there"},
                   std::string(option) +
                       ": all tasks of the array would write the same (leave it "
                       "out: the template names one for each)");
    expect_refused({"--net", "lenet", "--template", "ensemble", option, "there"},
                   std::string(option) + ": all trainings of the job would write the same");
  }
  const TemporaryDirectory folder;
  put(folder / "own.sbatch", "#!/bin/bash\nset -euo pipefail\nomni-run \"$@\"\n");
  expect_refused(
      {"--net", "lenet", "--template", folder / "own.sbatch", "--array", "0-3", "--trace", "there"},
      "--trace: all tasks of the array would write the same (leave it out)");
  for (const char* form : {"array", "ensemble"})
    expect_refused({"--net", "lenet", "--template", form, "--seed", "7"},
                   std::string("--seed: the template ") + form + " gives it itself (leave it out,");
  expect_refused({"--net", "lenet", "--template", "array", "--learning-rate", "0.1"},
                 "--learning-rate: the template array gives it itself");
  const Finished seeded = write_job({"--net", "lenet", "--array", "0-3", "--seed", "7"});
  EXPECT_EQ(seeded.exit_code, 0);
  EXPECT_THAT(seeded.errors, HasSubstr("warning: --seed: all tasks of the array train alike"));
}

TEST(JobIsRefused, WhereItWouldBeginAgainAfterEachStop) {
  const TemporaryDirectory folder;
  for (const char* form : {"requeue", "nodes", "array", "ensemble"})
    expect_refused({"--template", form, "--net", "lenet", "--resume", "none"},
                   std::string("--resume none: the template ") + form +
                       " requeues its job, which must go on with --resume auto (leave it out: a "
                       "new job has a new run folder)");
  put(folder / "own.sbatch",
      "#!/bin/bash\n#SBATCH --requeue\nset -euo pipefail\nomni-run \"$@\"\n");
  expect_refused({"--template", folder / "own.sbatch", "--net", "lenet", "--resume", "none"},
                 "the template own requeues its job");
  // The folder does not exist here, but it may be on a node's own disk.
  expect_refused({"--net", "lenet", "--resume", "/no/disk/run"},
                 "(--out /no/disk/run in its place goes on there)");
  expect_refused({"--net", "lenet", "--resume", "/no/disk/run", "--array", "1-3"},
                 "(copy the template, without its requeues)");
  for (const Words& fine :
       {Words{"--resume", "auto"}, Words{"--resume", "none", "--template", "cpu"}})
    EXPECT_EQ(write_job(joined({"--net", "lenet"}, fine)).exit_code, 0);
}

TEST(JobIsWritten, ThoughItsFilesAreElsewhere) {
  const Finished run = write_job({"--net", "lenet", "--data", "/no/disk/of/a/node", "--weights",
                                  "/no/disk/lenet.weights", "--save-weights",
                                  "/no/disk/after.weights", "--metrics", "/no/disk/metrics"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_THAT(run.output, HasSubstr(" --data /no/disk/of/a/node --weights /no/disk/lenet.weights"));
  for (const char* said : {"--data /no/disk/of/a/node", "--weights /no/disk/lenet.weights",
                           "--save-weights /no/disk/after.weights", "--metrics /no/disk/metrics"})
    EXPECT_THAT(run.errors, HasSubstr(std::string("warning: ") + said +
                                      ": is not on this machine; the job's nodes must have it\n"));
  EXPECT_THAT(run.errors, Not(HasSubstr("error")));
}

TEST(JobOptions, ThatAreUnknownPointToTheirHelp) {
  expect_refused({"--net", "lenet", "--mail-type", "END"},
                 "unknown option '--mail-type' ('omni-run slurm --help' lists its own, 'omni-run "
                 "--help' the others");
  expect_refused({"--net", "lenet", "--partion", "x"}, "did you mean '--partition'?");
  expect_refused({"--net", "lenet", "--gpu-per-node", "2"}, "did you mean '--gpus-per-node'?");
  expect_refused({"--net", "lenet", "--", "--nodes", "2"}, "unknown option '--nodes'");
  expect_refused({"--net", "lenet", "--time"}, "omni-run slurm --help");
  const Finished training = omni_run({"--net", "lenet", "--frobnicate"});
  EXPECT_THAT(training.errors, HasSubstr("'omni-run --help' lists them"));
}

TEST(JobSweep, is_refused_with_a_reason) {
  const auto refused = [](Words words, const std::string& text) {
    words.insert(words.begin(), "slurm");
    words.insert(words.end(), {"--net", "lenet"});
    const Finished run = omni_run(std::move(words));
    EXPECT_EQ(run.exit_code, 2) << run.output;
    EXPECT_THAT(run.errors, HasSubstr(text));
  };
  refused({"--sweep", "learning_rat=1,2"}, "did you mean 'learning_rate'?");
  refused({"--sweep", "momentum=0.5,2", "--sweep", "batch=8"}, "momentum");
  refused({"--sweep", "tpe:8", "momentum=0.5,0.9"}, "--sweep tpe: results decide which settings");
  refused({"--sweep", "momentum=0.5,0.9", "--array", "0-2"},
          "--array 0-2: the sweep has 2 settings, from 0 on (");
  refused({"--sweep", "learning_rate=0.1,0.2", "--template", "array"},
          "--sweep learning_rate: the template array gives it itself (");
  refused({"--sweep", "batch=8,9999999999"}, "batch");
}

TEST(HeterogeneousJob, is_refused_with_a_reason) {
  const auto refused = [](Words words, const std::string& text) {
    words.insert(words.begin(), "slurm");
    words.insert(words.end(), {"--net", "lenet", "--batch", "8"});
    const Finished run = omni_run(std::move(words));
    EXPECT_EQ(run.exit_code, 2) << run.output;
    EXPECT_THAT(run.errors, HasSubstr(text));
  };
  refused({"--nodes", "1", ":"}, ":: no option of sbatch follows it (");
  refused({"--nodes", "1", ":", "--nodes", "x"}, "--nodes 'x': is no number of nodes");
  refused({"--nodes", "1", ":", "--nodes", "1", "--time", "60"},
          "--time: belongs to all components of the job (");
  refused({"--array", "0-3", ":", "--nodes", "2"}, "Slurm has no arrays of heterogeneous jobs");
  refused({"--template", "requeue", ":", "--nodes", "2"},
          "the template requeue does not start ranks on all components");
  refused({"--gpus-per-node", "1", ":", "--nodes", "2"}, "have 1 and 0 GPUs, ranks need equally");
  refused({"--nodes", "4", ":", "--nodes", "5"}, "9 ranks cannot share 8 images");
}

}  // namespace
}  // namespace omni::test
