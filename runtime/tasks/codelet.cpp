#include "runtime/tasks/codelet.hpp"

#include <fmt/format.h>
#include <starpu.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/calls/codelet_call.hpp"
#include "runtime/tasks/calls/task_chain.hpp"
#include "runtime/tasks/own_tasks.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/submission.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/task_times.hpp"
#include "runtime/tasks/worker_set.hpp"

namespace omni {
namespace {

ImplementationPolicy policy_now;

// StarPU numbers the implementations of a codelet for each kind of device; a number is a slot. An
// implementation for cores has the slot of its place in the list.
constexpr std::size_t kSlots = 8;
static_assert(kMostBuffers <= STARPU_NMAXBUFS);
static_assert(kSlots <= STARPU_MAXIMPLEMENTATIONS);

// Thread sanitizer does not see StarPU's spinlock under which a waiting task passes to a worker.
// These calls tell it that the submission happens before the task.
#ifdef __SANITIZE_THREAD__
void tell_of_submission(starpu_task* task) { __tsan_release(task); }
void tell_of_arrival(const starpu_task* task) { __tsan_acquire(const_cast<starpu_task*>(task)); }
#else
void tell_of_submission(starpu_task*) {}
void tell_of_arrival(const starpu_task*) {}
#endif

const CodeletCall& call_of(const starpu_task* task) {
  tell_of_arrival(task);
  return *static_cast<const CodeletCall*>(task->cl_arg);
}

struct Choice {
  std::uint32_t on_cpu = 0;
  int on_gpu = -1;
};

// Returns the implementations that StarPU may choose for these arguments (see Role and
// ImplementationPolicy).
Choice eligible(const std::vector<CodeletBase::Entry>& entries, const void* args) {
  const ImplementationPolicy& policy = implementation_policy();
  std::uint32_t fast = 0, references = 0;
  int gpu = -1;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const CodeletBase::Entry& entry = entries[i];
    if (!entry.supports(args) || (entry.role == Role::gpu && policy.gpu_workers.empty())) continue;
    const std::uint32_t bit = 1u << i;
    if (entry.role == Role::gpu)
      gpu = static_cast<int>(i);
    else
      (entry.role == Role::fast ? fast : references) |= bit;
    if (entry.name == policy.preferred)
      return entry.role == Role::gpu ? Choice{.on_gpu = gpu} : Choice{.on_cpu = bit};
  }
  const std::uint32_t candidates = fast != 0 ? fast : references;
  // GPUs and cores round differently, so in a deterministic run only one kind may run the call.
  if (gpu >= 0 && (policy.deterministic || only_gpus_compute())) return {.on_gpu = gpu};
  if (policy.deterministic) return {.on_cpu = candidates & (~candidates + 1)};
  return {.on_cpu = candidates, .on_gpu = gpu};
}

BufferSet set_of_bf16(std::span<const BufferUse> uses) {
  BufferSet set;
  for (std::size_t i = 0; i < std::min<std::size_t>(uses.size(), 32); ++i)
    if (uses[i].bf16) set.bits |= 1u << i;
  return set;
}

// Returns the memory that suffices for every implementation that StarPU may choose.
WorkingFloats working(const std::vector<CodeletBase::Entry>& entries, const void* args,
                      std::span<const BufferUse> uses) {
  const auto [on_cpu, on_gpu] = eligible(entries, args);
  const BufferSet in_bf16 = set_of_bf16(uses);
  WorkingFloats most;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if ((on_cpu >> i & 1u) == 0) continue;
    const bool as_they_are = entries[i].takes(in_bf16, uses.size());
    most.grow(entries[i].working(args, as_they_are ? in_bf16 : BufferSet()));
    if (!as_they_are) most.copies = float_copies_count(uses);
  }
  if (on_gpu >= 0) {
    const bool as_they_are = entries[on_gpu].takes(in_bf16, uses.size());
    most.grow(entries[on_gpu].working(args, as_they_are ? in_bf16 : BufferSet()));
    if (!as_they_are) most.copies_on_gpu = float_copies_count(uses);
  }
  for (const BufferUse& use : uses)
    if (on_gpu >= 0 && use.mode == AccessMode::accumulate)
      most.sum_on_gpu = std::max<std::size_t>(most.sum_on_gpu, use.count);
  return most;
}

std::vector<BufferUse> uses_of(std::span<const Access> accesses) {
  std::vector<BufferUse> uses;
  uses.reserve(accesses.size());
  for (const auto& [data, mode] : accesses)
    uses.push_back({static_cast<std::uint32_t>(data.count()), mode,
                    data.tensor->type() == DataType::bf16, static_cast<std::uint32_t>(data.first)});
  return uses;
}

// Returns the bytes of the tensors divided by those that cost functions count, which take bf16 for
// floats.
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

