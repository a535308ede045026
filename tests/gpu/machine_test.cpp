// This test checks that omni-run machine measures GPUs, and lists them before the CPU cores.
#include <gtest/gtest.h>

#include <algorithm>

#include "scheduling/forecast/machine/machine_file.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

TEST(MachineCommand, measures_a_gpu_and_a_core) {
  const Finished run = omni_run({"machine", "--batch", "2", "-q"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const auto machine = parse_machine(run.output, "stdout");
  ASSERT_TRUE(machine) << machine.error().message();
  const auto& devices = machine->devices;
  EXPECT_EQ(devices.front().kind, Machine::Kind::gpu);
  EXPECT_EQ(devices.back().kind, Machine::Kind::cpu);
  EXPECT_TRUE(std::ranges::all_of(
      devices, [](const Machine::Device& each) { return each.seconds.size() == 2; }));
}

}  // namespace
}  // namespace omni::test
