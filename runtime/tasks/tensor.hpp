// A Tensor is an array of numbers that StarPU moves between memories, and for which StarPU orders
// the tasks. It is constructed before it is allocated, so that the memory of all tensors is known
// before. A tensor may be cut into parts, which tasks use independently of each other. Every part
// has a handle of StarPU; in main memory the parts stay side by side. A tensor may also be an alias
// of another tensor's memory.
#pragma once

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/result.hpp"
#include "runtime/tasks/access.hpp"

struct _starpu_data_state;  // what StarPU's handles point to; this header does not include starpu.h

namespace omni {

using DataHandle = _starpu_data_state*;

enum class DataType : std::uint8_t { f32, bf16, i32, u8 };
std::size_t bytes_of(DataType type);

class Tensor {
 public:
  Tensor(std::string name, std::size_t count, DataType type = DataType::f32);
  ~Tensor();
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  const std::string& name() const { return name_; }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * bytes_of(type_); }
  DataType type() const { return type_; }

  // Cuts the tensor into consecutive parts of `part_count` values; the last may be shorter. Call it
  // before allocate(). It may be repeated with the same count.
  void cut(std::size_t part_count);
  std::size_t parts() const { return ids_.size(); }
  std::size_t count_of(std::size_t part) const;
  // Makes this tensor an alias of `storage`, which is at least as large, lives as long, and is no
  // alias itself. Call it before allocate(); neither tensor is cut. For StarPU they are one datum:
  // a task that uses one waits for tasks that use the other.
  void place_in(const Tensor& storage);
  const Tensor& storage() const { return *storage_; }  // the tensor itself unless it is an alias
  // Marks a tensor that every pass writes before reading it. Where only GPUs compute, such a tensor
  // takes no main memory. Call it before allocate(); the tensor is not cut.
  void make_transient() { transient_ = true; }
  bool is_transient() const { return transient_; }
  // Gives the tensor, which is not cut, a copy in bf16 for matrix products on GPUs. HostAccess
  // updates the copy when the host has written the tensor. A task that writes the tensor must write
  // the copy, too.
  void round_into(const Tensor& copy) { rounded_ = &copy; }
  const Tensor* rounded() const;  // the copy; null if there is none, or if cores compute, too
  const Tensor& for_products() const { return rounded() != nullptr ? *rounded_ : *this; }
  // Returns StarPU's handle of a part. First gives up that chains keep the tensor on the GPU (see
  // KeptOnGpu). So every task, host access and transfer must get the handle here.
  DataHandle handle(std::size_t part = 0) const {
    if (storage_->last_chain_ != 0) storage_->leave_chains();
    return storage_->handles_[part];
  }
  // The id is unique in this process. Aliases have the id of their storage.
  std::uint32_t id(std::size_t part = 0) const { return storage_->ids_[part]; }

  Status allocate();  // memory with zeros, known to StarPU; needs a running Session
  // If a single GPU computes, and no core, starts a copy of the tensor to the GPU. Without that, a
  // task fetches the tensor only after it has waited for other tasks. No task may write the tensor
  // meanwhile.
  void send_to_lone_gpu() const;

 private:
  friend class HostAccess;
  friend class KeptOnGpu;
  friend class TaskChain;
  static constexpr std::uint64_t kKept = ~std::uint64_t{0};
  void leave_chains() const;

  std::string name_;
  std::size_t count_, part_count_;
  DataType type_;
  const Tensor* storage_ = this;
  const Tensor* rounded_ = nullptr;
  bool transient_ = false;
  std::shared_ptr<void> starpu_;  // from hold_starpu()
  void* memory_ = nullptr;
  std::vector<std::uint32_t> ids_;   // by part
  std::vector<DataHandle> handles_;  // empty until allocated
  // If a chain of a whole iteration was the last to use the tensor, this is the chain's number. It
  // is kKept while the tensor is kept on the GPU, and 0 after any other use.
  mutable std::atomic<std::uint64_t> last_chain_{0};
};

}  // namespace omni
