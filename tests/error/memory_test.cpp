// These tests check the suggestions of omni-run where there is too little memory.
#include <gtest/gtest.h>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

// The largest power of two that divides the batch of 4050 is 2, so other divisors must be
// suggested.
TEST(TooMuchMemory, SuggestsSubdivisionsThatThereCanBe) {
  std::vector<std::string> vgg{"--net",   "vgg-16", "--gpus",         "none",
                               "--batch", "4050",   "--subdivisions", "1"};
  const Finished run = omni_run(vgg);
  EXPECT_EQ(run.exit_code, 4) << run.errors;
  vgg.back() = std::to_string(number_after(run.errors, "try --subdivisions "));
  EXPECT_NE(vgg.back(), "1") << run.errors;
  vgg.push_back("--dry-run");
  EXPECT_EQ(omni_run(vgg).exit_code, 0);
}

}  // namespace
}  // namespace omni::test
