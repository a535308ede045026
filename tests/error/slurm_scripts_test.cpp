// These tests run the scripts of omni-run slurm in bash. A replaced srun only prints its arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

std::string job_script(Words words) {
  words.insert(words.begin(), "slurm");
  const Finished made = omni_run(std::move(words));
  EXPECT_EQ(made.exit_code, 0) << made.errors;
  return made.output;
}

// Job runs a script with environment variables as in a Slurm job. The output has each word of each
// srun on a line of its own, followed by $.
struct Job {
  explicit Job(const std::string& script, const Words& variables = {}) {
    put(folder / "script", script);
    // flock keeps the lines of several sruns that run at once apart.
    put(folder / "srun",
        "#!/bin/bash\n{ flock 9; printf '%s$\\n' \"--end\" \"$SLURM_JOB_END_TIME\" --pwd "
        "\"$PWD\" \"$@\"; } 9>\"$0.lock\"\nexit \"${CODE:-0}\"\n");
    put(folder / "scontrol", "#!/bin/bash\necho \"scontrol $*\"\n");
    // As with Slurm, the number of a job array alone stands for all its tasks.
    put(folder / "squeue",
        "#!/bin/bash\nfor word; do case $word in\n15) echo N/A; echo 2030-01-01T00:00:00;;\n"
        "15_*) echo \"2031-01-01T00:00:0${word#15_}\";;\n17) echo 2032-01-01T00:00:00;;\n"
        "esac; done\n");
    for (const char* program : {"srun", "scontrol", "squeue"})
      std::filesystem::permissions(folder / program, std::filesystem::perms::owner_all);
    Words command{"/usr/bin/env",
                  "-i",
                  "-C",
                  folder.path(),
                  "PATH=" + folder.path().string() + ":/usr/bin:/bin",
                  "TZ=UTC",
                  "SLURM_JOB_ID=17",
                  "SLURM_NNODES=2"};
    command.insert(command.end(), variables.begin(), variables.end());
    command.insert(command.end(), {"/bin/bash", "script"});
    done = run_program(command);
    EXPECT_EQ(done.errors, "");
  }
  std::string after(const std::string& option) const {
    const std::string line = option + "$\n";
    const std::size_t at = done.output.find(line);
    if (at == std::string::npos) return "";
    const std::size_t begin = at + line.size();
    return done.output.substr(begin, done.output.find("$\n", begin) - begin);
  }
  TemporaryDirectory folder;
  Finished done;
};

