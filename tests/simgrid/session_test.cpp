// The transfers of a simulated GPU show which options a Session sets in StarPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/simgrid/machine.hpp"

namespace omni::test {
namespace {

// Returns the bytes sent to main memory in four iterations of ResNet-18 on the GPU alone. The net
// needs 0.5 to 0.6 GB.
double sent_to_main_memory(double gpu_memory) {
  const nlohmann::json result =
      simulate({.cores = 8, .gpus = 1, .gpu_memory = gpu_memory},
               {{"net", std::string(OMNI_SOURCE_DIR) + "/apps/nets/resnet-18.cfg"},
                {"batch", 16},
                {"slice", 16},
                {"iterations", 4},
                {"gpus_only", true}});
  EXPECT_FALSE(result.contains("failed")) << result;
  return result.value("to_main", -1.0);
}

TEST(Session, writes_nothing_back_before_memory_is_short) {
  unsetenv("STARPU_MINIMUM_CLEAN_BUFFERS");
  const double losses = sent_to_main_memory(32e9);
  EXPECT_GT(losses, 0);
  EXPECT_LT(losses, 1000);
  EXPECT_GT(sent_to_main_memory(0.5e9), 1e6) << "nothing was evicted";
}

TEST(Session, lets_the_user_keep_buffers_clean) {
  setenv("STARPU_MINIMUM_CLEAN_BUFFERS", "5", 1);
  EXPECT_GT(sent_to_main_memory(32e9), 1e8);
  unsetenv("STARPU_MINIMUM_CLEAN_BUFFERS");
}

}  // namespace
}  // namespace omni::test
