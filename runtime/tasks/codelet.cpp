#include "runtime/tasks/codelet.hpp"

#include <fmt/format.h>
#include <starpu.h>

#include <array>
#include <cassert>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/submission.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/task_times.hpp"

namespace omni {
namespace {

using Clock = std::chrono::steady_clock;

ImplementationPolicy policy;

// What travels with a task; the args follow it in the same allocation.
struct alignas(std::max_align_t) TaskHeader {
  const CodeletBase* codelet;
  std::uint32_t implementations;  // bit i: entry i may run this task
  std::uint32_t footprint;
  std::uint32_t buffers;
  int layer;
  Cost cost;
  recording::PendingTask* pending;  // null unless recorded

  const void* args() const { return this + 1; }
};

const TaskHeader& header_of(const starpu_task* task) {
  return *static_cast<const TaskHeader*>(task->cl_arg);
}

// The implementations StarPU may choose from for these arguments (see Role and
// ImplementationPolicy).
std::uint32_t eligible(const std::vector<CodeletBase::Entry>& entries, const void* args) {
  std::uint32_t fast = 0, references = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].supports(args)) continue;
    const std::uint32_t bit = 1u << i;
    if (entries[i].name == policy.preferred) return bit;
    (entries[i].role == Role::fast ? fast : references) |= bit;
  }
  const std::uint32_t candidates = fast != 0 ? fast : references;
  return policy.deterministic ? candidates & (~candidates + 1) : candidates;
}

starpu_data_access_mode starpu_mode(AccessMode mode) {
  switch (mode) {
    case AccessMode::read:
      return STARPU_R;
    case AccessMode::write:
      return STARPU_W;
    case AccessMode::read_write:
      return STARPU_RW;
    case AccessMode::accumulate:
      // Commuting tasks run in arrival order, which changes the order of a sum.
      return policy.deterministic
                 ? STARPU_RW
                 : static_cast<starpu_data_access_mode>(STARPU_RW | STARPU_COMMUTE);
  }
  return STARPU_RW;
}

}  // namespace

void set_implementation_policy(ImplementationPolicy chosen) { policy = std::move(chosen); }
const ImplementationPolicy& implementation_policy() { return policy; }

struct CodeletBase::Starpu {
  starpu_codelet codelet;
  starpu_perfmodel model;
  std::string symbol;
};

// The functions that StarPU calls. One `run` per implementation, since StarPU does not pass the
// index.
struct CodeletCallbacks {
  template <std::size_t index>
  static void run(void* interfaces[], void* cl_arg) noexcept {
    const auto& header = *static_cast<const TaskHeader*>(cl_arg);
    std::array<void*, STARPU_NMAXBUFS> pointers;
    for (std::uint32_t i = 0; i < header.buffers; ++i)
      pointers[i] = reinterpret_cast<void*>(STARPU_VECTOR_GET_PTR(interfaces[i]));
    const CodeletBase::Entry& entry = header.codelet->entries_[index];
    if (header.pending != nullptr) header.pending->task.implementation = index;
    try {
      const bool timed = task_times::recording();
      const auto before = timed ? Clock::now() : Clock::time_point();
      entry.run(header.args(), Buffers({pointers.data(), header.buffers}),
                DeviceContext::current());
      if (timed)
        task_times::record(header.codelet->name_, entry.name, header.layer,
                           std::chrono::duration<double>(Clock::now() - before).count(),
                           header.cost.flops, header.cost.bytes);
    } catch (const std::bad_alloc&) {
      report_task_error({ErrorKind::out_of_memory, label(*header.codelet, entry),
                         "no memory for the working buffer", "use a smaller --slice or --batch"});
    } catch (const std::exception& problem) {
      report_task_error({ErrorKind::failed, label(*header.codelet, entry), problem.what(), ""});
    }
  }

  static void finished(void* pending) noexcept {
    recording::finished(static_cast<recording::PendingTask*>(pending), *starpu_task_get_current());
  }

  static int can_execute(unsigned, starpu_task* task, unsigned index) {
    return static_cast<int>((header_of(task).implementations >> index) & 1u);
  }

  static std::uint32_t footprint(starpu_task* task) { return header_of(task).footprint; }

