// A tensor: a block of numbers that StarPU moves between memories and guards. It is declared first,
// so that memory is known before anything is allocated, and its destructor unregisters it. A tensor
// may be cut into parts with a StarPU handle each, which tasks use independently of each other; in
// main memory the parts stay side by side. It may also be an alias of another tensor's memory.
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

struct _starpu_data_state;  // StarPU's handle; starpu.h itself stays inside runtime and codelets

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

  // Cuts the tensor into consecutive parts of `part_count` values; the last may be shorter. Before
  // allocate(). May be repeated with the same count.
  void cut(std::size_t part_count);
  std::size_t parts() const { return ids_.size(); }
  std::size_t count_of(std::size_t part) const;
  // Makes this tensor an alias of the memory of another one, which is as large or larger, not an
  // alias itself, and lives as long. Before allocate(); neither is cut. StarPU sees one datum: a
  // task that uses one waits for tasks that used the other.
  void place_in(const Tensor& storage);
  const Tensor& storage() const { return *storage_; }  // itself, unless it was placed
  // Marks a tensor that every pass overwrites before it is read. Where only GPUs compute it takes
  // no main memory. Before allocate(), not cut.
  void make_fleeting() { transient_ = true; }
  bool is_transient() const { return transient_; }
  // Gives the tensor, which is not cut, a copy in bf16 for the products of GPUs. It is made again
  // when the host has written the tensor; a task that writes the tensor also writes the copy.
  void round_into(const Tensor& copy) { rounded_ = &copy; }
  const Tensor* rounded() const;  // null: there is none, or cores compute, too
  const Tensor& for_products() const { return rounded() != nullptr ? *rounded_ : *this; }
  // For any use but a chain's of a whole iteration (see KeptOnGpu).
  DataHandle handle(std::size_t part = 0) const {
    if (storage_->last_chain_ != 0) storage_->leave_chains();
    return storage_->handles_[part];
  }
  // Unique in this process; the same for aliases of one memory.
  std::uint32_t id(std::size_t part = 0) const { return storage_->ids_[part]; }

  Status allocate();  // zeroed, registered with StarPU; needs a running Session
  // Starts a copy to the memory of the only GPU, if that GPU alone computes. Otherwise the task
  // would fetch the tensor only after it has waited for other tasks. No task may write the tensor
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
  std::shared_ptr<void> starpu_;  // see hold_starpu()
  void* memory_ = nullptr;
  std::vector<std::uint32_t> ids_;   // by part
  std::vector<DataHandle> handles_;  // empty until allocated
  // The number of the last chain of a whole iteration that used it, and nobody since; or 0, or
  // kKept.
  mutable std::atomic<std::uint64_t> last_chain_{0};
};

}  // namespace omni
