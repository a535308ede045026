#include "runtime/tasks/calls/task_chain.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/own_tasks.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/submission.hpp"
#include "runtime/tasks/task_capture.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/task_times.hpp"
#include "runtime/tasks/worker_set.hpp"

#ifdef OMNI_CUDA
#include "runtime/cuda/first_launch.hpp"
#include "runtime/cuda/timed_event.hpp"
#endif

namespace omni {

// ChainMarks are events between a chain's calls in the GPU's stream. They tell how long each call
// took.
#ifdef OMNI_CUDA
constexpr bool kHasStreams = true;
class ChainMarks {
 public:
  void add() { events_.emplace_back().record(starpu_cuda_get_local_stream()); }
  // If the GPU has already passed the mark when the host launches the call, the GPU has waited for
  // the host. Then a second mark notes when the call was launched.
  void add_before_call() {
    add();
    std::optional<TimedEvent>& launched_late = launched_late_.emplace_back();
    on_first_launch = [this, &launched_late] {
      if (events_.back().passed()) launched_late.emplace().record(starpu_cuda_get_local_stream());
    };
  }
  static void watch_no_more() { on_first_launch = nullptr; }
  std::size_t calls() const { return events_.empty() ? 0 : events_.size() - 1; }
  recording::BeforeEnd of_call(std::size_t i) const {
    const double turn = microseconds_to_end(events_[i]);
    const std::optional<TimedEvent>& late = launched_late_[i];
    return {.turn = turn,
            .from = late ? microseconds_to_end(*late) : turn,
            .to = microseconds_to_end(events_[i + 1]),
            .first = i == 0};
  }

 private:
  double microseconds_to_end(const TimedEvent& mark) const {
    return 1e3 * static_cast<double>(events_.back().milliseconds_since(mark));
  }

  std::deque<TimedEvent> events_;
  std::deque<std::optional<TimedEvent>> launched_late_;  // by call, if the GPU waited for the host
};
#else
constexpr bool kHasStreams = false;  // there are no chains; GPUs are at most simulated
struct ChainMarks {
  void add() {}
  void add_before_call() {}
  static void watch_no_more() {}
  std::size_t calls() const { return 0; }
  recording::BeforeEnd of_call(std::size_t) const { return {}; }
};
#endif

namespace {

thread_local TaskChain* open_chain = nullptr;
thread_local bool runs_untimed_chain = false;  // true: this worker runs a chain without marks

// Returns the only GPU worker in the set; nullopt if there are several or none, or if cores
// compute.
std::optional<unsigned> lone_gpu_worker(const WorkerSet* named) {
  if (!only_gpus_compute()) return std::nullopt;
  std::vector<std::size_t> workers = gpu_worker_numbers();
  if (named != nullptr) std::erase_if(workers, [&](auto each) { return !named->has(each); });
  return workers.size() == 1 ? std::optional(static_cast<unsigned>(workers[0])) : std::nullopt;
}

// Returns the chain's access to a datum that two of its calls use, one after the other. If the
// first call overwrites the datum, the chain does so, too.
AccessMode joined(AccessMode first, AccessMode second) {
  if (first == second || first == AccessMode::write) return first;
  return AccessMode::read_write;
}

}  // namespace

// A Task is the argument of StarPU's task. StarPU calls its static functions.
struct TaskChain::Task {
  std::vector<Link> links;
  std::vector<const CodeletCall*> tells_when_done;
  KeptOnGpu::Kept kept;
  std::vector<std::uint32_t> declared;  // by datum: its number among the buffers of StarPU's task
  std::uint32_t footprint = 0;
  bool timed = false;
  ChainMarks marks;
  std::optional<starpu_profiling_task_info> profile;
  static inline std::mutex finished_mutex;
  static inline std::vector<std::unique_ptr<Task>> finished_chains;

  static const Task& of(const starpu_task* task) { return *static_cast<Task*>(task->cl_arg); }