// Returns whether a worker of the set can run the task. If a group has only a GPU, or only cores,
// and the task only implementations for the other kind, none can. Such a task is not bound to the
// group.
bool someone_can(const Choice& choice, const WorkerSet& workers) {
  const std::vector<std::uint32_t>& gpu_workers = implementation_policy().gpu_workers;
  for (std::size_t i = 0; i < workers.bits().size(); ++i) {
    const std::uint32_t gpus = i < gpu_workers.size() ? gpu_workers[i] : 0;
    const std::uint32_t named = workers.bits()[i];
    if ((choice.on_gpu >= 0 && (named & gpus) != 0) || (choice.on_cpu != 0 && (named & ~gpus) != 0))
      return true;
  }
  return false;
}

// Returns for each worker whether it may run the task in this submission scope.
std::vector<bool> eligible_workers(const Choice& choice) {
  const WorkerSet* named = SubmissionScope::current().workers;
  const bool bound = named != nullptr && someone_can(choice, *named);
  std::vector<bool> workers(starpu_worker_get_count());
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const bool is_gpu = starpu_worker_get_type(static_cast<int>(i)) == STARPU_CUDA_WORKER;
    workers[i] = (is_gpu ? choice.on_gpu >= 0 : choice.on_cpu != 0) && (!bound || named->has(i));
  }
  return workers;
}

// Codelets are global objects, so the list must exist before main() begins.
std::vector<const CodeletBase*>& all_codelets() {
  static std::vector<const CodeletBase*> all;
  return all;
}

}  // namespace

void set_implementation_policy(ImplementationPolicy chosen) { policy_now = std::move(chosen); }
const ImplementationPolicy& implementation_policy() { return policy_now; }

bool gpus_compute() { return !policy_now.gpu_workers.empty(); }

std::vector<std::size_t> gpu_worker_numbers() {
  std::vector<std::size_t> numbers;
  const std::vector<std::uint32_t>& words = policy_now.gpu_workers;
  for (std::size_t number = 0; number < 32 * words.size(); ++number)
    if ((words[number / 32] >> number % 32 & 1u) != 0) numbers.push_back(number);
  return numbers;
}

bool only_gpus_compute() {
  if (!gpus_compute() || !(policy_now.preferred.empty() || policy_now.preferred == "cuda"))
    return false;
  return policy_now.deterministic || policy_now.gpus_alone || policy_now.preferred == "cuda";
}

void let_cores_compute() { policy_now.gpus_alone = false; }

struct CodeletBase::Starpu {
  starpu_codelet codelet;
  starpu_perfmodel model;
  std::string symbol;
};

// StarPU calls these functions. There is a run_on_cpu() per slot, since StarPU does not pass the
// slot's number.
struct CodeletCallbacks {
  template <std::size_t slot>
  static void run_on_cpu(void* interfaces[], void* cl_arg) noexcept {
    run(interfaces, *static_cast<const CodeletCall*>(cl_arg), slot);
  }

  static void run_on_gpu(void* interfaces[], void* cl_arg) noexcept {
    const auto& call = *static_cast<const CodeletCall*>(cl_arg);
    run(interfaces, call, call.on_gpu);
  }

  static void run(void* interfaces[], const CodeletCall& call, std::size_t entry) noexcept {
    std::array<void*, kMostBuffers> memory;
    for (std::uint32_t i = 0; i < call.buffers; ++i)
      memory[i] = reinterpret_cast<void*>(STARPU_VECTOR_GET_PTR(interfaces[i]));
    call.run(entry, std::span(memory.data(), call.buffers));
  }

  // StarPU calls its epilogue between the end of a task and the start of tasks that wait for it.
  static void done(void* call) noexcept { static_cast<const CodeletCall*>(call)->done(); }

  static void finished(void* own) noexcept {
    const starpu_task& task = *starpu_task_get_current();
    const CodeletCall& call = call_of(&task);
    if (task_times.recording() && task.profiling_info != nullptr &&
        starpu_worker_get_type(task.profiling_info->workerid) == STARPU_CUDA_WORKER) {
      starpu_profiling_task_info& info = *task.profiling_info;  // StarPU takes no pointer to const
      call.record_time(call.on_gpu,
                       1e-6 * starpu_timing_timespec_delay_us(&info.start_time, &info.end_time));
    }
    if (expected_times.recording()) note_expectations(call, task);
    if (call.pending != nullptr) recording::finished(call.pending, task);
    if (own != nullptr) static_cast<OwnTasks*>(own)->done();
  }

  static void note_expectations(const CodeletCall& call, const starpu_task& task) {
    // StarPU counts slots separately for cores and for GPUs.
    const auto note = [&](bool on_gpu, std::size_t slot, std::size_t entry) {
      // Workers of a kind share their models.
      const int worker =
          starpu_worker_get_by_type(on_gpu ? STARPU_CUDA_WORKER : STARPU_CPU_WORKER, 0);
      if (worker < 0) return;
      const double microseconds = starpu_task_worker_expected_length(
          const_cast<starpu_task*>(&task),  // only read
          static_cast<unsigned>(worker), task.sched_ctx, static_cast<unsigned>(slot));
      expected_times.add({.codelet = call.codelet->name_,
                          .implementation = call.codelet->entries_[entry].name,
                          .layer = call.layer,
                          .on_gpu = on_gpu,
                          .seconds = 1e-6 * microseconds});
    };
    for (std::size_t slot = 0; slot < kSlots; ++slot)
      if (call.has_cpu(slot)) note(false, slot, slot);
    if (call.on_gpu >= 0) note(true, 0, call.on_gpu);
  }

