// This test trains all strategies but sync and async on a GPU, also with one group, with several
// passes per update, and with mini-batches that change their size.
#include <gtest/gtest.h>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

TEST(StrategiesOnGpu, take_every_sample) {
  for (const Words& strategy :
       std::vector<Words>{{"hogbatch", "--groups", "1"},
                          {"hogbatch", "--groups", "1", "--group-batches", "128"},
                          {"adaptive", "--groups", "2", "--group-batches", "16:8-32,64:16-64"},
                          {"sma", "--groups", "2"},
                          {"local", "--groups", "1", "--sync-every", "2"},
                          {"local", "--groups", "2", "--sync-every", "2"},
                          {"elastic", "--groups", "2", "--sync-every", "2"}}) {
    Words words{"--net",     "lenet",  "--data", "synthetic:640", "--epochs", "1",
                "--no-test", "--json", "-q",     "--strategy"};
    words.insert(words.end(), strategy.begin(), strategy.end());
    const Finished run = omni_run(words);
    ASSERT_EQ(run.exit_code, 0) << strategy.front() << ": " << run.errors;
    EXPECT_EQ(nlohmann::json::parse(run.output)["images"], 640) << strategy.front();
  }
}

}  // namespace
}  // namespace omni::test