  void run(void* interfaces[]) {
    std::vector<void*> memory;
    for (const Link& link : links) {
      memory.clear();
      for (const std::uint32_t data : link.data)
        memory.push_back(kept.data[data] != nullptr ? kept.data[data]->memory
                                                    : reinterpret_cast<void*>(STARPU_VECTOR_GET_PTR(
                                                          interfaces[declared[data]])));
      if (timed) marks.add_before_call();
      if (!link.call->run(link.call->on_gpu, memory)) return;
    }
    if (timed) marks.add();
  }

  static void run_on_gpu(void* interfaces[], void* argument) noexcept {
    Task& chain = *static_cast<Task*>(argument);
    runs_untimed_chain = !chain.timed;
    try {
      chain.run(interfaces);
    } catch (const std::exception& problem) {
      report_task_error({ErrorKind::device, "codelet chain", problem.what(), ""});
    }
    runs_untimed_chain = false;
    ChainMarks::watch_no_more();
    if (chain.kept.launched != 0) starpu_tag_notify_from_apps(chain.kept.launched);
    record_finished();
  }

  static void done(void* argument) noexcept {
    for (const CodeletCall* call : static_cast<Task*>(argument)->tells_when_done) call->done();
  }

  // The next chain waits for the worker that runs this callback, so times are read later.
  static void finished(void* argument) noexcept {
    std::unique_ptr<Task> chain(static_cast<Task*>(argument));
    if (chain->kept.after != 0)
      for (const std::uint64_t tag : {chain->kept.after, chain->kept.launched + 1})
        starpu_tag_remove(tag);
    if (const auto* info = starpu_task_get_current()->profiling_info) chain->profile = *info;
    const std::lock_guard lock(finished_mutex);
    finished_chains.push_back(std::move(chain));
  }

  // The marks tell how long the calls took, and StarPU when the last one was done.
  void record() const {
    for (std::size_t i = 0; i < links.size(); ++i) {
      const CodeletCall& call = *links[i].call;
      if (i >= marks.calls() || !profile) {
        delete call.pending;
        continue;
      }
      const recording::BeforeEnd computed = marks.of_call(i);
      if (task_times.recording())
        call.record_time(call.on_gpu, 1e-6 * (computed.from - computed.to));
      if (call.pending != nullptr)
        recording::finished_among_others(call.pending, *profile, computed);
    }
  }

