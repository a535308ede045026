#include "runtime/tasks/tensor.hpp"

#include <fmt/format.h>
#include <starpu.h>

#include <atomic>
#include <cstring>

#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/session.hpp"

namespace omni {
namespace {
std::atomic<std::uint32_t> next_id{0};
}  // namespace

std::size_t bytes_of(DataType type) {
  switch (type) {
    case DataType::f32:
    case DataType::i32:
      return 4;
    case DataType::u8:
      return 1;
  }
  return 0;
}

Tensor::Tensor(std::string name, std::size_t count, DataType type)
    : name_(std::move(name)), id_(next_id++), count_(count), type_(type) {}

Tensor::~Tensor() {
  if (handle_ != nullptr) starpu_data_unregister(handle_);
  if (memory_ != nullptr) starpu_free_flags(memory_, bytes(), STARPU_MALLOC_PINNED);
}

Status Tensor::allocate() {
  starpu_ = hold_starpu();
  if (!starpu_) return Error{ErrorKind::failed, name_, "allocated without a running Session", ""};
  // Pinned only where a GPU driver exists; aligned to cache lines by Session.
  if (starpu_malloc_flags(&memory_, bytes(), STARPU_MALLOC_PINNED) != 0) {
    memory_ = nullptr;
    return Error{ErrorKind::out_of_memory, name_, fmt::format("cannot allocate {} bytes", bytes()),
                 "a smaller --batch or more --subdivisions needs less memory"};
  }
  std::memset(memory_, 0, bytes());
  starpu_vector_data_register(&handle_, STARPU_MAIN_RAM, reinterpret_cast<uintptr_t>(memory_),
                              static_cast<std::uint32_t>(count_), bytes_of(type_));
  starpu_data_set_name(handle_, name_.c_str());
  return {};
}

HostAccess::HostAccess(const Tensor& tensor, Mode mode) : tensor_(tensor) {
  const recording::WaitScope waiting(false);
  starpu_data_acquire(tensor.handle(), mode == Mode::read ? STARPU_R : STARPU_RW);
  pointer_ = starpu_data_get_local_ptr(tensor.handle());
}

HostAccess::~HostAccess() { starpu_data_release(tensor_.handle()); }

Tensor& TensorPool::declare(std::string name, std::size_t count, DataType type) {
  Tensor& tensor = tensors_.emplace_back(std::move(name), count, type);
  bytes_ += tensor.bytes();
  return tensor;
}

Status TensorPool::allocate() {
  for (Tensor& tensor : tensors_) OMNI_CHECK(tensor.allocate());
  return {};
}

}  // namespace omni
