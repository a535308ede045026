#include "scheduling/forecast/machine/machine_file.hpp"

#include <gtest/gtest.h>

#include <string>

#include "apps/omni-run/setup.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

Machine machine_of(const std::string& devices) {
  auto machine = parse_machine(R"({"name": "m", "devices": [)" + devices + "]}", "m.json");
  EXPECT_TRUE(machine) << machine.error().message();
  return machine ? *machine : Machine{};
}

TEST(MachineFile, the_example_of_the_documentation) {
  const std::string text = test::get(OMNI_SOURCE_DIR "/docs/user/virtual-clock.md");
  const std::size_t from = text.find("```json\n") + 8;
  const auto machine = parse_machine(text.substr(from, text.find("```", from) - from), "example");
  ASSERT_TRUE(machine) << machine.error().message();
  ASSERT_EQ(machine->devices.size(), 18u);
  EXPECT_EQ(machine->name, "two GPUs and 16 cores");
  const Machine::Device &gpu = machine->devices[1], &core = machine->devices[2];
  EXPECT_EQ(gpu.kind, Machine::Kind::gpu);
  EXPECT_EQ(gpu.law, Machine::Law::lognormal);
  EXPECT_EQ(gpu.sigma, 0.1);
  EXPECT_EQ(gpu.memory, 8e9);
  EXPECT_EQ(core.kind, Machine::Kind::cpu);
  EXPECT_EQ(core.law, Machine::Law::exponential);
  EXPECT_DOUBLE_EQ(machine->link.seconds_of(1e10), 1 + 1e-5);
  EXPECT_EQ(machine->seconds(0, 16, 1), 0.01);
  EXPECT_DOUBLE_EQ(machine->seconds(17, 16, 1e9), 1e-4 + 16e9 * (1 + 4. / 16) / 5e10);
}

TEST(MachineFile, a_table_is_interpolated_and_its_outermost_slopes_go_on) {
  const Machine machine = machine_of(R"({"kind": "gpu", "seconds": {"32": 4, "16": 3, "8": 2}})");
  const auto at = [&](std::uint64_t size) { return machine.seconds(0, size, 0); };
  for (const auto& [size, seconds] :
       {std::pair{8, 2.}, {16, 3.}, {32, 4.}, {12, 2.5}, {24, 3.5}, {4, 1.5}, {64, 6.}})
    EXPECT_DOUBLE_EQ(at(static_cast<std::uint64_t>(size)), seconds) << size;
}

TEST(MachineFile, seconds_stay_above_zero) {
  // Straight lines through the seconds of the first three devices reach 0 at size 4, at size 32,
  // and at every size.
  const Machine machine = machine_of(R"({"kind": "cpu", "seconds": {"8": 1, "12": 2}},
    {"kind": "cpu", "seconds": {"8": 2, "16": 1}}, {"kind": "cpu", "seconds": {"10": 5}},
    {"kind": "cpu", "flops_per_second": 1})");
  EXPECT_DOUBLE_EQ(machine.seconds(0, 2, 0), 0.25);
  EXPECT_DOUBLE_EQ(machine.seconds(1, 4, 0), 2.5);
  EXPECT_DOUBLE_EQ(machine.seconds(1, 64, 0), 1);
  EXPECT_DOUBLE_EQ(machine.seconds(2, 1, 0), 0.5);
  EXPECT_DOUBLE_EQ(machine.seconds(2, 20, 0), 10);
  EXPECT_GT(machine.seconds(3, 1, 0), 0);
}

TEST(MachineFile, the_roofline_of_a_gpu) {
  const Machine machine = machine_of(R"({"kind": "gpu", "memory": 8e10, "flops_per_second": 1,
    "roofline": {"fp32": 2, "tf32": 3, "bf16": 4, "bytes_per_second": 5, "seconds_per_task": 6}})");
  ASSERT_TRUE(machine.devices.front().roofline);
  const Machine::Roofline& roofline = *machine.devices.front().roofline;
  EXPECT_EQ(roofline.products, (std::array<double, 3>{2, 3, 4}));
  EXPECT_EQ(roofline.bytes_per_second, 5);
  EXPECT_EQ(roofline.seconds_per_task, 6);
  EXPECT_EQ(roofline.seconds_of(12, 5, 0), 6 + 6) << "its flops take longer";
  EXPECT_EQ(roofline.seconds_of(12, 50, 2), 10 + 6) << "its memory traffic does";
}

