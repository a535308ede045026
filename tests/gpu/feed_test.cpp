// A core prepares images as floats. These tests check that the floats are sent to the GPU before a
// task asks for them.
#include <gtest/gtest.h>
#include <starpu.h>

#include "runtime/data/feed/data_feed.hpp"
#include "runtime/data/open.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {
namespace {

TEST(Feed, sends_what_it_has_turned_ahead) {
  const TemporaryDirectory models;
  SessionOptions options;
  options.cpu_workers = 1;
  options.gpus = {0};
  options.gpus_alone = true;
  options.models = models.path();
  const auto session = Session::start(options);
  ASSERT_TRUE(session) << session.error().message();
  const auto data = open_dataset(
      {.source = "synthetic:64:10", .net_input = {12, 12, 3}, .classes = 10, .seed = 1});
  ASSERT_TRUE(data) << data.error().message();
  AugmentOptions turned;
  turned.angle = 5;
  DataFeed feed(*data->train, {.augment = turned,
                               .net_input = {12, 12, 3},
                               .slices = Slices::cut(8, 8),
                               .unpack_apart = true});
  ASSERT_TRUE(feed.allocate());
  feed.submit(0);
  ASSERT_TRUE(wait_for_tasks());
  const unsigned gpu = starpu_worker_get_memory_node(
      static_cast<unsigned>(starpu_worker_get_by_type(STARPU_CUDA_WORKER, 0)));
  const DataHandle images = feed.slot(0).images.front()->handle();
  EXPECT_NE(starpu_data_is_on_node(images, gpu), 0);  // or on its way there
}

}  // namespace
}  // namespace omni::test
