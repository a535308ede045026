// Tensors in main memory are pinned. Otherwise a copy to or from a GPU would block the host.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni::test {
namespace {

TEST(PinnedMemory, is_that_of_every_tensor) {
  SessionOptions options;
  options.cpu_workers = 1;
  options.gpus = {0};
  const auto session = Session::start(options);
  ASSERT_TRUE(session) << session.error().message();
  const auto kind_of = [](const void* memory) {
    cudaPointerAttributes attributes{};
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
    return attributes.type;
  };
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{5'000'000}}) {
    SCOPED_TRACE(count);
    Tensor tensor("values", count, DataType::f32);
    ASSERT_TRUE(tensor.allocate());
    const HostAccess access(tensor, HostAccess::Mode::read);
    EXPECT_EQ(kind_of(&access.f32().front()), cudaMemoryTypeHost);
    EXPECT_EQ(kind_of(&access.f32().back()), cudaMemoryTypeHost);
  }
  const float elsewhere = 0;
  EXPECT_EQ(kind_of(&elsewhere), cudaMemoryTypeUnregistered);
}

}  // namespace
}  // namespace omni::test
