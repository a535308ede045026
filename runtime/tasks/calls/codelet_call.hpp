// A CodeletCall is a submitted call: a codelet with arguments and accesses. A StarPU task carries
// one call, or several (TaskChain).
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

// One allocation holds the call, then its arguments, then its uses of buffers.
struct alignas(std::max_align_t) CodeletCall {
  const CodeletBase* codelet;
  std::uint32_t on_cpu;  // bit i: a core may run entry i of the codelet
  int on_gpu;            // the entry that a GPU may run; -1: none
  std::uint32_t footprint;
  std::uint32_t buffers;
  std::size_t args_bytes;
  int layer, slice;  // as in TaskTag
  Cost cost;
  recording::PendingTask* pending;  // null unless recorded
  BufferSet in_bf16;

  using Owner = std::unique_ptr<CodeletCall, FreeCall>;
  // Returns null if there is no memory.
  static Owner make(const CodeletCall& call, const void* args, std::span<const BufferUse> uses);

  bool has_cpu(std::size_t entry) const { return (on_cpu >> entry & 1u) != 0; }
  const void* args() const { return this + 1; }
  std::size_t bytes() const;  // size of the allocation
  std::span<const BufferUse> uses() const;

  // Runs an entry of the codelet on the buffers. Returns false if the entry fails, which is
  // reported by report_task_error(), or if another task has failed before.
  bool run(std::size_t entry, std::span<void*> memory) const noexcept;
  // Call done() on the host when the work is done, also on a GPU.
  void done() const noexcept;
  bool tells_when_done() const { return codelet->when_done_ != nullptr; }
  void record_time(std::size_t entry, double seconds) const;
};

starpu_data_access_mode starpu_mode(AccessMode mode);
// Lets only `workers` run the task. The caller must keep the set until the task has ended.
void bind(starpu_task& task, const WorkerSet& workers);

// Reports that StarPU refused a task, and destroys the task.
void refuse(starpu_task* task, const std::string& name, int code);

}  // namespace omni
