// Memory over the run, the largest tensors, and whether the data feed kept up.
#pragma once

#include <string>
#include <vector>

#include "perf/trace/trace.hpp"

namespace omni::perf {

struct CounterRow {
  std::string name;
  std::int32_t rank = 0;
  std::size_t samples = 0;
  double first = 0, last = 0, min = 0, max = 0, mean = 0;
  double zero_share = 0;  // of the samples

  double growth() const { return last - first; }
};

struct Memory {
  std::vector<CounterRow> memory;  // "memory.*", bytes
  std::vector<CounterRow> feed;    // "feed.*", mini-batches ahead of training
  std::vector<CounterRow> other;
  double data_bytes = 0;             // of all data
  std::vector<trace::Data> largest;  // ten, largest first
};

Memory analyse_memory(const Trace& trace);

}  // namespace omni::perf
