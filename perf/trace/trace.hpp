// A Trace is a trace in memory: the records of all ranks, with tasks in the order of submission.
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

// A Task is a trace::Task whose accesses are in Trace::accesses, with those of all tasks.
struct Task {
  std::uint64_t id;
  std::uint32_t codelet,
      implementation;     // indices into Trace::codelets, and into its implementations
  std::uint32_t worker;   // index into Trace::workers
  std::int32_t eligible;  // index into Trace::eligible; -1: all workers of its rank
  std::int32_t layer, slice, group;
  std::int64_t iteration;
  trace::TaskTimes times;
  double predicted, flops, bytes;
  std::uint32_t first_access, access_count;

  Nanoseconds length() const { return times.end - times.start; }
  double seconds() const { return static_cast<double>(length()) * 1e-9; }
};

struct Worker {
  std::string name, kind;  // if there are several ranks, the name begins with the rank
  std::int32_t rank = 0, node = 0;
};

struct Trace {
  std::vector<trace::Header> headers;  // by rank, ascending
  bool complete = true;                // false: the run of some rank was killed
  std::vector<Worker> workers;
  std::vector<trace::Codelet> codelets;  // all ranks share a codelet of the same name
  std::vector<trace::Layer> layers;      // by id
  std::vector<trace::Data> data;
  std::vector<std::vector<bool>> eligible;  // sets of workers: whether a worker is in one, by index
  std::vector<trace::Peak> peaks;
  std::vector<Task> tasks;  // by rank, then in submission order
  std::vector<trace::Access> accesses;
  std::vector<trace::IterationStart> iterations;
  std::vector<trace::Wait> waits;
  std::vector<trace::Transfer> transfers;
  std::vector<trace::Exchange> exchanges;
  std::vector<trace::Meeting> meetings;
  std::vector<trace::Counter> counters;
  Nanoseconds begin = 0, end = 0;  // times of the first and of the last event, without counters

  double wall_seconds() const { return static_cast<double>(end - begin) * 1e-9; }
  std::span<const trace::Access> accesses_of(const Task& task) const {
    return std::span(accesses).subspan(task.first_access, task.access_count);
  }
  const std::string& codelet_name(const Task& task) const { return codelets[task.codelet].name; }
  const std::string& implementation_name(const Task& task) const {
    return codelets[task.codelet].implementations[task.implementation];
  }
};

// Reads the trace of a run: a folder with files rank-<n>.jsonl (of a killed run, .jsonl.part), or
// one such file. Every record is checked. Errors are ErrorKind::data with "file:line".
Result<Trace> read_trace(const std::filesystem::path& path);

// Returns whether a file has a name like those that a Recorder gives.
bool is_called_like_a_recording(const std::filesystem::path& path);

// Reads a text as such a file. `name` stands for the file's name; `killed` means a .part file.
Result<Trace> read_trace_text(std::string_view text, std::string_view name, bool killed = false);

}  // namespace omni::perf
