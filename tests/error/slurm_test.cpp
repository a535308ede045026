// These tests check job scripts for Slurm, and that a training reads its job's time limit and array
// task from the environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

Finished slurm(Words words) {
  words.insert(words.begin(), "slurm");
  return omni_run(std::move(words));
}

Finished in_job(Words variables, Words words) {
  variables.insert(variables.begin(), "/usr/bin/env");
  variables.push_back(kOmniRun);
  variables.insert(variables.end(), words.begin(), words.end());
  return run_program(std::move(variables));
}

std::string in_seconds(int seconds) {
  return "SLURM_JOB_END_TIME=" + std::to_string(std::time(nullptr) + seconds);
}

TEST(JobScript, trains_as_the_command_line_says) {
  const Finished made = slurm({"--nodes", "4", "--time=2:00:00", "--account", "physics", "--net",
                               "lenet", "--seed=3", "--save-weights", "of job's"});
  EXPECT_EQ(made.exit_code, 0) << made.errors;
  EXPECT_EQ(made.output.find("#!/bin/bash\n"), 0u);
  for (const char* line :
       {"\n#SBATCH --nodes=4\n", "\n#SBATCH --time=2:00:00\n", "\n#SBATCH --requeue\n",
        "\n#SBATCH --open-mode=append\n", "\n#SBATCH --signal=USR2@120\n",
        "\n#SBATCH --account=physics\n", "\nset -euo pipefail\nPATH=/",
        "\nset -- --net lenet --seed=3 --save-weights 'of job'\\''s' \"$@\"\n",
        "\n# One training over several nodes, in as many jobs as it takes. Written by omni-run "
        "slurm: sbatch FILE [more options]\n",
        "srun --mpi=pmi2 \"${all[@]}\" \"${lost[@]}\" --cpu-bind=none omni-run ",
        " --resume auto \"$@\" "})
    EXPECT_THAT(made.output, HasSubstr(line));
  EXPECT_THAT(made.output, Not(HasSubstr("nodes.sbatch"))) << "its arguments would not be read";
  EXPECT_THAT(made.output, Not(HasSubstr("--nodes=2")));
  EXPECT_THAT(made.output, Not(HasSubstr("--time=4")));
  EXPECT_THAT(slurm({"--template", "gpu", "--net", "lenet"}).output,
              HasSubstr("#SBATCH --gres=gpu:1\n"));
}

TEST(JobScript, is_refused_with_a_reason) {
  const auto refused = [](const Finished& run, int code, const std::string& text) {
    EXPECT_EQ(run.exit_code, code) << run.errors;
    EXPECT_EQ(run.output, "");
    EXPECT_THAT(run.errors, HasSubstr(text));
  };
  refused(slurm({"--net", "lenett"}), 2, "did you mean lenet.cfg?");
  refused(slurm({"--net", "lenet", "--template", "node"}), 2, "did you mean nodes.sbatch?");
  refused(slurm({"--net", "lenet", "--epoch", "3"}), 2, "did you mean '--epochs'?");
  refused(slurm({"--net", "lenet", "--time", "1\nrm"}), 2, "--time: has a blank in it (");
  refused(slurm({"--net", "lenet", "--qos", ""}), 2, "--qos: is empty (");
  refused(omni_run({"--net", "lenet", "slurm"}), 2, "stands before 'slurm'");
  const TemporaryDirectory folder;
  put(folder / "own.sbatch", "#!/bin/bash\nomni-run \"$@\"\n");
  refused(slurm({"--net", "lenet", "--template", folder / "own.sbatch"}), 3,
          "own.sbatch: has no line 'set -euo pipefail'");
  put(folder / "own.sbatch", "#!/bin/bash\nset -euo pipefail\nomni-run --net lenet  # \"$*\"\n");
  refused(slurm({"--net", "lenet", "--template", folder / "own.sbatch"}), 3,
          "own.sbatch: has no \"$@\" (as in omni-run \"$@\": there the training's options come)");
}

TEST(JobTime, that_is_too_short_is_refused) {
  const Finished run = in_job({in_seconds(5)}, {"--net", "mlp", "--max-batches", "1"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.errors, HasSubstr("error: SLURM_JOB_END_TIME: the job ends in "));
  EXPECT_THAT(run.errors, HasSubstr("(ask for more time)"));
}

TEST(JobTime, ends_the_training_with_a_checkpoint) {
  const TemporaryDirectory folder;
  const Finished run = in_job(
      {in_seconds(25), "SLURM_JOB_ID=17", "SLURM_ARRAY_JOB_ID=15", "SLURM_ARRAY_TASK_ID=3",
       "SLURM_RESTART_COUNT=2", "SLURM_JOB_NODELIST=node[1-2]"},
      {"--net", "mlp", "--data", "synthetic:64:10", "--no-test", "--max-batches", "1000000000",
       "--out", folder / "run", "--metrics", folder / "metrics", "--display", "1000"});
  EXPECT_EQ(run.exit_code, 75) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("Slurm job 15_3 on node[1-2], restart 2; seed 3, run folder"));
  EXPECT_THAT(run.errors, HasSubstr("stopped after iteration"));
  EXPECT_EQ(entries_in(folder / "run"), 2) << "lock and checkpoint";
  const auto lines = read_metrics(folder / "metrics");
  EXPECT_EQ(lines.front().dump(),
            R"({"iteration":0,"slurm_job":"15_3","slurm_nodes":"node[1-2]","slurm_restarts":2})");
}

// An end time in the past is ignored, because clocks differ and some sites do not enforce time
// limits.
TEST(JobTime, that_is_over_or_unknown_changes_nothing) {
  for (const std::string& time : {in_seconds(-100), std::string("SLURM_JOB_END_TIME=")})
    EXPECT_EQ(in_job({time}, {"--net", "mlp", "--max-batches", "1", "--no-test"}).exit_code, 0);
}

}  // namespace
}  // namespace omni::test
