// A submitted call of a codelet with its arguments. A StarPU task carries one call or several (see
// TaskChain).
#pragma once

#include <starpu.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/bf16/float_copies.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/worker_set.hpp"

namespace omni {

// The same allocation holds the arguments after it, then the accesses.
struct alignas(std::max_align_t) CodeletCall {
  const CodeletBase* codelet;
  std::uint32_t on_cpu;  // bit i: entry i may serve this call
  int on_gpu;            // this entry may; -1: none
  std::uint32_t footprint;
  std::uint32_t buffers;
  std::size_t args_bytes;
  int layer, slice;  // -1: none
  Cost cost;
  recording::PendingTask* pending;  // null unless recorded
  BufferSet in_bf16;

  using Owner = std::unique_ptr<CodeletCall, FreeCall>;
  // Null: no memory.
  static Owner make(const CodeletCall& call, const void* args, std::span<const BufferUse> uses);

  bool has_cpu(std::size_t entry) const { return (on_cpu >> entry & 1u) != 0; }
  const void* args() const { return this + 1; }
  std::size_t bytes() const;  // of the allocation
  std::span<const BufferUse> uses() const;

  // Runs an entry of the codelet on the buffers. False: it failed, which is reported, or another
  // task did before.
  bool run(std::size_t entry, std::span<void*> memory) const noexcept;
  // Called on the host when the work is done.
  void done() const noexcept;
  bool tells_when_done() const { return codelet->when_done_ != nullptr; }
  void record_time(std::size_t entry, double seconds) const;
};

// StarPU's form of an access, and the workers of a task. The set outlives the task.
starpu_data_access_mode starpu_mode(AccessMode mode);
void bind(starpu_task& task, const WorkerSet& workers);

// Reports that StarPU refused a task.
void refuse(starpu_task* task, const std::string& name, int code);

}  // namespace omni
