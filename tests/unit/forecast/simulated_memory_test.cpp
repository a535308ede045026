// These tests compare simulated transfers between memories with times that are worked out by hand.
#include "scheduling/forecast/simulated_memory.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tests/unit/forecast/equal_workers.hpp"

namespace omni {
namespace {

constexpr int kUrgent = 1;

// The simulated machine has two GPUs. A byte travels for 1 s between any two memories.
class SimulatedMemoryTest : public testing::Test {
 protected:
  static MachineModel machine() {
    MachineModel machine = test::equal_workers(1);
    const MachineModel::Link link{0, 1};
    machine.links = {{{}, link, link}, {link, {}, link}, {link, link, {}}};
    return machine;
  }
  void fetch(std::size_t datum, unsigned memory, int priority = 0) {
    memory_.fetch(datum, memory, priority, [this, datum] { arrived_[datum] = clock_.now(); });
  }
  void run() {
    while (clock_.step()) {
    }
  }

  const MachineModel machine_ = machine();
  SimulatedClock clock_;
  SimulatedMemory memory_{clock_, machine_};
  std::map<std::size_t, double> arrived_;
  const std::size_t first_ = memory_.add(1), second_ = memory_.add(1), third_ = memory_.add(1);
};

TEST_F(SimulatedMemoryTest, the_same_way_goes_one_datum_at_a_time) {
  fetch(first_, 1);
  fetch(second_, 1);
  run();
  EXPECT_NEAR(arrived_[first_], 1, 1e-3);
  EXPECT_NEAR(arrived_[second_], 2, 1e-3);
}

TEST_F(SimulatedMemoryTest, different_ways_are_independent) {
  fetch(first_, 1);
  fetch(second_, 2);
  run();
  EXPECT_NEAR(arrived_[second_], 1, 1e-3);
}

TEST_F(SimulatedMemoryTest, what_reaches_a_gpu_and_what_leaves_it_for_another_exclude_each_other) {
  memory_.written(second_, 1);
  fetch(first_, 1);
  fetch(second_, 2);
  run();
  EXPECT_NEAR(arrived_[first_], 1, 1e-3);
  EXPECT_NEAR(arrived_[second_], 2, 1e-3);
}

TEST_F(SimulatedMemoryTest, a_gpu_sends_to_the_first_memory_while_it_receives) {
  memory_.written(second_, 1);
  fetch(first_, 1);
  fetch(second_, 0);
  run();
  EXPECT_NEAR(arrived_[second_], 1, 1e-3);
}

TEST_F(SimulatedMemoryTest, a_driver_starts_the_more_urgent_first) {
  fetch(first_, 1);  // being started at once
  fetch(second_, 1);
  fetch(third_, 1, kUrgent);
  run();
  EXPECT_NEAR(arrived_[third_], 2, 1e-3);
  EXPECT_NEAR(arrived_[second_], 3, 1e-3);
}

TEST_F(SimulatedMemoryTest, the_policy_sees_what_is_on_its_way_as_if_it_had_arrived) {
  EXPECT_NEAR(memory_.transfer_seconds(first_, 1), 1, 1e-9);
  fetch(first_, 1);
  EXPECT_EQ(memory_.transfer_seconds(first_, 1), 0);
}

}  // namespace
}  // namespace omni
