#include "runtime/tasks/tensor.hpp"

#include <fmt/format.h>
#include <starpu.h>

#include <algorithm>
#include <cstring>

#include "runtime/tasks/calls/kept_on_gpu.hpp"
#include "runtime/tasks/calls/when_ready.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/models/page_placement.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {
namespace {

std::atomic<std::uint32_t> next_id{0};

struct Waiting {
  DataHandle handle;
  std::function<void()> then;
};

// `then` is called before the release, so no later task has written the data yet.
void arrived(void* argument) {
  const std::unique_ptr<Waiting> waiting(static_cast<Waiting*>(argument));
  waiting->then();
  starpu_data_release_on_node(waiting->handle, STARPU_ACQUIRE_NO_NODE);
}

}  // namespace

std::size_t bytes_of(DataType type) {
  switch (type) {
    case DataType::f32:
    case DataType::i32: return 4;
    case DataType::bf16: return 2;
    case DataType::u8: return 1;
  }
  return 0;
}

Tensor::Tensor(std::string name, std::size_t count, DataType type)
    : name_(std::move(name)), count_(count), part_count_(count), type_(type), ids_{next_id++} {}

void Tensor::cut(std::size_t part_count) {
  if (part_count == part_count_) return;
  assert(handles_.empty() && ids_.size() == 1 && part_count > 0);
  part_count_ = part_count;
  ids_.clear();
  for (std::size_t first = 0; first < count_; first += part_count) ids_.push_back(next_id++);
}

std::size_t Tensor::count_of(std::size_t part) const {
  return std::min(part_count_, count_ - part * part_count_);
}

std::size_t TensorPart::count() const { return values > 0 ? values : tensor->count_of(part); }

bool TensorPart::is_whole() const { return values == 0 || values == tensor->count_of(part); }

TensorPart TensorPart::of(const Tensor& other) const {
  return other.count() == count() ? TensorPart(other) : TensorPart(other, part, first, values);
}

void Tensor::place_in(const Tensor& storage) {
  assert(handles_.empty() && ids_.size() == 1 && storage.ids_.size() == 1);
  assert(storage.storage_ == &storage && storage.bytes() >= bytes());
  storage_ = &storage;
}

void Tensor::leave_chains() const {
  if (last_chain_ == kKept) KeptOnGpu::give_back();
  last_chain_ = 0;
}

Tensor::~Tensor() {
  leave_chains();
  for (const DataHandle handle : handles_) starpu_data_unregister(handle);
  if (memory_ != nullptr) starpu_free_flags(memory_, bytes(), STARPU_MALLOC_PINNED);
}

Status Tensor::allocate() {
  if (storage_ != this) return {};
  starpu_ = hold_starpu();
  if (!starpu_) return Error{ErrorKind::failed, name_, "allocated without a running Session", ""};
  if (transient_ && only_gpus_compute()) {
    starpu_vector_data_register(&handles_.emplace_back(), -1, 0, static_cast<std::uint32_t>(count_),
                                bytes_of(type_));
    starpu_data_set_name(handles_.front(), name_.c_str());
    return {};
  }
  // StarPU pins the memory only if there is a GPU driver. Session::start() has set its alignment to
  // cache lines.
  if (starpu_malloc_flags(&memory_, bytes(), STARPU_MALLOC_PINNED) != 0) {
    memory_ = nullptr;
    return Error{ErrorKind::out_of_memory, name_, fmt::format("cannot allocate {} bytes", bytes()),
                 "a smaller --batch or more --subdivisions needs less memory"};
  }
  spread_over_nodes(memory_, bytes());
  std::memset(memory_, 0, bytes());
  for (std::size_t part = 0; part < parts(); ++part) {
    DataHandle& handle = handles_.emplace_back();
    const auto first = reinterpret_cast<uintptr_t>(memory_) + part * part_count_ * bytes_of(type_);
    starpu_vector_data_register(&handle, STARPU_MAIN_RAM, first,
                                static_cast<std::uint32_t>(count_of(part)), bytes_of(type_));
    starpu_data_set_name(handle, name_.c_str());
  }
  return {};
}

void Tensor::send_to_lone_gpu() const {
  if (!only_gpus_compute()) return;
  std::vector<int> workers(starpu_cuda_worker_get_count());
  starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, workers.data(),
                                static_cast<unsigned>(workers.size()));
  const auto memory_of = [](int worker) {
    return starpu_worker_get_memory_node(static_cast<unsigned>(worker));
  };
  const unsigned memory = memory_of(workers.front());
  if (std::ranges::any_of(workers, [&](int each) { return memory_of(each) != memory; })) return;
  for (std::size_t part = 0; part < parts(); ++part)
    starpu_data_prefetch_on_node(storage_->handles_[part], memory, 1);
}

const Tensor* Tensor::rounded() const { return only_gpus_compute() ? rounded_ : nullptr; }

HostAccess::HostAccess(const Tensor& tensor, Mode mode) : tensor_(tensor), mode_(mode) {
  const recording::WaitScope waiting(false);
  // In main memory a tensor's parts are side by side in memory_, so all of them are acquired.
  for (std::size_t part = 0; part < tensor.parts(); ++part)
    starpu_data_acquire(tensor.handle(part), mode == Mode::read ? STARPU_R : STARPU_RW);
  memory_ = starpu_data_get_local_ptr(tensor.handle());
}

HostAccess::~HostAccess() {
  if (mode_ == Mode::write && tensor_.rounded() != nullptr)
    std::ranges::copy(f32(), HostAccess(*tensor_.rounded(), Mode::write).bf16().begin());
  for (std::size_t part = 0; part < tensor_.parts(); ++part)
    starpu_data_release(tensor_.handle(part));
}

std::vector<float> HostAccess::values() const {
  if (tensor_.type() != DataType::bf16) return {f32().begin(), f32().end()};
  return {bf16().begin(), bf16().end()};
}

Tensor& TensorPool::declare(std::string name, std::size_t count, DataType type) {
  Tensor& tensor = tensors_.emplace_back(std::move(name), count, type);
  bytes_ += tensor.bytes();
  return tensor;
}

std::size_t TensorPool::leave_out(const Tensor& tensor) {
  if (!left_out_.insert(&tensor).second) return 0;
  bytes_ -= tensor.bytes();
  return tensor.bytes();
}

void TensorPool::place(Tensor& tensor, const Tensor& storage) {
  tensor.place_in(storage);
  bytes_ -= tensor.bytes();
}

std::vector<TensorSize> TensorPool::sizes() const {
  std::vector<TensorSize> all;
  for (const Tensor& tensor : tensors_)
    if (&tensor.storage() == &tensor && !left_out_.contains(&tensor))
      for (std::size_t part = 0; part < tensor.parts(); ++part)
        all.push_back({tensor.count_of(part) * bytes_of(tensor.type()), tensor.is_transient()});
  return all;
}

Status TensorPool::allocate() {
  for (Tensor& tensor : tensors_)
    if (!left_out_.contains(&tensor)) OMNI_CHECK(tensor.allocate());
  return {};
}

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