TEST(MachineFile, groups_gain_on_one_device) {
  const Machine machine = machine_of(R"(
    {"kind": "gpu", "flops_per_second": 1, "gain": {"2": 1.6, "4": 2}},
    {"kind": "gpu", "flops_per_second": 1}, {"kind": "node", "flops_per_second": 1,
    "serves": "merged"})");
  EXPECT_DOUBLE_EQ(machine.slowdown(0, 1), 1);
  EXPECT_DOUBLE_EQ(machine.slowdown(0, 2), 2 / 1.6);
  EXPECT_DOUBLE_EQ(machine.slowdown(0, 3), 3 / 1.8) << "between two numbers";
  EXPECT_DOUBLE_EQ(machine.slowdown(0, 8), 8 / 2.0) << "beyond the last";
  EXPECT_DOUBLE_EQ(machine.slowdown(1, 3), 3);
  EXPECT_FALSE(machine.devices[1].serves_merged);
  EXPECT_TRUE(machine.devices[2].serves_merged);
}

struct RefusedCase {
  std::string text, message;  // or how it begins, where the JSON library ends it
};

class Refused : public testing::TestWithParam<RefusedCase> {};

TEST_P(Refused, names_the_line) {
  const auto machine = parse_machine(GetParam().text, "m.json");
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().kind, ErrorKind::data);
  const std::string said = machine.error().message(), expected = "m.json:" + GetParam().message;
  EXPECT_EQ(said.substr(0, expected.size()), expected) << said;
}

// Returns the case of a machine file whose devices begin on line 3, and the message that it must
// give.
RefusedCase device(const std::string& text, const std::string& message) {
  return {"{\"name\": \"m\",\n \"devices\": [\n" + text + "]}", message};
}

