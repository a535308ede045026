// These tests check the promise of `./bootstrap run`: LeNet reaches 89 % on Fashion-MNIST within 3
// epochs, with one worker and with two.
#include <gtest/gtest.h>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

void reaches_89_percent(const char* workers) {
  const Finished run = omni_run({"--net", "lenet", "--data", "fashion-mnist", "--epochs", "3",
                                 "--workers", workers, "--json", "-q"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_GE(nlohmann::json::parse(run.output)["test_accuracy"].get<double>(), 0.89);
}

TEST(LeNetReaches89PercentIn3Epochs, On1Worker) { reaches_89_percent("1"); }
TEST(LeNetReaches89PercentIn3Epochs, On2Workers) { reaches_89_percent("2"); }

}  // namespace
}  // namespace omni::test
