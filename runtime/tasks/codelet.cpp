#include "runtime/tasks/codelet.hpp"

#include <fmt/format.h>
#include <starpu.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/bf16/float_copies.hpp"
#include "runtime/tasks/expected_times.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/submission.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/task_times.hpp"

namespace omni {
namespace {

using Clock = std::chrono::steady_clock;

ImplementationPolicy current_policy;

// StarPU tells so many implementations of a codelet apart per kind of device; each of the CPU has
// the slot of its rank.
constexpr std::size_t kSlots = 8;
static_assert(kMostBuffers <= STARPU_NMAXBUFS);
static_assert(kSlots <= STARPU_MAXIMPLEMENTATIONS);

// What travels with a task; the args follow it in the same allocation.
struct alignas(std::max_align_t) TaskHeader {
  const CodeletBase* codelet;
  std::uint32_t on_cpu;  // bit i: entry i may run this task
  int on_gpu;            // this entry may; -1: none
  std::uint32_t footprint;
  std::uint32_t buffers;
  int layer;
  Cost cost;
  recording::PendingTask* pending;  // null unless recorded
  BufferSet in_bf16;
  std::array<BufferUse, kMostBuffers> uses;

  bool may_run_in(unsigned slot) const { return (on_cpu >> slot & 1u) != 0; }
  const void* args() const { return this + 1; }
};

const TaskHeader& header_of(const starpu_task* task) {
  return *static_cast<const TaskHeader*>(task->cl_arg);
}

struct Choice {
  std::uint32_t on_cpu = 0;
  int on_gpu = -1;
};

// The implementations StarPU may choose from for these arguments (see Role and
// ImplementationPolicy).
Choice eligible(const std::vector<CodeletBase::Entry>& entries, const void* args) {
  std::uint32_t fast = 0, references = 0;
  int gpu = -1;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const CodeletBase::Entry& entry = entries[i];
    if (!entry.supports(args) || (entry.role == Role::gpu && current_policy.gpu_workers.empty()))
      continue;
    const std::uint32_t bit = 1u << i;
    if (entry.role == Role::gpu)
      gpu = static_cast<int>(i);
    else
      (entry.role == Role::fast ? fast : references) |= bit;
    if (entry.name == current_policy.preferred)
      return entry.role == Role::gpu ? Choice{.on_gpu = gpu} : Choice{.on_cpu = bit};
  }
  const std::uint32_t candidates = fast != 0 ? fast : references;
  if (!current_policy.deterministic) return {.on_cpu = candidates, .on_gpu = gpu};
  // A GPU and a CPU round differently, so only one of them may do it.
  return gpu >= 0 ? Choice{.on_gpu = gpu} : Choice{.on_cpu = candidates & (~candidates + 1)};
}

BufferSet set_of_bf16(std::span<const BufferUse> uses) {
  BufferSet set;
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (uses[i].bf16) set.bits |= 1u << i;
  return set;
}

// Or needs copies of them in floats.
bool takes(const CodeletBase::Entry& entry, BufferSet in_bf16, std::size_t buffers) {
  return in_bf16.empty() || in_bf16 == entry.in_bf16.below(buffers);
}

// Enough for each that a core may try, and for a GPU.
WorkingFloats working(const std::vector<CodeletBase::Entry>& entries, const void* args,
                      std::span<const BufferUse> uses) {
  const auto [on_cpu, on_gpu] = eligible(entries, args);
  const BufferSet in_bf16 = set_of_bf16(uses);
  WorkingFloats most;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if ((on_cpu >> i & 1u) == 0) continue;
    const bool as_they_are = takes(entries[i], in_bf16, uses.size());
    most.grow(entries[i].working(args, as_they_are && !in_bf16.empty()));
    if (!as_they_are) most.copies = float_copies_count(uses);
  }
  if (on_gpu >= 0 && !takes(entries[static_cast<std::size_t>(on_gpu)], in_bf16, uses.size()))
    most.copies_on_gpu = float_copies_count(uses);
  for (const BufferUse& use : uses)
    if (on_gpu >= 0 && use.mode == AccessMode::accumulate)
      most.sum_on_gpu = std::max<std::size_t>(most.sum_on_gpu, use.count);
  return most;
}

