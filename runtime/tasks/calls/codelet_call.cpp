#include "runtime/tasks/calls/codelet_call.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/cuda/cuda_error.hpp"
#include "runtime/cuda/full_gpu.hpp"
#include "runtime/tasks/device_context.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/task_times.hpp"

namespace omni {
namespace {

using Clock = std::chrono::steady_clock;
using Entry = CodeletBase::Entry;

// Returns the offset of the uses in the allocation, where call and arguments take `bytes` bytes.
constexpr std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kUnit = alignof(BufferUse);
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

std::string label(const CodeletCall& call, const Entry& entry) {
  std::string text = fmt::format("codelet {} ({})", call.codelet->name(), entry.name);
  if (call.layer >= 0) text += fmt::format(", layer {}", call.layer);
  if (call.slice >= 0) text += fmt::format(", slice {}", call.slice);
  return text;
}

// A GPU reports errors late, so the hint says that an earlier task may be the cause.
const char* hint_for_failed_gpu() {
  const char* const waits = std::getenv("CUDA_LAUNCH_BLOCKING");
  return waits != nullptr && waits[0] == '1'
             ? ""
             : "an earlier operation may be at fault: CUDA_LAUNCH_BLOCKING=1 names the right one";
}

void compute(const CodeletCall& call, const Entry& entry, std::span<void*> memory) {
  DeviceContext& context = DeviceContext::current();
  const std::span<const BufferUse> uses = call.uses();
  for (std::size_t i = 0; i < uses.size(); ++i)
    memory[i] = static_cast<std::byte*>(memory[i]) +
                uses[i].first * (uses[i].bf16 ? sizeof(Bf16) : sizeof(float));
  if (entry.takes(call.in_bf16, memory.size()))
    return entry.run(call.args(),
                     Buffers(memory, !call.in_bf16.without(entry.maybe_in_bf16).empty(),
                             (call.in_bf16.bits & entry.maybe_in_bf16.bits) != 0),
                     context);
#ifdef OMNI_CUDA
  const FloatCopying& copying = entry.role == Role::gpu ? kCopyOnGpu : kCopyOnCpu;
#else
  const FloatCopying& copying = kCopyOnCpu;
#endif
  const FloatCopies copies(copying, context, uses, memory);
  entry.run(call.args(), Buffers(memory), context);
  copies.write_back();
}

}  // namespace

CodeletCall::Owner CodeletCall::make(const CodeletCall& call, const void* args,
                                     std::span<const BufferUse> uses) {
  const std::size_t args_end = aligned(sizeof(CodeletCall) + call.args_bytes);
  auto* const memory = static_cast<std::byte*>(std::malloc(args_end + uses.size_bytes()));
  if (memory == nullptr) return nullptr;
  Owner made(new (memory) CodeletCall(call));
  std::memcpy(memory + sizeof(CodeletCall), args, call.args_bytes);
  std::uninitialized_copy(uses.begin(), uses.end(),
                          reinterpret_cast<BufferUse*>(memory + args_end));
  return made;
}

void FreeCall::operator()(CodeletCall* call) const { std::free(call); }

std::size_t CodeletCall::bytes() const {
  return aligned(sizeof(CodeletCall) + args_bytes) + buffers * sizeof(BufferUse);
}

std::span<const BufferUse> CodeletCall::uses() const {
  const auto* const memory = reinterpret_cast<const std::byte*>(this);
  return {reinterpret_cast<const BufferUse*>(memory + aligned(sizeof(CodeletCall) + args_bytes)),
          buffers};
}

bool CodeletCall::run(std::size_t number, std::span<void*> memory) const noexcept {
  if (first_task_error() != nullptr) return false;
  const Entry& entry = codelet->entries()[number];
  const Computing computing;
  if (pending != nullptr) pending->task.implementation = static_cast<std::uint32_t>(number);
  if (codelet->when_begun_) codelet->when_begun_(args());
  try {
    const bool timed = task_times.recording() && entry.role != Role::gpu;
    const auto before = timed ? Clock::now() : Clock::time_point();
    compute(*this, entry, memory);
    if (timed) record_time(number, std::chrono::duration<double>(Clock::now() - before).count());
    return true;
  } catch (const OutOfGpuMemory& problem) {
    report_task_error(
        {ErrorKind::out_of_memory, label(*this, entry), problem.what(), hint_for_full_gpu()});
  } catch (const std::bad_alloc&) {
    report_task_error({ErrorKind::out_of_memory, label(*this, entry),
                       "no memory for the working buffer", "use a smaller --slice or --batch"});
  } catch (const std::exception& problem) {
    const bool gpu = entry.role == Role::gpu;
    report_task_error({gpu ? ErrorKind::device : ErrorKind::failed, label(*this, entry),
                       problem.what(), gpu ? hint_for_failed_gpu() : ""});
  }
  return false;
}

void CodeletCall::done() const noexcept {
  if (codelet->when_done_) codelet->when_done_(args());
}

void CodeletCall::record_time(std::size_t entry, double seconds) const {
  const Entry& ran = codelet->entries()[entry];
  task_times.add({.codelet = codelet->name(),
                  .implementation = ran.name,
                  .layer = layer,
                  .on_gpu = ran.role == Role::gpu,
                  .seconds = seconds,
                  .flops = cost.flops,
                  .bytes = cost.bytes});
}

starpu_data_access_mode starpu_mode(AccessMode mode) {
  switch (mode) {
    case AccessMode::read: return STARPU_R;
    case AccessMode::write: return STARPU_W;
    case AccessMode::read_write: return STARPU_RW;
    case AccessMode::accumulate:
      // Commuting tasks run in the order of arrival, which changes sums.
      return implementation_policy().deterministic
                 ? STARPU_RW
                 : static_cast<starpu_data_access_mode>(STARPU_RW | STARPU_COMMUTE);
  }
  return STARPU_RW;
}

void bind(starpu_task& task, const WorkerSet& workers) {
  task.workerids = const_cast<std::uint32_t*>(workers.bits().data());  // only read
  task.workerids_len = static_cast<unsigned>(workers.bits().size());
}

void refuse(starpu_task* task, const std::string& name, int code) {
  task->destroy = 0;
  starpu_task_destroy(task);
  report_task_error({ErrorKind::device, "codelet " + name,
                     fmt::format("StarPU refused the task: {}", std::strerror(-code)),
                     "no worker can run it; see omni-run devices"});
}

}  // namespace omni