  static int can_execute(unsigned worker, starpu_task* task, unsigned slot) {
    const CodeletCall& call = call_of(task);
    return starpu_worker_get_type(static_cast<int>(worker)) == STARPU_CUDA_WORKER
               ? call.on_gpu >= 0 && slot == 0
               : call.has_cpu(slot);
  }

  static std::uint32_t footprint(starpu_task* task) { return call_of(task).footprint; }
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

  // StarPU's models know implementations only by slot. So the name of the model has their names,
  // and a codelet with other implementations has other models.
  starpu_->symbol = "omni_" + name_;
  if (revision > 1) starpu_->symbol += std::to_string(revision);
  for (const Entry& entry : entries_) starpu_->symbol += "." + entry.name;
  for (const char letter : starpu_->symbol) fingerprint_ = footprint_of(fingerprint_, letter);
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
  all_codelets().push_back(this);
}

CodeletBase::~CodeletBase() { std::erase(all_codelets(), this); }

const std::vector<const CodeletBase*>& CodeletBase::all() { return all_codelets(); }

std::uint32_t CodeletBase::color() const { return starpu_->codelet.color; }

void CodeletBase::submit(const void* args, Cost cost, std::uint32_t footprint,
                         std::span<const Access> accesses, TaskTag tag) {
  const std::vector<BufferUse> uses = uses_of(accesses);
  const BufferSet in_bf16 = set_of_bf16(uses);
  if (!in_bf16.empty()) {
    // Raise kRevision for all kernels on bf16, as CodeletDefinition::revision for one codelet. In
    // revision 1, cores computed on copies.
    constexpr int kRevision = 2;
    footprint = static_cast<std::uint32_t>(footprint_of(footprint, in_bf16.bits, kRevision));
    cost.bytes *= share_of_float_bytes(accesses);
  }
  if (task_capture::is_on() &&
      !task_capture::submitted(name_, accesses, tag, cost.flops, cost.bytes,
                               [&] { return working(entries_, args, uses); }))
    return;
  const Choice choice = eligible(entries_, args);
  CodeletCall::Owner call =
      CodeletCall::make({.codelet = this,
                         .on_cpu = choice.on_cpu,
                         .on_gpu = choice.on_gpu,
                         .footprint = footprint,
                         .buffers = static_cast<std::uint32_t>(accesses.size()),
                         .args_bytes = args_bytes_,
                         .layer = tag.layer,
                         .slice = tag.slice,
                         .cost = cost,
                         .pending = nullptr,
                         .in_bf16 = in_bf16},
                        args, uses);
  if (!call) {
    report_task_error({ErrorKind::out_of_memory, "codelet " + name_, "cannot create a task", ""});
    return;
  }
  if (recording::on())
    call->pending = recording::submitted(*this, accesses, tag, cost.flops, cost.bytes,
                                         eligible_workers(choice));
  if (TaskChain* chain = TaskChain::open()) {
    if (choice.on_cpu == 0 && choice.on_gpu >= 0)
      return chain->append(std::move(call), accesses, tag.priority);
    chain->submit();  // this task may have to wait for the chain's calls
  }
  submit_alone(std::move(call), accesses, tag.priority);
}

void CodeletBase::submit_alone(CodeletCall::Owner owned, std::span<const Access> accesses,
                               int priority) {
  if (accesses.size() > kMostBuffers)
    throw std::logic_error(
        fmt::format("codelet {}: {} tensors in one task", name_, accesses.size()));
  CodeletCall* const call = owned.release();  // the task owns it
  starpu_task* task = starpu_task_create();
  task->cl = &starpu_->codelet;
  task->cl_arg = call;
  task->cl_arg_size = call->bytes();
  task->cl_arg_free = 1;
  if (when_done_) {
    task->epilogue_callback_func = CodeletCallbacks::done;
    task->epilogue_callback_arg = call;
  }
  OwnTasks* const own = OwnTasks::current();
  if (call->pending != nullptr || (call->on_gpu >= 0 && task_times.recording()) ||
      expected_times.recording() || own != nullptr)
    task->callback_func = CodeletCallbacks::finished;
  task->callback_arg = own;
  task->priority = priority;
  task->flops = call->cost.flops;
  std::size_t index = 0;
  for (const Access& access : accesses) {
    task->handles[index] = access.data.tensor->handle(access.data.part);
    task->modes[index++] = starpu_mode(access.mode);
  }
  task->nbuffers = static_cast<int>(accesses.size());
  task_capture::expect(*task);
  if (const WorkerSet* workers = SubmissionScope::current().workers;
      workers != nullptr && !workers->all() && someone_can({call->on_cpu, call->on_gpu}, *workers))
    bind(*task, *workers);
  tell_of_submission(task);
  if (own != nullptr) own->submitted();
  if (const int code = starpu_task_submit(task); code != 0) {
    delete call->pending;
    if (own != nullptr) own->done();
    refuse(task, name_, code);
  }
}

}  // namespace omni