  static starpu_codelet& codelet() {
    static starpu_perfmodel model = [] {
      starpu_perfmodel made{};
      made.type = STARPU_HISTORY_BASED;
      made.symbol = "omni_chain";
      made.footprint = [](starpu_task* task) { return of(task).footprint; };
      return made;
    }();
    static starpu_codelet codelet = [] {
      starpu_codelet made;
      starpu_codelet_init(&made);
      made.name = "chain";
      made.nbuffers = STARPU_VARIABLE_NBUFFERS;
      made.model = &model;
      made.cuda_funcs[0] = run_on_gpu;
      made.cuda_flags[0] = STARPU_CUDA_ASYNC;
      return made;
    }();
    return codelet;
  }
};

bool time_counts() {
  return starpu_is_initialized() != 0 && starpu_task_get_current() != nullptr &&
         !runs_untimed_chain;
}

TaskChain* TaskChain::open() { return open_chain; }

void TaskChain::record_finished() {
  std::vector<std::unique_ptr<Task>> chains;
  {
    const std::lock_guard lock(Task::finished_mutex);
    chains.swap(Task::finished_chains);
  }
  try {
    for (const auto& chain : chains) chain->record();
  } catch (const std::exception& problem) {
    report_task_error({ErrorKind::device, "codelet chain", problem.what(), ""});
  }
}

void TaskChain::append(CodeletCall::Owner call, std::span<const Access> accesses, int priority) {
  priority_ = links_.empty() ? priority : std::max(priority_, priority);
  Link& link = links_.emplace_back(Link{std::move(call), {}});
  const std::size_t from_before = uses_.size();
  for (const Access& access : accesses) {
    const Tensor& tensor = access.data.tensor->storage();
    const DataHandle handle = most_calls_ == kWholeIteration ? tensor.handles_[access.data.part]
                                                             : tensor.handle(access.data.part);
    const auto number =
        numbers_.try_emplace(handle, static_cast<std::uint32_t>(uses_.size())).first->second;
    link.data.push_back(number);
    if (number == uses_.size()) {
      uses_.push_back({handle, &tensor, access.mode});
      continue;
    }
    AccessMode& mode = uses_[number].mode;
    const bool of_this_call = number >= from_before;
    mode = !of_this_call         ? joined(mode, access.mode)
           : mode == access.mode ? mode
                                 : AccessMode::read_write;
  }
  if (links_.size() == most_calls_) submit();
}

void TaskChain::submit() {
  if (links_.empty()) return;
  auto chain = std::make_unique<Task>();
  starpu_task* task = starpu_task_create();
  for (const Link& link : links_) {
    const CodeletCall& call = *link.call;
    chain->footprint = static_cast<std::uint32_t>(
        footprint_of(chain->footprint, call.codelet->fingerprint(), call.footprint));
    chain->timed |= call.pending != nullptr;
    if (call.tells_when_done()) chain->tells_when_done.push_back(&call);
    task->flops += call.cost.flops;
  }
  chain->timed |= task_times.recording();
  chain->links = std::move(links_);

  if (most_calls_ == kWholeIteration) {
    chain->kept = KeptOnGpu::keep(uses_, *lone_gpu_worker(workers_));
  } else {
    KeptOnGpu::give_back();  // this may be an evaluation, which may need the memory
    chain->kept.data.resize(uses_.size());
  }
  // StarPU frees this memory.
  task->dyn_handles =
      static_cast<DataHandle*>(std::malloc((uses_.size() + 1) * sizeof(DataHandle)));
  task->dyn_modes = static_cast<starpu_data_access_mode*>(
      std::malloc((uses_.size() + 1) * sizeof(starpu_data_access_mode)));
  const auto declare = [&](DataHandle handle, AccessMode mode) {
    task->dyn_handles[task->nbuffers] = handle;
    task->dyn_modes[task->nbuffers++] = starpu_mode(mode);
  };
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    chain->declared.push_back(static_cast<std::uint32_t>(task->nbuffers));
    if (chain->kept.data[i] == nullptr) declare(uses_[i].handle, uses_[i].mode);
  }
  if (chain->kept.gate != nullptr) declare(chain->kept.gate, AccessMode::read);
  if (chain->kept.after != 0) {
    task->use_tag = 1;
    task->tag_id = chain->kept.launched + 1;
    starpu_tag_declare_deps(task->tag_id, 1, chain->kept.after);
  }
  task->cl = &Task::codelet();
  task->cl_arg = chain.get();
  task->epilogue_callback_func = Task::done;
  task->epilogue_callback_arg = chain.get();
  task->callback_func = Task::finished;
  task->callback_arg = chain.get();
  task->priority = priority_;
  if (workers_ != nullptr && !workers_->all()) bind(*task, *workers_);
  links_.clear();
  uses_.clear();
  numbers_.clear();
  if (const int code = starpu_task_submit(task); code != 0) {
    for (const Link& link : chain->links) delete link.call->pending;
    if (chain->kept.launched != 0) starpu_tag_notify_from_apps(chain->kept.launched);
    return refuse(task, "chain", code);
  }
  chain.release();  // StarPU's callback frees it
}

ChainScope::ChainScope(bool wanted, std::size_t most_calls)
    : chain_(SubmissionScope::current().workers, most_calls) {
  // With several trainings (OwnTasks) there are no chains, as these keep one training's tensors on
  // the GPU.
  opened_ = wanted && kHasStreams && open_chain == nullptr && !task_capture::is_on() &&
            OwnTasks::current() == nullptr && lone_gpu_worker(SubmissionScope::current().workers);
  if (opened_) open_chain = &chain_;
}

ChainScope::~ChainScope() {
  if (!opened_) return;
  open_chain = nullptr;
  chain_.submit();
}

}  // namespace omni
