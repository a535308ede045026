// What a trace consists of: one record per fact of a run, in a folder with one file per process.
// Written by the engine while it runs (runtime/tasks) and by importers, read by perf.
//
// A file holds one JSON object per line and is called rank-<n>.jsonl.part while its run goes on;
// only a run that ended renames it to rank-<n>.jsonl. So a killed run is told from a file that lost
// its tail: a .part may stop anywhere, the other ends with an `end` record.
//
// Times are nanoseconds since the start of StarPU in that process. A member `rank` is not on the
// line: the reader knows it from the file.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace omni::trace {

using Nanoseconds = std::int64_t;

constexpr int kVersion = 1;

// The first line.
struct Header {
  int rank = 0;
  double started = 0;  // seconds since 1970 at time 0; aligns the ranks
  std::string host{}, command{}, starpu{}, scheduler{}, net{};
  int batch = 0;  // images per iteration
};

// ---- what the numbers in the other records mean; each comes before its first use ----

struct Worker {
  std::int32_t id = 0;
  std::string name, kind;  // "CPU 0", "CPU"
  std::int32_t node = 0;   // its memory node
};

struct Codelet {
  std::uint32_t id = 0;
  std::string name;
  std::uint32_t color = 0x808080;
  std::vector<std::string> implementations;
};

struct Layer {
  std::int32_t id = 0;
  std::string type, detail;  // "convolutional", "64 3x3/1"
};

struct Data {
  std::uint32_t id = 0;
  std::string name;
  std::uint64_t bytes = 0;
  std::int32_t rank = 0;
};

// Workers that may run a task; where some may not.
struct Eligible {
  std::int32_t id = 0;
  std::vector<std::int32_t> workers;
};

// What this machine can do, measured before the run: flop/s of a large matrix product ("gemm"),
// bytes/s of a large copy ("copy").
struct Peak {
  std::string what, kind;  // of which kind of worker
  double per_worker = 0;   // one alone
  double together = 0;     // all of that kind at once, their sum
};

// ---- what happened ----

enum class AccessMode : std::uint8_t { read, write, update, add };  // add: updates that commute

struct Access {
  std::uint32_t data = 0;
  AccessMode mode = AccessMode::read;
  auto operator<=>(const Access&) const = default;
};

// The order is that of a task's life. Times of steps that did not happen repeat the one before.
struct TaskTimes {
  Nanoseconds submitted = 0;
  Nanoseconds ready = 0;                       // dependencies met, given to the scheduler
  Nanoseconds pop_start = 0, popped = 0;       // its worker asks for work and gets it
  Nanoseconds fetch_start = 0, fetch_end = 0;  // its data are brought to the worker's memory
  Nanoseconds start = 0, end = 0;              // the kernel
  Nanoseconds released = 0;                    // its data may be used by others
};

struct Task {
  std::uint64_t id = 0;  // counts up in submission order
  std::uint32_t codelet = 0, implementation = 0;
  std::int32_t worker = 0;
  std::int32_t eligible = -1;  // id of the set of workers that may run it; -1: all
  std::int32_t layer = -1, slice = -1, group = 0;  // -1: belongs to none
  std::int64_t iteration = -1;
  TaskTimes times;
  double predicted = std::numeric_limits<double>::quiet_NaN();  // ns; NaN: the model was not sure
  double flops = 0, bytes = 0;
  std::span<const Access> accesses{};  // the dependencies follow from these and the ids
};

// The submitting thread begins an iteration.
struct IterationStart {
  std::int64_t iteration = 0;
  Nanoseconds at = 0;
  std::int32_t rank = 0;
};

// The submitting thread waits: for all tasks (a barrier), or for one tensor's values.
struct Wait {
  bool for_all = false;
  Nanoseconds from = 0, to = 0;
  std::int32_t rank = 0;
};

struct Transfer {
  std::int32_t from_node = 0, to_node = 0;
  std::uint64_t bytes = 0, count = 1;  // a record may sum up several that happened in [from, to]
  Nanoseconds from = 0, to = 0;
  std::int32_t rank = 0;
  std::int32_t from_rank = -1;  // of a message, from when it was awaited; -1: within the process
};

// A group handed its gradient to the master copy and took the parameters back.
struct Exchange {
  std::int64_t iteration = 0;
  std::int32_t group = 0;
  std::int64_t staleness = 0;  // updates by others since it last took them
  Nanoseconds at = 0;
  std::int32_t rank = 0;
};

// All groups, each with a model of its own, shared what these had learnt.
struct Meeting {
  std::int64_t number = 0;  // from 0
  std::int32_t groups = 0;
  Nanoseconds at = 0;  // submitted
  std::int32_t rank = 0;
};

// "feed.decoded", "feed.submitted" (mini-batches ahead of training), "memory.resident",
// "memory.node1" (bytes; node 0 is main memory) ...
struct Counter {
  std::string name;
  Nanoseconds at = 0;
  double value = 0;
  std::int32_t rank = 0;
};

// The last line of a run that ended.
struct End {
  Nanoseconds at = 0;
  std::uint64_t tasks = 0;  // that the file holds
};

// ---- one record, one line of JSON, appended to a buffer: docs/internals/trace-format.md shows
// them
// ----

using Buffer = fmt::memory_buffer;

void append(Buffer& buffer, const Header& header);
void append(Buffer& buffer, const Worker& worker);
void append(Buffer& buffer, const Codelet& codelet);
void append(Buffer& buffer, const Layer& layer);
void append(Buffer& buffer, const Data& data);
void append(Buffer& buffer, const Peak& peak);
void append(Buffer& buffer, const Eligible& eligible);
void append(Buffer& buffer, const Task& task);
void append(Buffer& buffer, const IterationStart& iteration);
void append(Buffer& buffer, const Wait& wait);
void append(Buffer& buffer, const Transfer& transfer);
void append(Buffer& buffer, const Exchange& exchange);
void append(Buffer& buffer, const Meeting& meeting);
void append(Buffer& buffer, const Counter& counter);
void append(Buffer& buffer, const End& end);

}  // namespace omni::trace
