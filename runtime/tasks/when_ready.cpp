#include "runtime/tasks/when_ready.hpp"

#include <starpu.h>

#include <atomic>
#include <memory>

#include "runtime/tasks/tensor.hpp"

namespace omni {
namespace {

struct Waiting {
  DataHandle handle;
  std::function<void()> then;
};

// What `then` sees is the data's turn, so it comes before the release.
void arrived(void* argument) {
  const std::unique_ptr<Waiting> waiting(static_cast<Waiting*>(argument));
  waiting->then();
  starpu_data_release_on_node(waiting->handle, STARPU_ACQUIRE_NO_NODE);
}

}  // namespace

void when_ready(TensorPart part, std::function<void()> then) {
  const DataHandle handle = part.tensor->handle(part.part);
  starpu_data_acquire_on_node_cb(handle, STARPU_ACQUIRE_NO_NODE, STARPU_R, arrived,
                                 new Waiting{handle, std::move(then)});
}

void when_ready(std::span<Tensor* const> tensors, std::function<void()> then) {
  std::size_t handles = 0;
  for (const Tensor* tensor : tensors) handles += tensor->parts();
  if (handles == 0) return then();
  const auto left = std::make_shared<std::atomic<std::size_t>>(handles);
  for (const Tensor* tensor : tensors)
    for (std::size_t part = 0; part < tensor->parts(); ++part)
      when_ready({*tensor, part}, [left, then] {
        if (--*left == 0) then();
      });
}

}  // namespace omni
