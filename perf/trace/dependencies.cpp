#include "perf/trace/dependencies.hpp"

#include <algorithm>

namespace omni::perf {
namespace {

using trace::AccessMode;

// Who touched one piece of data last.
struct History {
  std::vector<std::uint32_t> before;   // those that the present writers waited for
  std::vector<std::uint32_t> writers;  // one, or several that commute
  std::vector<std::uint32_t> readers;  // since then
  bool commuting = false;

  // Whoever comes next and may not share with the present ones waits for these.
  const std::vector<std::uint32_t>& last() const { return readers.empty() ? writers : readers; }
};

void touch(History& data, AccessMode mode, std::uint32_t task, std::vector<std::uint32_t>& waits) {
  const auto wait_for = [&waits](const std::vector<std::uint32_t>& tasks) {
    waits.insert(waits.end(), tasks.begin(), tasks.end());
  };
  if (mode == AccessMode::read) {
    wait_for(data.writers);
    data.readers.push_back(task);
    return;
  }
  if (mode == AccessMode::add && data.commuting && data.readers.empty()) {
    wait_for(data.before);
    data.writers.push_back(task);
    return;
  }
  wait_for(data.last());
  data.before = data.last();
  data.writers.assign(1, task);
  data.readers.clear();
  data.commuting = mode == AccessMode::add;
}

}  // namespace

Dependencies::Dependencies(const Trace& trace) {
  std::vector<History> histories(trace.data.size());
  std::vector<std::uint32_t> waits;
  first_.reserve(trace.tasks.size() + 1);
  first_.push_back(0);
  for (std::uint32_t task = 0; task < trace.tasks.size(); ++task) {
    waits.clear();
    for (const trace::Access& access : trace.accesses_of(trace.tasks[task]))
      touch(histories[access.data], access.mode, task, waits);
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    std::erase(waits, task);  // that accesses the same data twice
    before_.insert(before_.end(), waits.begin(), waits.end());
    first_.push_back(before_.size());
  }
}

}  // namespace omni::perf
