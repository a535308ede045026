// --precision bf16 on CPUs: other numbers than in fp32, and as good ones.
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

TEST_F(InPrecision, what_helps_nothing_is_said) {
  const Finished run = train("tf32");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.errors.find("without a GPU everything is computed in fp32"), std::string::npos);
}

}  // namespace
}  // namespace omni::test
