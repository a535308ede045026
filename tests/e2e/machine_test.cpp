// These tests check omni-run machine, which writes a machine file, and omni-run plan. `plan --gpu`
// is for a GPU that this machine lacks, `plan --nodes` for nodes with other numbers of cores.
#include <gtest/gtest.h>

#include "scheduling/forecast/machine/machine_file.hpp"
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
  // The file lists the sizes in increasing order.
  std::vector<int> written;
  const auto file = nlohmann::ordered_json::parse(get(folder / "m.json"));
  for (const auto& [size, seconds] : file["devices"][0]["seconds"].items())
    written.push_back(std::stoi(size));
  EXPECT_EQ(written, (std::vector<int>{1, 2, 4, 6}));
}

nlohmann::json forecast_on(const std::string& gpu, const std::string& precision = "bf16") {
  const Finished run = omni_run({"plan", "--gpu", gpu, "--net", "lenet", "--batch", "64",
                                 "--precision", precision, "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  return nlohmann::json::parse(run.output);
}

TEST(PlanOfAGpu, forecasts_time_and_memory) {
  const auto h100 = forecast_on("h100"), h200 = forecast_on("h200");
  double seconds = 0;
  for (const auto& [codelet, each] : h200["seconds_by_codelet"].items())
    seconds += each.get<double>();
  EXPECT_NEAR(h200["iteration_seconds"], seconds, 1e-12);
  EXPECT_GT(h200["seconds_by_codelet"]["exchange"], 0);
  EXPECT_LT(h100["images_per_second"], h200["images_per_second"]);
  EXPECT_LT(h100["bytes_on_gpu"], h100["bytes_there"]);
  EXPECT_GE(h100["largest_batch"], 64);
  EXPECT_LE(h100["largest_batch"], h200["largest_batch"]);
}

// With unlimited memory bandwidth, only the flops count: the forward pass and two gradients. The
// first layer computes no gradient of the images.
TEST(PlanOfAGpu, takes_as_long_as_the_slower_of_products_and_memory) {
  const TemporaryDirectory folder;
  const auto on = [&](const std::string& products, const std::string& bytes) {
    const std::string file = folder / "gpu.json";
    put(file, R"({"name": "g", "devices": [{"kind": "gpu", "memory": 8e10, "flops_per_second": 1,
                  "roofline": {"fp32": )" +
                  products + R"(, "tf32": 1e3, "bf16": 1e3, "bytes_per_second": )" + bytes +
                  "}}]}");
    return forecast_on(file, "fp32")["seconds_by_codelet"];
  };
  const Finished run = omni_run({"--net", "lenet", "--dry-run", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  std::vector<double> flops;  // of layers that multiply
  const auto net = nlohmann::json::parse(run.output);
  for (const auto& layer : net["layers"])
    if (layer["parameters"] > 0) flops.push_back(layer["forward_flops_per_image"]);
  ASSERT_EQ(flops.size(), 4u);
  const auto products = on("1e9", "1e29");
  const double convolved = 3 * (flops[0] + flops[1]) - flops[0],
               connected = 3 * (flops[2] + flops[3]);
  const auto of = [](const nlohmann::json& seconds, const std::string& kind) {
    double sum = 0;
    for (const auto& [codelet, each] : seconds.items())
      if (codelet.starts_with(kind)) sum += each.get<double>();
    return sum;
  };
  EXPECT_NEAR(of(products, "conv_"), 64 * convolved / 1e9, 1e-6 * 64 * convolved / 1e9);
  EXPECT_NEAR(of(products, "connected_"), 64 * connected / 1e9, 1e-6 * 64 * connected / 1e9);
  const auto traffic = on("1e29", "1e9"), half = on("1e29", "2e9");
  EXPECT_NEAR(of(traffic, "conv_"), 2 * of(half, "conv_"), 1e-9);
  // An update moves five floats for each parameter, and the gradient is not set to zero.
  EXPECT_NEAR(of(traffic, "exchange"), 431080 * 5 * 4 / 1e9, 431080 * 4 / 1e9);
}

TEST(PlanOfAGpu, needs_a_roofline) {
  const Finished run = omni_run({"plan", "--gpu", "8-gpus", "--net", "lenet"});
  EXPECT_EQ(run.exit_code, 2) << run.errors;
  EXPECT_NE(run.errors.find("--gpu 8-gpus: no device of this machine has a \"roofline\" (h100 and "
                            "h200 have one)"),
            std::string::npos)
      << run.errors;
}

// Nodes of 16 such cores compute a mini-batch faster than nodes of 2.
TEST(PlanOfNodes, supposes_other_cores) {
  const auto compute = [](const std::string& cores) {
    const Finished run = omni_run({"plan", "--net", "lenet", "--batch", "42", "--most-groups", "1",
                                   "--iterations", "6", "--warm-up", "4", "--nodes", "1", "--link",
                                   "1gbit:50us", "--node-cores", cores, "--json", "-q"});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return nlohmann::json::parse(run.output, nullptr, false)["nodes"][0]["compute_seconds"]
        .get<double>();
  };
  EXPECT_LT(1.5 * compute("16"), compute("2"));
}

}  // namespace
}  // namespace omni::test
