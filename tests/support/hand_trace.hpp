// A HandTrace is a trace made by hand. It is written in the recorder's format and read back.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "perf/trace/trace.hpp"
#include "runtime/trace/records.hpp"

namespace omni::test {

struct HandTask {
  std::string codelet = "work";
  std::int32_t worker = 0;
  trace::TaskTimes times = {};
  std::vector<std::string> reads = {}, writes = {}, updates = {}, adds = {};  // data by name
  std::int64_t iteration = -1;
  std::int32_t layer = -1;
  double flops = 0, bytes = 0;
  double predicted = std::numeric_limits<double>::quiet_NaN();
  std::string implementation = "plain";
  std::int32_t slice = -1, eligible = -1;
};

// Returns the times of a task that started as soon as a worker took it, because its data were in
// place.
inline trace::TaskTimes times(trace::Nanoseconds submitted, trace::Nanoseconds ready,
                              trace::Nanoseconds start, trace::Nanoseconds end) {
  return {submitted, ready, start, start, start, start, start, end, end};
}

class HandTrace {
 public:
  explicit HandTrace(int workers = 1, int rank = 0, double started = 0) {
    trace::append(buffer_, trace::Header{.rank = rank,
                                         .started = started,
                                         .host = "here",
                                         .command = "by hand",
                                         .starpu = "1.4",
                                         .scheduler = "dmdas",
                                         .net = "toy",
                                         .batch = 32});
    for (int i = 0; i < workers; ++i) worker("CPU", 0);
  }

  void worker(const std::string& kind, std::int32_t node) {
    add(trace::Worker{
        .id = workers_, .name = kind + " " + std::to_string(workers_), .kind = kind, .node = node});
    ++workers_;
  }

  template <class R>
  void add(const R& record) {
    trace::append(buffer_, record);
  }

  void task(const HandTask& task) {
    trace::Task record;
    record.id = tasks_++;
    record.codelet = codelet(task.codelet, task.implementation);
    record.worker = task.worker;
    record.layer = task.layer;
    record.slice = task.slice;
    record.eligible = task.eligible;
    record.iteration = task.iteration;
    record.times = task.times;
    record.predicted = task.predicted;
    record.flops = task.flops;
    record.bytes = task.bytes;
    std::vector<trace::Access> accesses;
    using trace::AccessMode;
    for (const auto& [names, mode] :
         {std::pair(&task.reads, AccessMode::read), std::pair(&task.writes, AccessMode::write),
          std::pair(&task.updates, AccessMode::update), std::pair(&task.adds, AccessMode::add)})
      for (const std::string& name : *names) accesses.push_back({data(name), mode});
    record.accesses = accesses;
    add(record);
  }

  // Returns the trace of a run that ended.
  std::string text() const {
    trace::Buffer copy;
    copy.append(buffer_);
    trace::append(copy, trace::End{.at = 0, .tasks = tasks_});
    return fmt::to_string(copy);
  }
  // Returns the trace of a run that did not end.
  std::string text_so_far() const { return fmt::to_string(buffer_); }

  perf::Trace read() const {
    auto trace = perf::read_trace_text(text(), "hand.jsonl");
    if (!trace) throw std::runtime_error(trace.error().message());
    return std::move(*trace);
  }

 private:
  // Codelets' ids differ from names' ids, so that a wrong lookup is noticed.
  std::uint32_t codelet(const std::string& name, const std::string& implementation) {
    const auto id = static_cast<std::uint32_t>(7 + codelets_.size());
    const auto [known, is_new] = codelets_.emplace(std::pair(name, implementation), id);
    if (is_new)
      add(trace::Codelet{
          .id = id, .name = name, .color = 0x123456, .implementations = {implementation}});
    return known->second;
  }

  std::uint32_t data(const std::string& name) {
    const auto id = static_cast<std::uint32_t>(100 + data_.size());
    const auto [known, is_new] = data_.emplace(name, id);
    if (is_new) add(trace::Data{.id = id, .name = name, .bytes = 64});
    return known->second;
  }

  trace::Buffer buffer_;
  std::int32_t workers_ = 0;
  std::uint64_t tasks_ = 0;
  std::map<std::pair<std::string, std::string>, std::uint32_t> codelets_;
  std::map<std::string, std::uint32_t> data_;
};

}  // namespace omni::test
