// These tests check the contents of omni-run's machine-readable outputs.
#include <gtest/gtest.h>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

TEST(MachineReadable, DryRunLayersAndDevices) {
  const auto json = [](const Words& words) {
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return nlohmann::json::parse(run.output);
  };
  const auto table = json({"--net", "lenet.cfg", "--dry-run", "--json"});
  EXPECT_EQ(table["net"], "lenet");
  EXPECT_GT(table["parameters"], 400000);
  const auto layers = json({"layers", "--json"});
  EXPECT_GE(layers["layers"].size(), 15u);
  const auto expect_explained = [](const nlohmann::json& keys) {
    for (const auto& key : keys)
      EXPECT_TRUE(key["ignored"] || key["help"] != "") << key["key"] << " is not explained";
  };
  expect_explained(layers["net"]);
  expect_explained(layers["common"]);
  for (const auto& layer : layers["layers"]) expect_explained(layer["keys"]);
  const auto devices = json({"devices", "--json", "--workers", "1", "--peaks"});
  EXPECT_GE(devices["workers"].size(), 1u);
  EXPECT_TRUE(devices["gpus"].is_array());
  EXPECT_GT(devices["peaks"]["gemm_flops_per_second"], 1e6);
  EXPECT_GT(devices["peaks"]["copy_bytes_per_second"], 1e6);
  const auto time = json({"time", "--net", "lenet", "--batch", "8", "--json", "--iterations", "2"});
  EXPECT_GT(time["images_per_second"], 0);
  ASSERT_EQ(time["iteration_periods"].size(), 1u);
  EXPECT_GT(time["iteration_periods"][0], 0);
  const auto& convolution = time["layers"][1];  // after updates and decoding
  ASSERT_EQ(convolution["type"], "convolutional");
  EXPECT_GT(convolution["bytes"], 0);
  EXPECT_GT(convolution["seconds_at_peak"], 0);
  // Times decide which implementation runs, so "lowering" may not have run. But it is in the list
  // of implementations.
  EXPECT_TRUE(convolution.at("codelets").at("conv_forward").contains("lowering"));
}

TEST(MachineReadable, MetricsHoldWhatIsPromised) {
  const TemporaryDirectory folder;
  const std::string metrics = folder / "metrics.jsonl", weights = folder / "lenet.weights";
  const Finished run = omni_run({"--net", "lenet", "--data", "synthetic:640", "--epochs", "2",
                                 "--display", "5", "--learning-rate", "0.013", "--metrics", metrics,
                                 "--save-weights", weights, "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.errors.find("synthetic"), std::string::npos)
      << "does not say that data are synthetic";
  const std::string bytes = std::to_string(std::filesystem::file_size(weights));
  EXPECT_NE(run.errors.find("\nsaved " + weights + " (" + bytes + " bytes)\n"), std::string::npos);
  int steps = 0, evaluations = 0;
  for (const auto& line : read_metrics(metrics)) {
    for (const char* key : {"iteration", "epoch", "images", "time"})
      EXPECT_TRUE(line.contains(key));
    if (line.contains("test_loss")) {
      ++evaluations;
      EXPECT_TRUE(line.contains("test_accuracy"));
    } else {
      ++steps;
      for (const char* key : {"loss", "learning_rate", "momentum", "images_per_second"})
        EXPECT_TRUE(line.contains(key)) << key;
      // The number is printed as in the net's file, not with the digits of the float nearest to it.
      EXPECT_EQ(line["learning_rate"], 0.013);
      EXPECT_EQ(line["momentum"], 0.9);
      EXPECT_LE(line["loss"].dump().size(), 10u) << line["loss"];
    }
  }
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(evaluations, 2);

  const Finished valid = omni_run(
      {"valid", "--net", "lenet", "--data", "synthetic:640", "--weights", weights, "--json"});
  ASSERT_EQ(valid.exit_code, 0) << valid.errors;
  EXPECT_EQ(nlohmann::json::parse(valid.output)["data"], "synthetic:640");
  EXPECT_NEAR(nlohmann::json::parse(valid.output)["test_loss"].get<double>(),
              nlohmann::json::parse(run.output)["test_loss"].get<double>(), 1e-4);
  const Finished predict = omni_run({"predict", "--net", "lenet", "--data", "synthetic:640",
                                     "--weights", weights, "--index", "3", "--json"});
  ASSERT_EQ(predict.exit_code, 0) << predict.errors;
  EXPECT_EQ(nlohmann::json::parse(predict.output)["classes"].size(), 5u);
}

}  // namespace
}  // namespace omni::test