  static std::string label(const CodeletBase& codelet, const CodeletBase::Entry& entry) {
    return fmt::format("codelet {} ({})", codelet.name_, entry.name);
  }
};

CodeletBase::CodeletBase(std::string name, std::uint32_t color, std::vector<Entry> entries,
                         std::size_t args_bytes)
    : name_(std::move(name)),
      entries_(std::move(entries)),
      args_bytes_(args_bytes),
      starpu_(std::make_unique<Starpu>()) {
  static constexpr std::array<starpu_cpu_func_t, 4> kRun{
      CodeletCallbacks::run<0>, CodeletCallbacks::run<1>, CodeletCallbacks::run<2>,
      CodeletCallbacks::run<3>};
  static_assert(kRun.size() <= STARPU_MAXIMPLEMENTATIONS);
  assert(!entries_.empty() && entries_.size() <= kRun.size());

  // StarPU numbers the implementations: what was learnt about others must not be taken for these.
  starpu_->symbol = "omni_" + name_;
  for (const Entry& entry : entries_) starpu_->symbol += "." + entry.name;
  std::memset(&starpu_->model, 0, sizeof starpu_->model);
  starpu_->model.type = STARPU_HISTORY_BASED;
  starpu_->model.symbol = starpu_->symbol.c_str();
  starpu_->model.footprint = CodeletCallbacks::footprint;

  starpu_codelet& codelet = starpu_->codelet;
  starpu_codelet_init(&codelet);
  codelet.name = name_.c_str();
  codelet.color = color;
  codelet.nbuffers = STARPU_VARIABLE_NBUFFERS;
  codelet.can_execute = CodeletCallbacks::can_execute;
  codelet.model = &starpu_->model;
  for (std::size_t i = 0; i < entries_.size(); ++i) codelet.cpu_funcs[i] = kRun[i];
}

CodeletBase::~CodeletBase() = default;

std::uint32_t CodeletBase::color() const { return starpu_->codelet.color; }

void CodeletBase::submit(const void* args, Cost cost, std::uint32_t footprint,
                         std::span<const Access> accesses, TaskTag tag) {
  assert(accesses.size() <= STARPU_NMAXBUFS);
  task_capture::submitted(name_, accesses, tag);
  auto* header = static_cast<TaskHeader*>(std::malloc(sizeof(TaskHeader) + args_bytes_));
  if (header == nullptr) {
    report_task_error({ErrorKind::out_of_memory, "codelet " + name_, "cannot create a task", ""});
    return;
  }
  *header = {.codelet = this,
             .implementations = eligible(entries_, args),
             .footprint = footprint,
             .buffers = static_cast<std::uint32_t>(accesses.size()),
             .layer = tag.layer,
             .cost = cost,
             .pending = recording::submitted(*this, accesses, tag, cost.flops, cost.bytes)};
  std::memcpy(header + 1, args, args_bytes_);

  starpu_task* task = starpu_task_create();
  task->cl = &starpu_->codelet;
  task->cl_arg = header;
  task->cl_arg_size = sizeof(TaskHeader) + args_bytes_;
  task->cl_arg_free = 1;
  if (header->pending != nullptr) {
    task->callback_func = CodeletCallbacks::finished;
    task->callback_arg = header->pending;
  }
  task->priority = tag.priority;
  task->flops = cost.flops;
  if (const WorkerSet* workers = SubmissionScope::current().workers;
      workers != nullptr && !workers->all()) {
    task->workerids = const_cast<std::uint32_t*>(workers->bits().data());  // only read
    task->workerids_len = static_cast<unsigned>(workers->bits().size());
  }
  task->nbuffers = static_cast<int>(accesses.size());
  std::size_t index = 0;
  for (const Access& access : accesses) {
    task->handles[index] = access.data.tensor->handle(access.data.part);
    task->modes[index++] = starpu_mode(access.mode);
  }
  if (const int code = starpu_task_submit(task); code != 0) {
    delete header->pending;
    task->destroy = 0;
    starpu_task_destroy(task);
    report_task_error({ErrorKind::device, "codelet " + name_,
                       fmt::format("StarPU refused the task: {}", std::strerror(-code)),
                       "no worker can run it; see omni-run devices"});
  }
}

}  // namespace omni
