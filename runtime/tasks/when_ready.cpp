#include "runtime/tasks/when_ready.hpp"

#include <starpu.h>

#include <atomic>
#include <memory>

namespace omni {
namespace {

struct Countdown {
  std::function<void()> then;
  std::atomic<std::size_t> left;
};

struct Waiting {
  std::shared_ptr<Countdown> countdown;
  DataHandle handle;
};

void arrived(void* argument) {
  const std::unique_ptr<Waiting> waiting(static_cast<Waiting*>(argument));
  starpu_data_release_on_node(waiting->handle, STARPU_ACQUIRE_NO_NODE);
  if (--waiting->countdown->left == 0) waiting->countdown->then();
}

}  // namespace

void when_ready(std::span<Tensor* const> tensors, std::function<void()> then) {
  std::size_t handles = 0;
  for (const Tensor* tensor : tensors) handles += tensor->parts();
  if (handles == 0) return then();
  const auto countdown = std::make_shared<Countdown>(std::move(then), handles);
  for (const Tensor* tensor : tensors)
    for (std::size_t part = 0; part < tensor->parts(); ++part)
      starpu_data_acquire_on_node_cb(tensor->handle(part), STARPU_ACQUIRE_NO_NODE, STARPU_R,
                                     arrived, new Waiting{countdown, tensor->handle(part)});
}

}  // namespace omni