std::array<BufferUse, kMostBuffers> uses_of(std::span<const Access> accesses) {
  std::array<BufferUse, kMostBuffers> uses;
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const auto& [data, mode] = accesses[i];
    uses[i] = {static_cast<std::uint32_t>(data.count()), mode,
               data.tensor->type() == DataType::bf16};
  }
  return uses;
}

// Costs count floats: what the tensors take, of what they would take as floats.
double share_of_float_bytes(std::span<const Access> accesses) {
  double bytes = 0, as_floats = 0;
  for (const Access& access : accesses) {
    const DataType type = access.data.tensor->type();
    const auto count = static_cast<double>(access.data.count());
    bytes += count * static_cast<double>(bytes_of(type));
    as_floats +=
        count * static_cast<double>(type == DataType::bf16 ? sizeof(float) : bytes_of(type));
  }
  return bytes / as_floats;
}

// A group may have only a GPU, or none, and a task only an implementation for the other kind. Such
// a task runs on any worker.
bool someone_can(const Choice& choice, const WorkerSet& workers) {
  for (std::size_t i = 0; i < workers.bits().size(); ++i) {
    const std::uint32_t gpus =
        i < current_policy.gpu_workers.size() ? current_policy.gpu_workers[i] : 0;
    const std::uint32_t named = workers.bits()[i];
    if ((choice.on_gpu >= 0 && (named & gpus) != 0) || (choice.on_cpu != 0 && (named & ~gpus) != 0))
      return true;
  }
  return false;
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
      return current_policy.deterministic
                 ? STARPU_RW
                 : static_cast<starpu_data_access_mode>(STARPU_RW | STARPU_COMMUTE);
  }
  return STARPU_RW;
}

}  // namespace

void set_implementation_policy(ImplementationPolicy chosen) { current_policy = std::move(chosen); }
const ImplementationPolicy& implementation_policy() { return current_policy; }
bool only_gpus_compute() {
  return gpus_compute() && (current_policy.deterministic || current_policy.preferred == "cuda");
}

struct CodeletBase::Starpu {
  starpu_codelet codelet;
  starpu_perfmodel model;
  std::string symbol;
};

// The functions that StarPU calls. One `run` per slot, since StarPU does not pass its number.
struct CodeletCallbacks {
  template <std::size_t slot>
  static void run_on_cpu(void* interfaces[], void* cl_arg) noexcept {
    const auto& header = *static_cast<const TaskHeader*>(cl_arg);
    run(interfaces, header, slot);
  }

  static void run_on_gpu(void* interfaces[], void* cl_arg) noexcept {
    const auto& header = *static_cast<const TaskHeader*>(cl_arg);
    run(interfaces, header, static_cast<std::size_t>(header.on_gpu));
  }

  static void run(void* interfaces[], const TaskHeader& header, std::size_t index) noexcept {
    std::array<void*, kMostBuffers> pointers;
    for (std::uint32_t i = 0; i < header.buffers; ++i)
      pointers[i] = reinterpret_cast<void*>(STARPU_VECTOR_GET_PTR(interfaces[i]));
    const CodeletBase::Entry& entry = header.codelet->entries_[index];
    if (header.pending != nullptr)
      header.pending->task.implementation = static_cast<std::uint32_t>(index);
    if (header.codelet->when_begun_) header.codelet->when_begun_(header.args());
    try {
      const bool timed = task_times::recording() && entry.role != Role::gpu;
      const auto before = timed ? Clock::now() : Clock::time_point();
      compute(header, entry, std::span(pointers.data(), header.buffers));
      if (timed)
        task_times::record(header.codelet->name_, entry.name, header.layer, false,
                           std::chrono::duration<double>(Clock::now() - before).count(),
                           header.cost.flops, header.cost.bytes);
    } catch (const std::bad_alloc&) {
      report_task_error({ErrorKind::out_of_memory, label(*header.codelet, entry),
                         "no memory for the working buffer", "use a smaller --slice or --batch"});
    } catch (const std::exception& problem) {
      report_task_error({entry.role == Role::gpu ? ErrorKind::device : ErrorKind::failed,
                         label(*header.codelet, entry), problem.what(), ""});
    }
  }