Words task(int number) {
  return {"SLURM_ARRAY_JOB_ID=15", "SLURM_ARRAY_TASK_ID=" + std::to_string(number)};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(JobGpus, AreANumberAsForSbatch) {
  const auto lines = [](Words words) {
    words.insert(words.end(), {"--net", "lenet"});
    std::string found;
    std::istringstream script(job_script(words));
    for (std::string line; std::getline(script, line);)
      if (line.find("gpu") != line.npos && !line.starts_with("# ") && !line.starts_with("PATH=") &&
          !line.starts_with("#SBATCH --chdir="))
        found += line + '\n';
    return found;
  };
  EXPECT_EQ(lines({"--gpus", "4"}), "#SBATCH --gpus-per-node=4\n");
  EXPECT_EQ(lines({"--gpus=h100:2"}), "#SBATCH --gpus-per-node=h100:2\n");
  EXPECT_EQ(lines({"--gpus", "4", "--nodes", "2"}), "#SBATCH --gpus-per-node=2\n");
  EXPECT_EQ(lines({"--gpus-per-node", "a100:3", "--nodes", "2"}),
            "#SBATCH --gpus-per-node=a100:3\n");
  EXPECT_EQ(lines({"--template", "gpu"}), "#SBATCH --gres=gpu:1\n");
  EXPECT_EQ(lines({"--template", "gpu", "--gpus", "2"}), "#SBATCH --gpus-per-node=2\n");
  EXPECT_EQ(lines({"--template", "gpu", "--gres", "gpu:2"}), "#SBATCH --gres=gpu:2\n");
  EXPECT_EQ(lines({}), "");
  // A list of GPU numbers is passed to the training, a number of GPUs to Slurm.
  EXPECT_EQ(lines({"--gpus", "2", "--batch", "64", "--"}), "#SBATCH --gpus-per-node=2\n");
  const std::string numbered =
      job_script({"--gpus", "4", "--net", "lenet", "--", "--gpus", "0,2", "--seed=3"});
  EXPECT_THAT(numbered, HasSubstr("\nset -- --net lenet --gpus 0,2 --seed=3 \"$@\"\n"));
  EXPECT_THAT(numbered, HasSubstr("#SBATCH --gpus-per-node=4\n"));
}

TEST(JobGpus, ThatNoJobCanHaveAreRefused) {
  const auto refused = [](Words words, int code, const std::string& text) {
    words.insert(words.begin(), {"slurm", "--net", "lenet"});
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, code) << run.errors;
    EXPECT_EQ(run.output, "");
    EXPECT_THAT(run.errors, HasSubstr(text));
  };
  refused({"--gpus", "3", "--nodes", "2"}, 2,
          "--gpus 3: 2 nodes cannot have equally many of them (--gpus-per-node 1, say)");
  refused({"--gpus", "4", "--nodes", "2-4"}, 2, "--gpus 4: the number of nodes that share them");
  refused({"--gpus", "4", "--gres", "gpu:4"}, 2, "asked for twice (give one of --gpus,");
  refused({"--gpus", "2", "--", "--gpus", "0,2"}, 5,
          "--gpus 0,2: there is no GPU 2 (the job has 2 on each node, counted from 0");
  refused({"--", "--gpus", "0,0"}, 2, "--gpus 0,0: names 0 twice");
}

TEST(JobArray, HasATrainingForEachTask) {
  const std::string script = job_script({"--array", "1-8", "--net", "lenet"});
  EXPECT_THAT(script, HasSubstr("#SBATCH --array=1-8\n"));
  EXPECT_THAT(script, HasSubstr("#SBATCH --nodes=1\n"));
  std::set<std::string> folders;
  for (int number = 1; number <= 8; ++number) {
    const Job job(script, task(number));
    EXPECT_EQ(job.done.exit_code, 0);
    folders.insert(job.after("--out"));
    EXPECT_EQ(job.after("--metrics"), job.after("--out") + "/metrics.jsonl");
    EXPECT_EQ(job.after("--save-weights"), job.after("--out") + "/weights");
    EXPECT_TRUE(std::filesystem::is_directory(job.folder / job.after("--out")));
    EXPECT_EQ(job.after("--seed"), "") << "its number, by default";
  }
  EXPECT_EQ(folders.size(), 8);
  EXPECT_TRUE(folders.contains("omni-runs/15/8"));
  const std::string wide = job_script({"--array", "0-3%2", "--nodes", "4", "--net", "lenet"});
  EXPECT_THAT(wide, HasSubstr("#SBATCH --nodes=4\n"));
  EXPECT_THAT(wide, HasSubstr("--mpi=pmi2"));
}

TEST(JobArray, OfRatesGoesOnWithTheNextSeed) {
  const std::string script =
      job_script({"--template", "array", "--array", "1-8", "--net", "lenet"});
  std::set<std::string> settings, folders;
  for (int number = 1; number <= 8; ++number) {
    const Job job(script, task(number));
    settings.insert(job.after("--learning-rate") + " " + job.after("--seed"));
    folders.insert(job.after("--out"));
  }
  EXPECT_THAT(settings, testing::UnorderedElementsAre("0.01 1", "0.003 1", "0.001 1", "0.03 2",
                                                      "0.01 2", "0.003 2", "0.001 2", "0.03 3"));
  EXPECT_EQ(folders.size(), 8);
}

TEST(JobArray, OfEnsemblesHasOtherMembersInEachTask) {
  const std::string script =
      job_script({"--template", "ensemble", "--array", "0-1", "--nodes", "2", "--net", "lenet"});
  std::string all;
  for (const int number : {0, 1}) all += Job(script, task(number)).done.output;
  for (const char* seed : {"1", "2", "3", "4"}) {
    EXPECT_EQ(count(all, std::string("--seed$\n") + seed + "$\n"), 1u) << all;
    EXPECT_EQ(count(all, std::string("--out$\nomni-runs/15/") + seed + "$\n"), 1u) << all;
  }
}

