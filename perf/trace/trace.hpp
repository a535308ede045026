// A trace in memory: the records of all ranks, tasks in submission order, and the dependencies that
// follow from who touched which data.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"
#include "runtime/trace/records.hpp"

namespace omni::perf {

using trace::Nanoseconds;

// trace::Task without its accesses, which lie together in Trace::accesses.
struct Task {
  std::uint64_t id;
  std::uint32_t codelet, implementation;  // index into Trace::codelets, and into its list
  std::uint32_t worker;                   // index into Trace::workers
  std::int32_t eligible;                  // index into Trace::eligible; -1: all workers of its rank
  std::int32_t layer, slice, group;
  std::int64_t iteration;
  trace::TaskTimes times;
  double predicted, flops, bytes;
  std::uint32_t first_access, access_count;

  Nanoseconds length() const { return times.end - times.start; }
  double seconds() const { return static_cast<double>(length()) * 1e-9; }
};

struct Worker {
  std::string name, kind;  // the name says the rank when there are several
  std::int32_t rank = 0, node = 0;
};

struct Trace {
  std::vector<trace::Header> headers;  // by rank, ascending
  bool complete = true;                // false: some rank's run was killed
  std::vector<Worker> workers;
  std::vector<trace::Codelet> codelets;  // same name, same entry, whatever the rank
  std::vector<trace::Layer> layers;      // by id
  std::vector<trace::Data> data;
  std::vector<std::vector<bool>> eligible;  // has the index of a worker in it, if that is one
  std::vector<trace::Peak> peaks;
  std::vector<Task> tasks;  // by rank, then in submission order
  std::vector<trace::Access> accesses;
  std::vector<trace::IterationStart> iterations;
  std::vector<trace::Wait> waits;
  std::vector<trace::Transfer> transfers;
  std::vector<trace::Exchange> exchanges;
  std::vector<trace::Meeting> meetings;
  std::vector<trace::Counter> counters;
  Nanoseconds begin = 0, end = 0;  // of the first and the last thing that happened

  double wall_seconds() const { return static_cast<double>(end - begin) * 1e-9; }
  std::span<const trace::Access> accesses_of(const Task& task) const {
    return std::span(accesses).subspan(task.first_access, task.access_count);
  }
  const std::string& codelet_name(const Task& task) const { return codelets[task.codelet].name; }
  const std::string& implementation_name(const Task& task) const {
    return codelets[task.codelet].implementations[task.implementation];
  }
};

// Reads what a run recorded: a folder of rank-<n>.jsonl (or .jsonl.part of a killed run), or one
// such file. Nothing in a file is trusted; a problem is ErrorKind::data with "file:line".
Result<Trace> read_trace(const std::filesystem::path& path);

// Whether a file is called as the recording of a process is.
bool is_called_like_a_recording(const std::filesystem::path& path);

// The same of a text; `name` stands for the file. killed: as a .part file.
Result<Trace> read_trace_text(std::string_view text, std::string_view name, bool killed = false);

// ---- what starpu_fxt_tool writes about the tasks of any StarPU program (tasks.rec), as a trace
// ----
//
// It knows less than our recorder: nothing about who asked for work when, fetching, predictions,
// and the submitting thread; a task is ready when the tasks are done that it depends on, and
// whatever passes from then to its start counts as scheduling. Workers on memory node 0 are called
// CPU, others by their node.

struct Imported {
  std::size_t tasks = 0, ranks = 0;
  std::size_t left_out = 0;  // tasks that no worker ran: without a codelet, or not ended
};

// `from`: tasks.rec, or its folder. `to`: a folder, created if missing, without a trace in it.
Result<Imported> import_fxt(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace omni::perf