  static void compute(const TaskHeader& header, const CodeletBase::Entry& entry,
                      std::span<void*> pointers) {
    DeviceContext& context = DeviceContext::current();
    if (takes(entry, header.in_bf16, pointers.size()))
      return entry.run(header.args(), Buffers(pointers, !header.in_bf16.empty()), context);
#ifdef OMNI_CUDA
    const FloatCopying& copying = entry.role == Role::gpu ? kCopyOnGpu : kCopyOnCpu;
#else
    const FloatCopying& copying = kCopyOnCpu;
#endif
    const FloatCopies copies(copying, context, std::span(header.uses).first(pointers.size()),
                             pointers);
    entry.run(header.args(), Buffers(pointers), context);
    copies.write_back();
  }

  // StarPU's epilogue: between the end of a task and the start of those that wait for it.
  static void done(void* task_header) noexcept {
    const auto& header = *static_cast<const TaskHeader*>(task_header);
    header.codelet->when_done_(header.args());
  }

  static void finished(void*) noexcept {
    const starpu_task& task = *starpu_task_get_current();
    const TaskHeader& header = header_of(&task);
    if (task_times::recording() && task.profiling_info != nullptr &&
        starpu_worker_get_type(task.profiling_info->workerid) == STARPU_CUDA_WORKER) {
      starpu_profiling_task_info& info = *task.profiling_info;  // StarPU takes no pointer to const
      const CodeletBase::Entry& entry =
          header.codelet->entries_[static_cast<std::size_t>(header.on_gpu)];
      task_times::record(header.codelet->name_, entry.name, header.layer, true,
                         1e-6 * starpu_timing_timespec_delay_us(&info.start_time, &info.end_time),
                         header.cost.flops, header.cost.bytes);
    }
    if (expected_times::recording()) note_expectations(header, task);
    if (header.pending != nullptr) recording::finished(header.pending, task);
  }

  static void note_expectations(const TaskHeader& header, const starpu_task& task) {
    const auto note = [&](bool on_gpu, std::size_t slot, std::size_t entry) {
      expected_times::record(task, on_gpu, static_cast<unsigned>(slot), header.codelet->name_,
                             header.layer, header.codelet->entries_[entry].name);
    };
    for (std::size_t slot = 0; slot < kSlots; ++slot)
      if (header.may_run_in(static_cast<unsigned>(slot))) note(false, slot, slot);
    if (header.on_gpu >= 0) note(true, 0, static_cast<std::size_t>(header.on_gpu));
  }

  static int can_execute(unsigned worker, starpu_task* task, unsigned slot) {
    const TaskHeader& header = header_of(task);
    return starpu_worker_get_type(static_cast<int>(worker)) == STARPU_CUDA_WORKER
               ? header.on_gpu >= 0 && slot == 0
               : header.may_run_in(slot);
  }

  static std::uint32_t footprint(starpu_task* task) { return header_of(task).footprint; }

  static std::string label(const CodeletBase& codelet, const CodeletBase::Entry& entry) {
    return fmt::format("codelet {} ({})", codelet.name_, entry.name);
  }
};

