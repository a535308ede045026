// These tests check that tensors that only GPUs use take no main memory.
#include <gtest/gtest.h>
#include <starpu.h>

#include "codelets/spatial/copy_channels.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni::test {
namespace {

TEST(TransientTensor, has_no_home_and_can_be_read) {
  SessionOptions options;
  options.cpu_workers = 1;
  options.gpus = {0};
  options.implementation = "cuda";
  const auto session = Session::start(options);
  ASSERT_TRUE(session) << session.error().message();
  constexpr int kCount = 1000;
  Tensor values("values", kCount, DataType::bf16), copied("copied", kCount, DataType::bf16);
  copied.make_transient();
  ASSERT_TRUE(values.allocate());
  ASSERT_TRUE(copied.allocate());
  EXPECT_EQ(starpu_data_get_home_node(values.handle()), STARPU_MAIN_RAM);
  EXPECT_EQ(starpu_data_get_home_node(copied.handle()), -1);
  {
    const HostAccess access(values, HostAccess::Mode::write);
    for (std::size_t i = 0; i < kCount; ++i) access.bf16()[i] = static_cast<float>(i) / 3;
  }
  submit_copy(kCount, values, copied);
  ASSERT_TRUE(wait_for_tasks());
  const HostAccess access(copied, HostAccess::Mode::read);
  const std::vector<float> found = access.values();
  ASSERT_EQ(found.size(), std::size_t{kCount});
  for (std::size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(found[i], static_cast<float>(Bf16(static_cast<float>(i) / 3))) << i;
}

}  // namespace
}  // namespace omni::test
