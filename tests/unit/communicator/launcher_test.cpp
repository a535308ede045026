// These tests check which MPI launcher the environment variables tell of, and which cores ranks on
// one host get.
#include "runtime/communicator/ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace omni {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<ranks::Launch> launch_in(const std::map<std::string, const char*>& variables) {
  return ranks::read_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second;
  });
}

TEST(Launcher, is_seen_in_the_environment) {
  EXPECT_FALSE(launch_in({})->by_mpi);
  EXPECT_EQ(launch_in({})->tasks, 1);
  EXPECT_EQ(launch_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}})->tasks, 4);
  EXPECT_TRUE(launch_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}})->by_mpi);
  EXPECT_EQ(launch_in({{"PMIX_RANK", "0"}})->tasks, 0);
  EXPECT_TRUE(launch_in({{"PMI_FD", "6"}, {"HYDI_CONTROL_FD", "7"}})->by_hydra);
  EXPECT_FALSE(launch_in({{"PMI_FD", "6"}, {"SLURM_STEP_ID", "0"}})->by_hydra);
  // A batch script of Slurm has these variables, too, but no launcher has started it.
  EXPECT_FALSE(
      launch_in({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}})->by_mpi);
}

TEST(Launcher, that_leaves_every_process_alone_is_refused) {
  const std::map<std::string, const char*> srun{
      {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}};
  const auto refused = launch_in(srun);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_THAT(refused.error().message(),
              HasSubstr("4 processes were started without MPICH's start-up information"));
  EXPECT_THAT(refused.error().message(), HasSubstr("(srun --mpi=pmi2, or one task)"));
  EXPECT_THAT(launch_in({{"OMPI_COMM_WORLD_SIZE", "2"}}).error().message(), HasSubstr("mpiexec"));
  auto alone = srun;
  alone["SLURM_STEP_NUM_TASKS"] = "1";
  EXPECT_TRUE(launch_in(alone));
}

TEST(Launcher, shares_the_cores_of_a_host) {
  EXPECT_THAT(ranks::share_of_cores({0, 2, 4, 6, 8}, 0, 2), ElementsAre(0, 2));
  EXPECT_THAT(ranks::share_of_cores({0, 2, 4, 6, 8}, 1, 2), ElementsAre(4, 6, 8));
  EXPECT_THAT(ranks::share_of_cores({3, 5}, 2, 4), ElementsAre(3));
  EXPECT_THAT(ranks::share_of_cores({3, 5}, 3, 4), ElementsAre(5));
}

TEST(Links, of_several_ranks_are_worth_what_the_slowest_is) {
  const ranks::Link worst = ranks::slowest({{1e-4, 2e9}, {3e-4, 5e9}, {2e-4, 4e9}});
  EXPECT_EQ(worst.seconds, 3e-4);
  EXPECT_EQ(worst.bytes_per_second, 2e9);
  EXPECT_EQ(ranks::describe({5e-5, 1.25e8}), "50 us, 1000.0 Mbit/s");
}

}  // namespace
}  // namespace omni