CodeletBase::CodeletBase(std::string name, std::uint32_t color, std::vector<Entry> entries,
                         Hook when_begun, Hook when_done, int revision, std::size_t args_bytes)
    : name_(std::move(name)),
      entries_(std::move(entries)),
      when_begun_(std::move(when_begun)),
      when_done_(std::move(when_done)),
      args_bytes_(args_bytes),
      starpu_(std::make_unique<Starpu>()) {
  static constexpr std::array<starpu_cpu_func_t, kSlots> kRun{
      CodeletCallbacks::run_on_cpu<0>, CodeletCallbacks::run_on_cpu<1>,
      CodeletCallbacks::run_on_cpu<2>, CodeletCallbacks::run_on_cpu<3>,
      CodeletCallbacks::run_on_cpu<4>, CodeletCallbacks::run_on_cpu<5>,
      CodeletCallbacks::run_on_cpu<6>, CodeletCallbacks::run_on_cpu<7>};
  const std::size_t on_gpu = std::ranges::count(entries_, Role::gpu, &Entry::role);
  const std::size_t on_cpu = entries_.size() - on_gpu;
  if (on_cpu == 0 || on_cpu > kSlots || on_gpu > 1 ||
      (on_gpu == 1 && entries_.back().role != Role::gpu))
    throw std::logic_error(fmt::format(
        "codelet {}: implementations must be 1 to {} of the CPU, then at most one of a GPU", name_,
        kSlots));

  // StarPU numbers the implementations: what was learnt about others must not be taken for these.
  starpu_->symbol = "omni_" + name_;
  if (revision > 1) starpu_->symbol += std::to_string(revision);
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
  std::copy_n(kRun.begin(), on_cpu, codelet.cpu_funcs);
  if (on_gpu > 0) {
    codelet.cuda_funcs[0] = CodeletCallbacks::run_on_gpu;
    codelet.cuda_flags[0] = STARPU_CUDA_ASYNC;
  }
}

CodeletBase::~CodeletBase() = default;

std::uint32_t CodeletBase::color() const { return starpu_->codelet.color; }

void CodeletBase::submit(const void* args, Cost cost, std::uint32_t footprint,
                         std::span<const Access> accesses, TaskTag tag) {
  assert(accesses.size() <= kMostBuffers);
  const auto all_uses = uses_of(accesses);
  const std::span uses = std::span(all_uses).first(accesses.size());
  const BufferSet in_bf16 = set_of_bf16(uses);
  if (task_capture::is_on() &&
      !task_capture::submitted(name_, accesses, tag, [&] { return working(entries_, args, uses); }))
    return;
  if (!in_bf16.empty()) {
    // Counts, as CodeletDefinition::revision does: cores used to compute on copies.
    constexpr int kRevision = 2;
    footprint = static_cast<std::uint32_t>(footprint_of(footprint, in_bf16.bits, kRevision));
    cost.bytes *= share_of_float_bytes(accesses);
  }
  auto* header = static_cast<TaskHeader*>(std::malloc(sizeof(TaskHeader) + args_bytes_));
  if (header == nullptr) {
    report_task_error({ErrorKind::out_of_memory, "codelet " + name_, "cannot create a task", ""});
    return;
  }
  const Choice choice = eligible(entries_, args);
  *header = {.codelet = this,
             .on_cpu = choice.on_cpu,
             .on_gpu = choice.on_gpu,
             .footprint = footprint,
             .buffers = static_cast<std::uint32_t>(accesses.size()),
             .layer = tag.layer,
             .cost = cost,
             .pending = recording::submitted(*this, accesses, tag, cost.flops, cost.bytes),
             .in_bf16 = in_bf16,
             .uses = all_uses};
  std::memcpy(header + 1, args, args_bytes_);

  starpu_task* task = starpu_task_create();
  task->cl = &starpu_->codelet;
  task->cl_arg = header;
  task->cl_arg_size = sizeof(TaskHeader) + args_bytes_;
  task->cl_arg_free = 1;
  if (when_done_) {
    task->epilogue_callback_func = CodeletCallbacks::done;
    task->epilogue_callback_arg = header;
  }
  if (header->pending != nullptr || (choice.on_gpu >= 0 && task_times::recording()) ||
      expected_times::recording())
    task->callback_func = CodeletCallbacks::finished;
  task->priority = tag.priority;
  task->flops = cost.flops;
  std::size_t index = 0;
  for (const Access& access : accesses) {
    task->handles[index] = access.data.tensor->handle(access.data.part);
    task->modes[index++] = starpu_mode(access.mode);
  }
  task->nbuffers = static_cast<int>(accesses.size());
  task_capture::expect(*task);
  if (const WorkerSet* workers = SubmissionScope::current().workers;
      workers != nullptr && !workers->all() && someone_can(choice, *workers)) {
    task->workerids = const_cast<std::uint32_t*>(workers->bits().data());  // only read
    task->workerids_len = static_cast<unsigned>(workers->bits().size());
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