INSTANTIATE_TEST_SUITE_P(
    All, Refused,
    testing::Values(
        RefusedCase{"", "1: is not JSON: "},
        RefusedCase{"{\"name\":\n\n}", "3: is not JSON: unexpected '}'"},
        RefusedCase{"{\"name\": \"m\"\n\"link\": {}}",
                    "2: is not JSON: unexpected string literal; expected '}'"},
        RefusedCase{"{\"name\": 1e999}", "1: is not JSON: number overflow parsing '1e999'"},
        RefusedCase{std::string("{}\0{", 4), "1: is not JSON: holds a zero byte"},
        RefusedCase{std::string(100000, '['), "1: deeper than 8 levels"},
        RefusedCase{"{\"name\": \"m\",\n\"name\": \"n\"}", "2: 'name' appears twice"},
        RefusedCase{"[]", "1: the file is to be an object ({\"name\": ...})"},
        RefusedCase{"\n\n{\"devices\": []}",
                    "3: \"name\" is to be a text (\"name\": \"two GPUs\", say)"},
        RefusedCase{"{\"name\": \"m\",\n\"device\": []}",
                    "2: unknown key 'device' of the file (did you mean \"devices\"?)"},
        RefusedCase{"{\"name\": \"m\",\n\"devices\": []}",
                    "2: \"devices\" is to be a list of devices (\"devices\": [{\"kind\": \"gpu\", "
                    "\"count\": 2, \"flops_per_second\": 5e12}], say)"},
        device("{\n\"kind\": \"gpuu\",\n\"flops_per_second\": 1}",
               "4: 'gpuu' is no \"kind\" (did you mean \"gpu\"?)"),
        device("{\"kind\": \"gpu\",\n\"flops_per_seconds\": 1}",
               "4: unknown key 'flops_per_seconds' of a device (did you mean "
               "\"flops_per_second\"?)"),
        device("{\"kind\": \"gpu\", \"flops_per_second\": 1, \"memory\": 9,\n\"roofline\": "
               "{\"fp32\": 1, \"bf16\": 1}}",
               "4: \"tf32\" is missing (a number from 1 to 1e+30)"),
        device("{\"kind\": \"gpu\", \"flops_per_second\": 1,\n\"roofline\": {\"fp32\": 1, "
               "\"tf32\": 1, \"bf16\": 1, \"bytes_per_second\": 1}}",
               "4: \"roofline\" without a \"memory\" of 1 GiB or more (\"memory\": 8e10, say)"),
        device("{\"kind\": \"gpu\"}",
               "3: the device has neither \"seconds\" nor "
               "\"flops_per_second\" (\"flops_per_second\": 5e12, say)"),
        device("{\"kind\": \"gpu\", \"seconds\": {\"1\": 1},\n\"overhead\": 1}",
               "4: \"overhead\" beside a table of \"seconds\" (leave one of them out)"),
        device("{\"kind\": \"gpu\", \"seconds\": {\"1\": 1},\n\"merged_share\": 1.5}",
               "4: \"merged_share\" is out of range (a number from 0 to 1)"),
        device("{\"kind\": \"gpu\", \"flops_per_second\": 1,\n\"merged_share\": 0.5}",
               "4: \"merged_share\" without a table of \"seconds\" (leave it out)"),
        device("{\"kind\": \"gpu\", \"seconds\": {}}",
               "3: \"seconds\" is to be a table (\"seconds\": {\"16\": 0.01, "
               "\"32\": 0.016}, say)"),
        device("{\"kind\": \"gpu\", \"seconds\": {\"1\": 1,\n\"2x\": 1}}",
               "4: '2x' is no key of \"seconds\" (a whole number from 1 to 1000000000)"),
        device("{\"kind\": \"gpu\", \"seconds\": {\"1\": 1,\n\"01\": 1}}",
               "4: 1 appears twice in \"seconds\" (leave one of them out)"),
        device("{\"kind\": \"gpu\", \"seconds\": {\"1\": 1,\n\"2\": 0}}",
               "4: a value of \"seconds\" is out of range (a number from 1e-12 to 1000000)"),
        device("{\"kind\": \"gpu\", \"seconds\": {\"1\":\n1000001}}",
               "3: a value of \"seconds\" is out of range (a number from 1e-12 to 1000000)"),
        device("{\"kind\": \"gpu\", \"flops_per_second\": \"fast\"}",
               "3: \"flops_per_second\" is out of range (a number from 1 to 1e+30)"),
        device("{\"kind\": \"gpu\", \"flops_per_second\": 1,\n\"count\": 1.5}",
               "4: \"count\" is out of range (a whole number from 1 to 4096)"),
        device("{\"kind\": \"gpu\", \"flops_per_second\": 1, \"count\": 4096},\n{\"kind\": "
               "\"cpu\", \"flops_per_second\": 1}",
               "4: more than 4096 devices in all (leave some out)"),
        device("{\"kind\": \"gpu\", \"flops_per_second\": 1,\n\"spread\": \"constnat\"}",
               "4: 'constnat' is no \"spread\" (did you mean \"constant\"?)"),
        device("{\"kind\": \"gpu\", \"flops_per_second\": 1,\n\"spread\": \"lognormal\"}",
               "4: \"spread\" is to be a law (one of: \"constant\" \"exponential\" "
               "{\"lognormal\": 0.1})"),
        device("{\"kind\": \"gpu\", \"flops_per_second\": 1,\n\"spread\": {\"lognormal\": 3}}",
               "4: \"lognormal\" is out of range (a number from 0 to 2)"),
        RefusedCase{
            "{\"name\": \"m\", \"devices\": [{\"kind\": \"gpu\", \"flops_per_second\": 1}],\n"
            "\"link\": {\"seconds\": 1}}",
            "2: \"bytes_per_second\" is missing (a number from 1 to 1e+30)"}));

TEST(MachineFile, is_a_regular_file_of_a_bounded_size) {
  const test::TemporaryDirectory folder;
  EXPECT_FALSE(read_machine_file(folder.path()));
  const std::string text = test::get(OMNI_SOURCE_DIR "/apps/machines/8-gpus.json");
  for (const std::size_t size : {1 << 20, 1 + (1 << 20)}) {
    test::put(folder / "m.json", text + std::string(size - text.size(), ' '));
    EXPECT_EQ(static_cast<bool>(read_machine_file(folder / "m.json")), size == 1 << 20);
  }
}

TEST(MachineFile, shipped_ones_are_found_by_name) {
  const auto machine = read_machine("8-gpus");
  ASSERT_TRUE(machine) << machine.error().message();
  EXPECT_EQ(machine->devices.size(), 8u);
  EXPECT_EQ(read_machine("9-gpus").error().message(),
            "--machine 9-gpus: no such machine (did you mean 8-gpus.json?)");
  EXPECT_EQ(read_machine("").error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace omni
