// These tests compare simulated compute groups with results that are worked out by hand.
#include "scheduling/forecast/group_simulation.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "scheduling/forecast/iteration_model.hpp"
#include "tests/unit/forecast/equal_workers.hpp"

namespace omni {
namespace {

using Owner = IterationTask::Owner;
using Stage = IterationTask::Stage;

// Returns a chain of four tasks: forward pass, merged layers, backward pass, update of the master.
// Data 0 (activations) and 1 (replica) belong to a group, data 2 (merged parameters) and 3 (master)
// to all groups.
std::vector<IterationTask> chain(double forward, double merged, double backward, double update) {
  return {{.seconds = {forward},
           .stage = Stage::begin,
           .gate = true,
           .uses = {{1, AccessMode::read, Owner::group}, {0, AccessMode::write, Owner::group}}},
          {.seconds = {merged},
           .priority = 1,
           .stage = Stage::complete,
           .any_worker = true,
           .uses = {{0, AccessMode::read_write, Owner::group},
                    {2, AccessMode::read_write, Owner::all}}},
          {.seconds = {backward},
           .priority = 2,
           .stage = Stage::complete,
           .uses = {{0, AccessMode::read_write, Owner::group}}},
          {.seconds = {update},
           .priority = 3,
           .stage = Stage::complete,
           .update = true,
           .uses = {{0, AccessMode::read, Owner::group},
                    {1, AccessMode::write, Owner::group},
                    {3, AccessMode::read_write, Owner::all}}}};
}

double period(const std::vector<IterationTask>& tasks, int groups, int workers,
              bool in_turn = false) {
  return simulate_groups(tasks, {.machine = test::equal_workers(workers),
                                 .layout = spread_groups(groups, workers),
                                 .in_turn = in_turn,
                                 .iterations = 300,
                                 .task_overhead = 0});
}

TEST(GroupSimulation, one_group_takes_the_length_of_the_chain) {
  EXPECT_NEAR(period(chain(3, 1, 2, 0.5), 1, 4), 6.5, 1e-9);
  EXPECT_NEAR(period(chain(3, 1, 2, 0.5), 1, 4, true), 6.5, 1e-9);
}

TEST(GroupSimulation, groups_on_workers_of_their_own_divide_the_time) {
  EXPECT_NEAR(period(chain(3, 1, 2, 0.5), 2, 2), 3.25, 0.05);
  EXPECT_NEAR(period(chain(3, 1, 2, 0.5), 4, 4), 6.5 / 4, 0.05);
}

TEST(GroupSimulation, until_the_merged_phase_is_saturated) {
  // With g groups an iteration takes max(t_fc, (t_conv + t_fc) / g). Here t_conv and t_fc are the
  // times of the convolutional and the fully connected phase.
  EXPECT_NEAR(period(chain(1, 1, 1, 0), 2, 8), 1.5, 0.05);
  EXPECT_NEAR(period(chain(1, 1, 1, 0), 8, 8), 1.0, 0.05);
}

TEST(GroupSimulation, a_master_takes_one_update_at_a_time) {
  EXPECT_NEAR(period(chain(1, 0, 1, 2), 8, 8), 2, 0.05);
}

TEST(GroupSimulation, groups_that_share_workers_gain_nothing_more) {
  EXPECT_NEAR(period(chain(3, 1, 2, 0.5), 8, 2), 3.25, 0.05);
  EXPECT_NEAR(period(chain(3, 1, 2, 0.5), 8, 1), 6.5, 0.05);
}

TEST(GroupSimulation, overhead_counts_for_every_task) {
  EXPECT_NEAR(simulate_groups(chain(3, 1, 2, 0.5), {.machine = test::equal_workers(1),
                                                    .layout = spread_groups(1, 1),
                                                    .in_turn = true,
                                                    .iterations = 30,
                                                    .task_overhead = 0.25}),
              7.5, 1e-9);
}

TEST(IterationWork, counts_each_task_where_it_takes_least) {
  auto tasks = chain(3, 1, 2, 0.5);
  tasks[0].seconds = {3, 0.25};
  tasks.push_back({.seconds = {7}, .stage = Stage::decode, .uses = {}});
  const IterationWork work = work_of(tasks);
  EXPECT_EQ(work.groups, 2.25);
  EXPECT_EQ(work.merged, 1);
  EXPECT_EQ(work.exchanges, 0.5);
}

TEST(GroupSimulation, jitter_differs_with_its_seed_and_stays_around_the_lengths) {
  const auto seconds = [](unsigned seed) {
    return simulate_groups(chain(3, 1, 2, 0.5), {.machine = test::equal_workers(1),
                                                 .layout = spread_groups(1, 1),
                                                 .in_turn = true,
                                                 .iterations = 300,
                                                 .jitter = 0.1,
                                                 .seed = seed});
  };
  EXPECT_EQ(seconds(1), seconds(1));
  EXPECT_NE(seconds(1), seconds(2));
  // One iteration's time is a sum of uniform random numbers, with a standard deviation of 0.22.
  for (const unsigned seed : {1U, 2U, 3U}) EXPECT_NEAR(seconds(seed), 6.5, 0.06);
}

TEST(GroupSimulation, decoding_fills_what_is_left) {
  auto tasks = chain(1, 0, 1, 0);
  tasks.push_back({.seconds = {1},
                   .priority = -1,
                   .stage = Stage::decode,
                   .any_worker = true,
                   .uses = {{9, AccessMode::write, Owner::batch}}});
  tasks[0].uses.push_back({9, AccessMode::read, Owner::batch});
  EXPECT_NEAR(period(tasks, 1, 2), 2, 0.05) << "beside the chain";
  EXPECT_NEAR(period(tasks, 1, 1), 3, 0.05) << "in its way";
}

constexpr double kNever = std::numeric_limits<double>::infinity();

// Returns a machine of a core and a GPU with a memory of its own. Each byte takes 1 s to travel
// between the memories.
MachineModel core_and_gpu() {
  MachineModel machine = test::equal_workers(1);
  machine.kinds.push_back({.type = 1, .memory = 1, .gpu = true, .at_once = 2, .workers = {1}});
  machine.links = {{{}, {0.01, 1}}, {{0.01, 1}, {}}};
  return machine;
}

std::vector<IterationTask> faster_on_the_gpu(std::vector<IterationTask> tasks) {
  for (IterationTask& task : tasks) task.seconds.push_back(task.seconds.front() / 10);
  return tasks;
}

// Adds a task that decodes an image on a core before the chain begins.
std::vector<IterationTask> with_image(std::vector<IterationTask> tasks, std::size_t bytes) {
  tasks.push_back({.seconds = {0.1, kNever},
                   .priority = -1,
                   .stage = Stage::decode,
                   .any_worker = true,
                   .uses = {{9, AccessMode::write, Owner::batch, bytes}}});
  tasks[0].uses.push_back({9, AccessMode::read, Owner::batch, bytes});
  return tasks;
}

double period_beside_a_gpu(const std::vector<IterationTask>& tasks, int groups,
                           double task_overhead = 0) {
  return simulate_groups(tasks, {.machine = core_and_gpu(),
                                 .layout = spread_groups(groups, {2, 1}),
                                 .in_turn = groups == 1,
                                 .iterations = 300,
                                 .task_overhead = task_overhead});
}

TEST(GroupSimulation, work_goes_to_the_faster_kind) {
  EXPECT_NEAR(period_beside_a_gpu(faster_on_the_gpu(chain(3, 1, 2, 0.5)), 1), 0.65, 0.01);
}

TEST(GroupSimulation, what_a_core_made_travels_to_the_gpu) {
  const auto tasks = with_image(faster_on_the_gpu(chain(3, 1, 2, 0.5)), 1);
  EXPECT_NEAR(period_beside_a_gpu(tasks, 1), 0.65 + 1.01, 0.01);
}

TEST(GroupSimulation, it_travels_while_another_group_computes) {
  const auto tasks = with_image(faster_on_the_gpu(chain(30, 10, 20, 5)), 1);
  EXPECT_NEAR(period_beside_a_gpu(tasks, 1), 6.5 + 1.01, 0.1);
  EXPECT_NEAR(period_beside_a_gpu(tasks, 4), 6.5, 0.1);
}

TEST(GroupSimulation, a_worker_that_takes_tasks_ahead_hides_their_overhead) {
  auto tasks = faster_on_the_gpu(chain(30, 10, 20, 5));
  for (IterationTask& task : tasks) task.seconds.front() = kNever;  // the core would help
  EXPECT_NEAR(period_beside_a_gpu(tasks, 1, 0.5), 6.5 + 4 * 0.5, 0.05);
  EXPECT_NEAR(period_beside_a_gpu(tasks, 4, 0.5), 6.5, 0.05);
}

}  // namespace
}  // namespace omni