TEST(JobScripts, KeepMetricsAndWeights) {
  for (const char* form : {"cpu", "gpu", "requeue", "nodes", "array", "ensemble"}) {
    SCOPED_TRACE(form);
    const Job job(job_script({"--template", form, "--net", "lenet", "--batch", "64"}), task(0));
    EXPECT_EQ(job.done.exit_code, 0);
    EXPECT_THAT(job.after("--metrics"), HasSubstr("/metrics.jsonl"));
    EXPECT_THAT(job.after("--save-weights"), HasSubstr("/weights"));
    EXPECT_EQ(job.after("--resume"), "auto");
    EXPECT_THAT(job.done.output, HasSubstr("--net$\nlenet$\n--batch$\n64$\n"));
  }
  // The script's own --metrics and --save-weights come before those of the command line. If an
  // option is given twice, a training uses the last one.
  const Job own(
      job_script({"--nodes", "2", "--net", "lenet", "--metrics", "m", "--save-weights", "w"}));
  EXPECT_GT(own.done.output.find("--metrics$\nm$\n"), own.done.output.find("/metrics.jsonl$\n"));
  const Finished both =
      omni_run({"--net", "mlp", "--data", "synthetic:64:10", "--max-batches", "1", "--no-test",
                "--metrics", own.folder / "a", "--metrics", own.folder / "b", "--save-weights",
                own.folder / "c", "--save-weights", own.folder / "d"});
  EXPECT_EQ(both.exit_code, 0) << both.errors;
  const auto is_there = [&](const char* name) {
    return std::filesystem::exists(own.folder / name);
  };
  EXPECT_FALSE(is_there("a") || is_there("c"));
  EXPECT_TRUE(is_there("b") && is_there("d"));
}

// Each training of a job or array has a trace of its own.
TEST(JobScripts, TraceEachTraining) {
  const auto traces_of = [](Words words, const Words& variables) {
    words.insert(words.end(), {"--net", "lenet", "--trace", "my traces"});
    const std::string output = Job(job_script(words), variables).done.output;
    std::set<std::string> traces;
    const std::string option = "--trace$\n";
    for (std::size_t at = 0; (at = output.find(option, at)) != output.npos;) {
      at += option.size();
      traces.insert(output.substr(at, output.find("$\n", at) - at));
    }
    return traces;
  };
  for (const char* form : {"cpu", "gpu", "requeue", "nodes", "array"})
    EXPECT_THAT(traces_of({"--template", form, "--array", "0-1"}, task(1)),
                testing::ElementsAre("my traces/1"))
        << form;
  EXPECT_THAT(traces_of({}, {}), testing::ElementsAre("my traces")) << "there is one training";
  EXPECT_THAT(traces_of({"--template", "ensemble", "--nodes", "2"}, {}),
              testing::ElementsAre("my traces/1", "my traces/2"));
  EXPECT_THAT(traces_of({"--template", "ensemble", "--nodes", "2", "--array", "0-1"}, task(1)),
              testing::ElementsAre("my traces/3", "my traces/4"));
}

TEST(JobScripts, RequeueWhatWasStoppedAndUpToTenLosses) {
  const std::string script = job_script({"--nodes", "2", "--net", "lenet"});
  EXPECT_THAT(Job(script, {"CODE=75"}).done.output, HasSubstr("scontrol requeue 17"));
  EXPECT_THAT(Job(script, {"CODE=2"}).done.output, Not(HasSubstr("scontrol")));
}

// Slurm gives the last task of an array the array's number. Requeueing that number would run
// finished tasks again.
TEST(JobScripts, OfArraysMeanTheirOwnTask) {
  for (const char* form : {"requeue", "nodes", "array", "ensemble"}) {
    SCOPED_TRACE(form);
    const std::string script = job_script({"--template", form, "--net", "lenet"});
    Words last = task(3);
    last.insert(last.end(), {"SLURM_JOB_ID=15", "CODE=75"});
    const Job job(script, last);
    EXPECT_EQ(job.done.exit_code, 75);
    EXPECT_THAT(job.done.output, HasSubstr("scontrol requeue 15_3\n"));
  }
}

