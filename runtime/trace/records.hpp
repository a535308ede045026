// This header has the records of traces. A trace is a folder with one file per process. Runs
// (runtime/tasks) and importers write traces; perf reads them.
//
// A file has one JSON object per line. While its run goes on it is called rank-<n>.jsonl.part; a
// run that ends renames it to rank-<n>.jsonl. So a reader can tell a killed run from a damaged
// file: only a .part file may stop anywhere. Any other file ends with an `end` record.
//
// Times are nanoseconds since the start of StarPU in that process. Except in the header, `rank` is
// not in the file: the reader takes it from the file's name.
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

// The Header is the first line of a file.
struct Header {
  int rank = 0;
  double started = 0;  // time 0 in seconds since 1970, to align the ranks
  std::string host{}, command{}, starpu{}, scheduler{}, net{};
  int batch = 0;  // images per iteration
};

// Other records refer to the following ones by number. Each comes before its first use.

struct Worker {
  std::int32_t id = 0;
  std::string name, kind;  // "CPU 0", "CPU"
  std::int32_t node = 0;   // StarPU's number of the worker's memory
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

// An Eligible names the workers that may run a task, if not all workers may.
struct Eligible {
  std::int32_t id = 0;
  std::vector<std::int32_t> workers;
};

// A Peak is the highest rate of a kind of worker, measured before the run. The rate is in flop/s of
// a large matrix product if `what` is "gemm", in bytes/s of a large copy if it is "copy".
struct Peak {
  std::string what, kind;  // `kind`: as in Worker
  double per_worker = 0;   // by one worker alone
  double together = 0;     // the sum of all workers of the kind, at the same time
};

// The following records say what happened.

enum class AccessMode : std::uint8_t { read, write, update, add };  // add: updates that commute

struct Access {
  std::uint32_t data = 0;
  AccessMode mode = AccessMode::read;
  auto operator<=>(const Access&) const = default;
};

// TaskTimes are in the order in which they occur. A step that did not happen has the time of the
// one before.
struct TaskTimes {
  Nanoseconds submitted = 0;
  Nanoseconds ready = 0;                       // all tasks on which the task depends are done
  Nanoseconds pop_start = 0, popped = 0;       // the worker asks for a task, and gets this one
  Nanoseconds fetch_start = 0, fetch_end = 0;  // its data are brought to the worker's memory
  Nanoseconds start = 0, end = 0;              // the kernel
  Nanoseconds released = 0;                    // other tasks may use its data
};

struct Task {
  std::uint64_t id = 0;  // rises in the order of submission
  std::uint32_t codelet = 0, implementation = 0;
  std::int32_t worker = 0;
  std::int32_t eligible = -1;                      // id of an Eligible; -1: all workers may run it
  std::int32_t layer = -1, slice = -1, group = 0;  // layer, slice -1: none
  std::int64_t iteration = -1;
  TaskTimes times;
  double predicted = std::numeric_limits<double>::quiet_NaN();  // ns; NaN: no prediction
  double flops = 0, bytes = 0;
  std::span<const Access>
      accesses{};  // with the order of ids they tell which tasks depend on which
};

// An IterationStart says when the submitting thread begins an iteration.
struct IterationStart {
  std::int64_t iteration = 0;
  Nanoseconds at = 0;
  std::int32_t rank = 0;
};

// A Wait says that the submitting thread waited for all tasks (a barrier), or for one tensor's
// values.
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
  // This rank sent the message, which was awaited from `from` on; -1: a transfer within the
  // process.
  std::int32_t from_rank = -1;
};

// An Exchange says that a group gave its gradient to the master copy, and took the parameters from
// it.
struct Exchange {
  std::int64_t iteration = 0;
  std::int32_t group = 0;
  std::int64_t staleness = 0;  // other groups' updates since the group last took the parameters
  Nanoseconds at = 0;
  std::int32_t rank = 0;
};

// A Meeting says that groups with models of their own combined these models.
struct Meeting {
  std::int64_t number = 0;  // from 0
  std::int32_t groups = 0;
  Nanoseconds at = 0;  // when the meeting's tasks were submitted
  std::int32_t rank = 0;
};

// A Counter is a value at a time. "feed.decoded" and "feed.submitted" are in mini-batches ahead of
// training, "memory.resident" and "memory.node1" (node 0 is main memory) in bytes.
struct Counter {
  std::string name;
  Nanoseconds at = 0;
  double value = 0;
  std::int32_t rank = 0;
};

// The End is the last line of a run that ended.
struct End {
  Nanoseconds at = 0;
  std::uint64_t tasks = 0;  // how many Task records the file has
};

// The following functions write records: each becomes one line of JSON, as
// docs/internals/trace-format.md shows.

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
