#include "runtime/tasks/recorder.hpp"

#include <fmt/format.h>
#include <starpu.h>
#include <starpu_profiling.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>

#include "runtime/log.hpp"
#include "runtime/memory/memory_limits.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/calls/task_chain.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/submission.hpp"
#include "runtime/trace/file.hpp"
#include "runtime/trace/records.hpp"

namespace omni {
namespace {

using trace::Nanoseconds;

constexpr std::size_t kBufferBytes = 1 << 16;
constexpr Nanoseconds kLongestUnwritten = 500'000'000, kSamplingPeriod = 100'000'000;  // 0.5, 0.1 s

}  // namespace

struct Recorder::State {
  explicit State(trace::File&& opened) : file(std::move(opened)) {}

  // A LineBuffer has the lines of a thread that are not yet in the file.
  struct LineBuffer {
    std::mutex mutex;  // another thread locks it only to write out old lines (flush_old)
    trace::Buffer lines;
    Nanoseconds oldest = 0;
  };

  // Tells the buffers of this Recorder from those of others in the same thread.
  const std::uint64_t number = [] {
    static std::atomic<std::uint64_t> made{0};
    return ++made;
  }();

  std::mutex file_mutex;
  trace::File file;
  std::atomic<std::uint64_t> tasks_written{0};

  std::mutex buffers_mutex;
  std::vector<std::unique_ptr<LineBuffer>> buffers;

