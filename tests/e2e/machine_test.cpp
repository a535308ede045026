// omni-run machine measures a machine file that can be read back.
#include <gtest/gtest.h>

#include "scheduling/arrivals/machine_file.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

TEST(MachineCommand, measures_a_core_at_ascending_sizes) {
  const TemporaryDirectory folder;
  const Finished run = omni_run(
      {"machine", "--batch", "6", "--workers", "1", "--gpus", "none", "--out", folder / "m.json"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(run.output, "");
  EXPECT_EQ(entries_in(folder.path()), 1);
  const auto machine = read_machine_file(folder / "m.json");
  ASSERT_TRUE(machine) << machine.error().message();
  EXPECT_NE(machine->name.find("training lenet"), std::string::npos) << machine->name;
  ASSERT_EQ(machine->devices.size(), 1u);
  EXPECT_EQ(machine->devices[0].kind, Machine::Kind::cpu);
  std::vector<std::uint64_t> sizes;
  for (const auto& [size, seconds] : machine->devices[0].seconds) sizes.push_back(size);
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{1, 2, 4, 6}));
  // In the file, too.
  std::vector<int> written;
  const auto file = nlohmann::ordered_json::parse(get(folder / "m.json"));
  for (const auto& [size, seconds] : file["devices"][0]["seconds"].items())
    written.push_back(std::stoi(size));
  EXPECT_EQ(written, (std::vector<int>{1, 2, 4, 6}));
}

}  // namespace
}  // namespace omni::test