TEST(JobScripts, KnowTheEndOfTheirTime) {
  for (const char* form : {"cpu", "gpu", "requeue", "nodes", "array", "ensemble"}) {
    SCOPED_TRACE(form);
    const std::string script = job_script({"--template", form, "--net", "lenet"});
    Words last = task(3);
    last.push_back("SLURM_JOB_ID=15");
    EXPECT_EQ(Job(script, last).after("--end"), "1924992003");  // 2031-01-01 and three seconds
    last.push_back("SLURM_JOB_END_TIME=99");
    EXPECT_EQ(Job(script, last).after("--end"), "99") << "Slurm's own word counts";
  }
  // 1956528000 is the first second of 2032.
  EXPECT_EQ(Job(job_script({"--net", "lenet"})).after("--end"), "1956528000");
}

TEST(JobScripts, StartWhereTheyWereWritten) {
  const TemporaryDirectory place;
  const auto written_in = [&](const std::string& name, const Words& more = {}) {
    std::filesystem::create_directory(place / name);
    Words command{"/usr/bin/env", "-C", place / name, kOmniRun, "slurm", "--net", "lenet"};
    command.insert(command.end(), more.begin(), more.end());
    const Finished made = run_program(command);
    EXPECT_EQ(made.exit_code, 0) << made.errors;
    return made.output;
  };
  const std::string path = std::filesystem::canonical(place.path());
  EXPECT_THAT(written_in("plain"), HasSubstr("\n#SBATCH --chdir=" + path + "/plain\n"));
  EXPECT_THAT(written_in("it's # \"a\""),
              HasSubstr("\n#SBATCH --chdir=\"" + path + "/it's # \\\"a\\\"\"\n"));
  // A line break cannot be in an #SBATCH line, and Slurm 22.05 writes no log in a folder with a
  // backslash in its name.
  for (const std::string name : {"two\nlines", "back\\slash"}) {
    const std::string script = written_in(name);
    EXPECT_THAT(script, Not(HasSubstr("#SBATCH --chdir")));
    EXPECT_EQ(Job(script).after("--pwd"), path + "/" + name);
  }
  // If the template sets a folder, with -D or --chdir, the script keeps it.
  for (const char* line : {"#SBATCH -D /there", "#SBATCH --chdir=/there"}) {
    put(place / "own.sbatch",
        std::string("#!/bin/bash\n") + line + "\nset -euo pipefail\nsrun omni-run \"$@\"\n");
    const std::string own = written_in("own", {"--template", place / "own.sbatch"});
    EXPECT_THAT(own, HasSubstr("\n#SBATCH --chdir=/there\n"));
    EXPECT_EQ(count(own, "chdir"), 1u);
    std::filesystem::remove(place / "own");
  }
}

TEST(JobScripts, OfArraysNameTheTaskInTheirLog) {
  const auto log_of = [](Words words) {
    words.insert(words.end(), {"--net", "lenet"});
    const std::string script = job_script(words), option = "#SBATCH --output=";
    const std::size_t at = script.find(option) + option.size();
    return script.substr(at, script.find('\n', at) - at);
  };
  for (const char* form : {"cpu", "gpu", "requeue", "nodes", "array", "ensemble", "trace"})
    EXPECT_EQ(log_of({"--template", form, "--array", "1-3"}), "%x-%A_%a.out") << form;
  EXPECT_EQ(log_of({}), "%x-%j.out");
  const TemporaryDirectory folder;
  put(folder / "own.sbatch",
      "#!/bin/bash\n#SBATCH -a 1-3\n#SBATCH -o log-%j\nset -euo pipefail\nomni-run \"$@\"\n");
  EXPECT_EQ(log_of({"--template", folder / "own.sbatch"}), "log-%A_%a");
}