  // One thread at a time submits, and uses the following members.
  std::uint64_t tasks_submitted = 0;
  std::unordered_map<const CodeletBase*, std::uint32_t> codelets;
  std::vector<bool> data_defined;
  std::map<std::vector<bool>, std::int32_t> eligible;
  Nanoseconds sampled = recording::now();
};

namespace {

using State = Recorder::State;
using LineBuffer = State::LineBuffer;

std::atomic<State*> of_all{nullptr};    // of the Recorder of all threads
thread_local State* of_scope{nullptr};  // of the Scope of this thread
std::atomic<int> recorders{0};
std::mutex ending;  // keeps of_all alive while threads write for which ~Recorder does not wait

State* current() { return of_scope != nullptr ? of_scope : of_all.load(); }

void write_out(State& to, LineBuffer& buffer) {
  const std::lock_guard lock(to.file_mutex);
  if (Status written = to.file.write({buffer.lines.data(), buffer.lines.size()}); !written)
    log::warn("{}; the trace ends here", written.error().message());
  buffer.lines.clear();
}

LineBuffer& own_buffer(State& of) {
  thread_local std::unordered_map<std::uint64_t, LineBuffer*> buffers;  // by State::number
  LineBuffer*& buffer = buffers[of.number];
  if (buffer == nullptr) {
    const std::lock_guard lock(of.buffers_mutex);
    buffer = of.buffers.emplace_back(std::make_unique<LineBuffer>()).get();
  }
  return *buffer;
}

void append_line(State& to, const auto& record, Nanoseconds at) {
  LineBuffer& buffer = own_buffer(to);
  const std::lock_guard lock(buffer.mutex);
  if (buffer.lines.size() == 0) buffer.oldest = at;
  append(buffer.lines, record);
  if (buffer.lines.size() > kBufferBytes || at - buffer.oldest > kLongestUnwritten)
    write_out(to, buffer);
}

// Writes a definition to the file at once, so that it comes before the lines of all threads that
// refer to it.
void define(State& to, const auto& record) {
  LineBuffer line;
  append(line.lines, record);
  write_out(to, line);
}

void flush_old(State& of, Nanoseconds older_than) {
  const std::lock_guard lock(of.buffers_mutex);
  for (const auto& buffer : of.buffers) {
    const std::lock_guard line_lock(buffer->mutex);
    if (buffer->lines.size() != 0 && buffer->oldest <= older_than) write_out(of, *buffer);
  }
}

// Raises times so that none is before the one of the step before. A worker may ask for work before
// its task is pushed, and steps that did not happen have no time.
void keep_order(trace::TaskTimes& times) {
  Nanoseconds before = times.submitted;
  for (Nanoseconds* time : {&times.ready, &times.pop_start, &times.popped, &times.fetch_start,
                            &times.fetch_end, &times.start, &times.end, &times.released})
    before = *time = std::max(before, *time);
}

Nanoseconds nanoseconds(const timespec& time) {
  return static_cast<Nanoseconds>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

trace::AccessMode recorded(AccessMode mode) {
  switch (mode) {
    case AccessMode::read: return trace::AccessMode::read;
    case AccessMode::write: return trace::AccessMode::write;
    case AccessMode::read_write: return trace::AccessMode::update;
    case AccessMode::accumulate:
      return implementation_policy().deterministic ? trace::AccessMode::update
                                                   : trace::AccessMode::add;
  }
  return trace::AccessMode::update;
}

trace::TaskTimes times_of(const starpu_profiling_task_info& info) {
  return {.submitted = nanoseconds(info.submit_time),
          .ready = nanoseconds(info.push_start_time),
          .pop_start = nanoseconds(info.pop_start_time),
          .popped = nanoseconds(info.pop_end_time),
          .fetch_start = nanoseconds(info.acquire_data_start_time),
          .fetch_end = nanoseconds(info.acquire_data_end_time),
          .start = nanoseconds(info.start_time),
          .end = nanoseconds(info.end_time),
          .released = nanoseconds(info.release_data_end_time)};
}

void write_finished(recording::PendingTask& pending, int worker) {
  State& to = *static_cast<State*>(pending.recorder);
  trace::Task& task = pending.task;
  task.worker = worker;
  keep_order(task.times);
  append_line(to, task, task.times.released);
  to.tasks_written.fetch_add(1, std::memory_order_relaxed);
}

// Samples memory per node, and traffic per link since the last sample. StarPU has no public way to
// see single transfers. Its events for profiling tools have neither bytes nor source, and a data
// interface of our own would see asynchronous copies begin, but not end.
void sample(State& to, Nanoseconds at) {
  append_line(to, trace::Counter{"memory.resident", at, static_cast<double>(resident_memory())},
              at);
  for (unsigned node = 1; node < starpu_memory_nodes_get_count(); ++node)
    append_line(to,
                trace::Counter{fmt::format("memory.node{}", node), at,
                               static_cast<double>(starpu_memory_get_used(node))},
                at);
  for (int link = 0; link < starpu_bus_get_count(); ++link) {
    starpu_profiling_bus_info traffic;
    if (starpu_bus_get_profiling_info(link, &traffic) != 0 || traffic.transfer_count <= 0) continue;
    append_line(to,
                trace::Transfer{.from_node = starpu_bus_get_src(link),
                                .to_node = starpu_bus_get_dst(link),
                                .bytes = static_cast<std::uint64_t>(traffic.transferred_bytes),
                                .count = static_cast<std::uint64_t>(traffic.transfer_count),
                                .from = to.sampled,
                                .to = at},
                at);
  }
  to.sampled = at;
}

void sample_and_flush(State& to, Nanoseconds at) {
  if (at - to.sampled < kSamplingPeriod) return;
  sample(to, at);
  flush_old(to, at - kLongestUnwritten);
}

// Returns the id of a set of workers; -1: all workers.
std::int32_t id_of(State& to, const std::vector<bool>& eligible) {
  if (std::ranges::all_of(eligible, std::identity())) return -1;
  const auto [known, added] =
      to.eligible.try_emplace(eligible, static_cast<std::int32_t>(to.eligible.size()));
  if (added) {
    trace::Eligible definition{known->second, {}};
    for (std::size_t worker = 0; worker < eligible.size(); ++worker)
      if (eligible[worker]) definition.workers.push_back(static_cast<std::int32_t>(worker));
    define(to, definition);
  }
  return known->second;
}

// Creates the file in the folder, or in the first free folder beside it, which `folder` then names.
Result<trace::File> create_file(std::filesystem::path& folder, int rank) {
  const std::filesystem::path wanted = folder;
  for (int number = 2;; ++number) {
    std::error_code problem;
    std::filesystem::create_directories(folder, problem);
    if (problem)
      return Error{ErrorKind::usage, folder.string(),
                   "cannot make the trace folder: " + problem.message(),
                   "name a writable one with --trace"};
    const auto name = folder / fmt::format("rank-{}.jsonl", rank);
    std::error_code none;  // ignored: create() reports the error
    if (!std::filesystem::exists(name, none) &&
        !std::filesystem::exists(name.string() + ".part", none))
      return trace::File::create(folder, rank);
    folder = wanted.string() + fmt::format("-{}", number);
  }
}

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::start(const std::filesystem::path& wanted,
                                                  trace::Header header, Of of) {
  // A trailing slash would make "-2" a name inside the folder.
  std::filesystem::path folder = wanted.has_filename() ? wanted : wanted.parent_path();
  OMNI_TRY(trace::File file, create_file(folder, header.rank));
  auto fresh = std::make_unique<State>(std::move(file));

  using namespace std::chrono;
  header.started +=
      duration<double>(system_clock::now().time_since_epoch()).count() - 1e-6 * starpu_timing_now();
  header.scheduler = starpu_sched_get_sched_policy()->policy_name;
  int major, minor, release;
  starpu_get_version(&major, &minor, &release);
  header.starpu = fmt::format("{}.{}.{}", major, minor, release);
  define(*fresh, header);
  for (unsigned id = 0; id < starpu_worker_get_count(); ++id) {
    const int worker = static_cast<int>(id);
    std::array<char, 64> name;
    starpu_worker_get_name(worker, name.data(), name.size());
    define(*fresh, trace::Worker{worker, name.data(),
                                 starpu_worker_get_type_as_string(starpu_worker_get_type(worker)),
                                 static_cast<std::int32_t>(starpu_worker_get_memory_node(id))});
  }
  return std::unique_ptr<Recorder>(new Recorder(std::move(folder), std::move(fresh), of));
}

Recorder::Recorder(std::filesystem::path folder, std::unique_ptr<State> state, Of of)
    : folder_(std::move(folder)), state_(std::move(state)), of_(of) {
  if (of == Of::all_threads) of_all = state_.get();
  if (recorders++ == 0) starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
}

Recorder::Scope::Scope(const Recorder* recorder) : outer_(of_scope) {
  if (recorder != nullptr) of_scope = recorder->state_.get();
}

Recorder::Scope::~Scope() { of_scope = static_cast<State*>(outer_); }

Recorder::~Recorder() {
  starpu_task_wait_for_all();
  TaskChain::record_finished();
  if (--recorders == 0) starpu_profiling_status_set(STARPU_PROFILING_DISABLE);
  const std::lock_guard lock(ending);
  if (of_ == Of::all_threads) of_all = nullptr;
  const Nanoseconds end = recording::now();
  sample(*state_, end);
  flush_old(*state_, end);
  define(*state_, trace::End{end, state_->tasks_written});
  if (Status finished = state_->file.finish(); !finished)
    log::warn("{}", finished.error().message());
}

namespace recording {

bool on() { return current() != nullptr; }

Nanoseconds now() { return std::llround(1e3 * starpu_timing_now()); }

void begin_iteration(std::int64_t iteration) {
  State* to = current();
  if (to == nullptr) return;
  const Nanoseconds at = now();
  append_line(*to, trace::IterationStart{iteration, at}, at);
  sample_and_flush(*to, at);
}

template <class Record>
void write(const Record& record) {
  const std::lock_guard lock(ending);
  State* to = current();
  if (to == nullptr) return;
  if constexpr (requires { record.at; })
    append_line(*to, record, record.at);
  else if constexpr (requires { record.to; })
    append_line(*to, record, record.to);
  else
    define(*to, record);
}
template void write(const trace::Layer&);
template void write(const trace::Peak&);
template void write(const trace::Counter&);
template void write(const trace::Transfer&);
template void write(const trace::Exchange&);
template void write(const trace::Meeting&);

WaitScope::WaitScope(bool for_all) : for_all_(for_all), from_(on() ? now() : 0) {}

WaitScope::~WaitScope() {
  constexpr Nanoseconds kNotWorthALine = 2'000;
  State* to = current();
  if (to == nullptr || from_ == 0) return;
  const Nanoseconds at = now();
  if (at - from_ >= kNotWorthALine) append_line(*to, trace::Wait{for_all_, from_, at}, at);
  sample_and_flush(*to, at);
}

PendingTask* submitted(const CodeletBase& codelet, std::span<const Access> accesses, TaskTag tag,
                       double flops, double bytes, const std::vector<bool>& eligible) {
  State* to = current();
  if (to == nullptr) return nullptr;
  const auto [known, added] =
      to->codelets.try_emplace(&codelet, static_cast<std::uint32_t>(to->codelets.size()));
  if (added) {
    trace::Codelet definition{known->second, codelet.name(), codelet.color(), {}};
    for (const CodeletBase::Entry& entry : codelet.entries())
      definition.implementations.push_back(entry.name);
    define(*to, definition);
  }
  auto* pending = new PendingTask{.recorder = to, .task = {}, .accesses = {}};
  for (const Access& access : accesses) {
    const std::uint32_t data = access.data.tensor->id(access.data.part);
    if (data >= to->data_defined.size()) to->data_defined.resize(data + 1);
    if (!to->data_defined[data]) {
      to->data_defined[data] = true;
      const Tensor& tensor = access.data.tensor->storage();
      define(*to, trace::Data{data, tensor.name(),
                              tensor.count_of(access.data.part) * bytes_of(tensor.type())});
    }
    pending->accesses.push_back({data, recorded(access.mode)});
  }
  trace::Task& task = pending->task;
  task.id = to->tasks_submitted++;
  task.codelet = known->second;
  task.eligible = id_of(*to, eligible);
  task.layer = tag.layer;
  task.slice = tag.slice;
  task.iteration = SubmissionScope::current().iteration;
  task.group = SubmissionScope::current().group;
  task.flops = flops;
  task.bytes = bytes;
  task.accesses = pending->accesses;
  return pending;
}

void finished(PendingTask* pending, const starpu_task& task) {
  const std::unique_ptr<PendingTask> owned(pending);
  if (task.profiling_info == nullptr) return;
  owned->task.times = times_of(*task.profiling_info);
  if (task.predicted > 0) owned->task.predicted = 1e3 * task.predicted;
  write_finished(*owned, task.profiling_info->workerid);
}

void finished_among_others(PendingTask* pending, const starpu_profiling_task_info& chain,
                           BeforeEnd computed) {
  const std::unique_ptr<PendingTask> owned(pending);
  trace::TaskTimes& times = owned->task.times = times_of(chain);
  const Nanoseconds end = times.end;
  const auto before_end = [&](double microseconds) {
    return end - std::llround(1e3 * microseconds);
  };
  times.start = before_end(computed.from);
  times.end = before_end(computed.to);
  if (times.end < end) times.released = times.end;  // the next calls may use the data at once
  if (!computed.first)                              // this call waited only for the calls before it
    times.ready = times.pop_start = times.popped = times.fetch_start = times.fetch_end =
        before_end(computed.turn);
  write_finished(*owned, chain.workerid);
}

}  // namespace recording
}  // namespace omni
