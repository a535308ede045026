// These tests check --precision bf16 on CPUs: other losses than with fp32, but equally good ones,
// and about half of the memory.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

class InPrecision : public testing::Test {
 protected:
  Finished train(const std::string& precision) {
    return omni_run({"--net", "lenet", "--data", "synthetic", "--batch", "16", "--max-batches",
                     "30", "--display", "1", "--deterministic", "--gpus", "none", "--precision",
                     precision, "--metrics", folder_ / precision});
  }
  static nlohmann::json devices() {
    return nlohmann::json::parse(omni_run({"devices", "--json", "--gpus", "none"}).output);
  }
  std::vector<double> losses(const std::string& precision) {
    std::vector<double> losses;
    for (const auto& line : read_metrics(folder_ / precision))
      if (line.contains("loss") && line["loss"].is_number()) losses.push_back(line["loss"]);
    return losses;
  }

  TemporaryDirectory folder_;
};

TEST_F(InPrecision, bf16_learns_as_fp32_does) {
  for (const char* precision : {"fp32", "bf16"}) {
    const Finished run = train(precision);
    ASSERT_EQ(run.exit_code, 0) << run.errors;
  }
  const auto exact = losses("fp32"), rounded = losses("bf16");
  ASSERT_EQ(exact.size(), 30u);
  ASSERT_EQ(rounded.size(), 30u);
  EXPECT_NE(rounded, exact);
  const auto in_the_end = [](const std::vector<double>& losses) {
    return std::accumulate(losses.end() - 10, losses.end(), 0.0) / 10;
  };
  EXPECT_LT(in_the_end(exact), 0.8 * exact.front());
  EXPECT_NEAR(in_the_end(rounded), in_the_end(exact), 0.1 * in_the_end(exact));
}

TEST_F(InPrecision, bf16_takes_half_the_memory_beside_the_parameters) {
  const auto beside = [](const std::string& precision) {
    const auto plan =
        nlohmann::json::parse(omni_run({"--net", "resnet-18", "--workers", "1", "--dry-run",
                                        "--json", "--gpus", "none", "--precision", precision})
                                  .output);
    // In both cases parameters, velocities and gradients are in single precision.
    return plan["bytes"].get<double>() - 3 * sizeof(float) * plan["parameters"].get<double>();
  };
  EXPECT_LT(beside("bf16"), 0.55 * beside("fp32"));
}

TEST_F(InPrecision, what_makes_nothing_faster_is_said) {
  const auto said = [&](const std::string& precision, const char* words) {
    const Finished run = train(precision);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return run.errors.find(words) != std::string::npos;
  };
  EXPECT_TRUE(said("tf32", "without a GPU everything is computed in fp32"));
  EXPECT_NE(said("bf16", "--precision bf16: "), devices()["bf16_on_cpus"].get<bool>());
}

}  // namespace
}  // namespace omni::test