TEST(JobScripts, FindANetWhateverItsName) {
  const TemporaryDirectory folder;
  for (const std::string name :
       {"line\nend.cfg", "bell\x07.cfg", "it's $(id) `id`.cfg", "tab\tand \\back\\.cfg",
        "\xff bytes.cfg", "größe\x1b[31m.cfg", "$'x'\x01.cfg"}) {
    const std::string net = folder / name;
    std::filesystem::copy_file(std::filesystem::path(kOmniRun).parent_path().parent_path() /
                                   "share/omnivore/nets/lenet.cfg",
                               net);
    const Job job(job_script({"--net", net}));
    EXPECT_EQ(job.after("--net"), net);
  }
}

TEST(JobSweep, has_a_task_for_each_setting) {
  const std::string script =
      job_script({"--sweep", "learning_rate=log:1e-3..1e-1:3", "gamma=0.5,0.9", "--net", "lenet",
                  "--learning-rate", "0.2", "--epochs", "3"});
  EXPECT_THAT(script, HasSubstr("\n#SBATCH --array=0-5\n"));
  EXPECT_THAT(script, HasSubstr("\n#SBATCH --output=%x-%A_%a.out\n"));
  EXPECT_THAT(script, Not(HasSubstr("0.2"))) << "the setting's own rate counts";
  const Job third(script, task(3));
  EXPECT_THAT(third.done.output,
              HasSubstr("setting 3 of the sweep: --learning-rate=0.01 --set gamma=0.9\n"));
  EXPECT_THAT(third.done.output,
              HasSubstr("--net$\nlenet$\n--epochs$\n3$\n--seed$\n1$\n--learning-rate=0.01$\n"
                        "--set$\ngamma=0.9$\n"));
  EXPECT_EQ(third.after("--out"), "omni-runs/15/3");
  std::set<std::string> settings;
  for (int number = 0; number < 6; ++number) {
    const std::string said = Job(script, task(number)).done.output;
    settings.insert(said.substr(said.find(" of the sweep: ")));
  }
  EXPECT_EQ(settings.size(), 6u);
}

TEST(JobSweep, keeps_given_seeds_and_tasks) {
  const std::string script =
      job_script({"--array", "1,3%2", "--sweep", "momentum=0.5,0.9,0.95,0.99", "--net", "lenet",
                  "--seed", "7"});
  EXPECT_THAT(script, HasSubstr("\n#SBATCH --array=1,3%2\n"));
  EXPECT_EQ(count(script, "--seed"), 1u);
  EXPECT_EQ(Job(script, task(1)).after("--seed"), "7");
  const std::string seeds = job_script({"--sweep", "seed=4,5", "--net", "lenet"});
  EXPECT_THAT(Job(seeds, task(1)).done.output, HasSubstr("--seed=5$\n"));
  EXPECT_EQ(count(seeds, "--seed 1"), 0u);
}

TEST(HeterogeneousJob, has_components) {
  const std::string script =
      job_script({"--nodes", "2", "--partition", "fast", ":", "--nodes=4", "--cpus-per-task", "16",
                  "--net", "lenet", "--time", "60"});
  const std::size_t border = script.find("\n#SBATCH hetjob\n");
  ASSERT_NE(border, script.npos);
  const std::string first = script.substr(0, border),
                    second = script.substr(border, script.find("set -euo") - border);
  EXPECT_THAT(first, HasSubstr("\n#SBATCH --nodes=2\n"));
  EXPECT_THAT(first, Not(HasSubstr("--cpus-per-task")));
  for (const char* line : {"--nodes=4", "--cpus-per-task=16", "--exclusive", "--time=60",
                           "--requeue", "--partition=fast"})
    EXPECT_THAT(second, HasSubstr("\n#SBATCH " + std::string(line) + "\n"));
  EXPECT_THAT(second, Not(HasSubstr("--output"))) << "the job has one log";
  EXPECT_THAT(Job(script, {"SLURM_HET_SIZE=2"}).done.output, HasSubstr("--het-group=0-1$\n"));
  EXPECT_THAT(Job(script).done.output, Not(HasSubstr("--het-group")));
}

}  // namespace
}  // namespace omni::test
