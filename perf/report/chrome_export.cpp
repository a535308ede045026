#include "perf/report/chrome_export.hpp"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/files.hpp"
#include "runtime/json_text.hpp"

namespace omni::perf {
namespace {

constexpr std::size_t kChunk = 1 << 20;

std::string in_json(const std::string& name) { return json_text(nlohmann::ordered_json(name)); }

// The format has microseconds; the text keeps all digits of the nanoseconds.
std::string micros(Nanoseconds time) {
  const std::uint64_t size = std::abs(time);
  return fmt::format(FMT_COMPILE("{}{}.{:03}"), time < 0 ? "-" : "", size / 1000, size % 1000);
}

// Perfetto knows a thread by its number alone, and the first thread of a process by the number of
// the process. It uses 0 itself. So all numbers differ, and begin with 1, and the submitting thread
// is the first of its rank.
struct Place {
  int process, thread;
};

class Exporter {
 public:
  Exporter(const Trace& trace, const Dependencies& dependencies, AtomicFile file)
      : trace_(trace), dependencies_(dependencies), file_(std::move(file)) {
    int number = 0;
    for (const trace::Header& header : trace.headers) submitters_[header.rank] = ++number;
    for (const Worker& worker : trace.workers)
      workers_.push_back({submitters_[worker.rank], ++number});
    for (const auto& codelet : trace.codelets) {
      names_.push_back(in_json(codelet.name));
      implementations_.emplace_back();
      for (const std::string& name : codelet.implementations)
        implementations_.back().push_back(in_json(name));
    }
    for (std::size_t i = 0; i < trace.layers.size(); ++i)
      layers_.push_back(
          in_json(fmt::format("{} {} {}", i, trace.layers[i].type, trace.layers[i].detail)));
  }

  Status run() {
    put(
        FMT_COMPILE("{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"writer\":\"omni-perf\"}},"
                    "\"traceEvents\":["));
    describe_places();
    iterations();
    for (std::size_t i = 0; i < trace_.tasks.size(); ++i) {
      task(i);
      arrows(i);
      OMNI_CHECK(flush(kChunk));
    }
    waits();
    transfers();
    exchanges();
    counters();
    put(FMT_COMPILE("\n]}}\n"));
    OMNI_CHECK(flush(0));
    return file_.commit();
  }

 private:
  template <class Format, class... Values>
  void put(Format format, const Values&... values) {
    fmt::format_to(std::back_inserter(buffer_), format, values...);
  }

  // Begins an event, with a comma before all but the first. The caller closes the brace.
  void open(std::string_view phase, Place place, std::string_view category,
            const std::string& name) {
    put(FMT_COMPILE("{}\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"cat\":\"{}\",\"name\":{}"),
        std::exchange(first_, false) ? "" : ",", phase, place.process, place.thread, category,
        name);
  }

  void open(std::string_view phase, Place place, std::string_view category, const std::string& name,
            Nanoseconds time) {
    open(phase, place, category, name);
    put(FMT_COMPILE(",\"ts\":{}"), micros(time - trace_.begin));
  }

  Status flush(std::size_t limit) {
    if (buffer_.size() <= limit) return {};
    OMNI_CHECK(file_.write({buffer_.data(), buffer_.size()}));
    buffer_.clear();
    return {};
  }

  void describe(std::string_view what, Place place, std::string_view key,
                const std::string& value) {
    open("M", place, "__metadata", fmt::format("\"{}\"", what));
    put(FMT_COMPILE(",\"args\":{{\"{}\":{}}}}}"), key, value);
  }

  void describe_thread(Place place, const std::string& name) {
    describe("thread_name", place, "name", in_json(name));
    describe("thread_sort_index", place, "sort_index", std::to_string(place.thread));
  }

  void describe_places() {
    for (const trace::Header& header : trace_.headers) {
      const Place place = submitter(header.rank);
      describe("process_name", place, "name",
               in_json(fmt::format("rank {}: {} on {}", header.rank, header.net, header.host)));
      describe("process_labels", place, "labels", in_json(header.command));
      describe("process_sort_index", place, "sort_index", std::to_string(header.rank));
      describe_thread(place, "main thread");
    }
    for (std::uint32_t i = 0; i < trace_.workers.size(); ++i)
      describe_thread(workers_[i], trace_.workers[i].name);
  }

  // Writes an interval that may overlap others, which slices of a thread must not. `details` are
  // its args.
  void span(int process, std::string_view category, const std::string& name, Nanoseconds from,
            Nanoseconds to, const std::string& details) {
    const Place place{process, process};
    open("b", place, category, name, from);
    put(FMT_COMPILE(",\"id2\":{{\"local\":\"{}\"}},\"args\":{{{}}}}}"), span_, details);
    open("e", place, category, name, to);
    put(FMT_COMPILE(",\"id2\":{{\"local\":\"{}\"}}}}"), span_++);
  }

  // An iteration has a mark where its submission begins, and a bar from there to the end of its
  // last task. Bars overlap if iterations do.
  void iterations() {
    std::map<std::pair<std::int32_t, std::int64_t>, Nanoseconds> ends;
    for (const Task& task : trace_.tasks) {
      Nanoseconds& end = ends[{trace_.workers[task.worker].rank, task.iteration}];
      end = std::max(end, task.times.end);
    }
    for (const trace::IterationStart& start : trace_.iterations) {
      const Place place = submitter(start.rank);
      open("i", place, "iteration", fmt::format("\"iteration {}\"", start.iteration), start.at);
      put(FMT_COMPILE(",\"s\":\"p\"}}"));
      const auto end = ends.find({start.rank, start.iteration});
      if (end == ends.end() || end->second <= start.at) continue;
      span(place.process, "iteration", "\"iteration\"", start.at, end->second,
           fmt::format("\"iteration\":{}", start.iteration));
    }
  }

  void task(std::size_t index) {
    const Task& task = trace_.tasks[index];
    const trace::TaskTimes& times = task.times;
    open("X", workers_[task.worker], "task", names_[task.codelet], times.start);
    put(FMT_COMPILE(",\"dur\":{},\"args\":{{\"task\":{},\"implementation\":{},\"group\":{}"),
        micros(task.length()), task.id, implementations_[task.codelet][task.implementation],
        task.group);
    if (task.iteration >= 0) put(FMT_COMPILE(",\"iteration\":{}"), task.iteration);
    if (task.layer >= 0 && static_cast<std::size_t>(task.layer) < layers_.size())
      put(FMT_COMPILE(",\"layer\":{}"), layers_[task.layer]);
    if (task.slice >= 0) put(FMT_COMPILE(",\"slice\":{}"), task.slice);
    put(FMT_COMPILE(",\"us waiting for dependencies\":{},\"us waiting for the worker\":{},"
                    "\"us fetching data\":{}"),
        micros(times.ready - times.submitted),
        micros(std::max<Nanoseconds>(0, times.fetch_start - times.ready)),
        micros(times.fetch_end - times.fetch_start));
    if (std::isfinite(task.predicted))
      put(FMT_COMPILE(",\"us predicted\":{}"), micros(std::llround(task.predicted)));
    if (task.flops > 0 && task.length() > 0)
      put(FMT_COMPILE(",\"Gflop/s\":{:.4g}"), task.flops / static_cast<double>(task.length()));
    put(FMT_COMPILE("}}}}"));
  }

  // The format attaches the ends of an arrow to the slices at these times. So an arrow leaves in
  // the last nanosecond of the earlier task, and arrives at the start of the later one.
  void arrows(std::size_t index) {
    const Task& later = trace_.tasks[index];
    for (const std::uint32_t before : dependencies_.of(index)) {
      const Task& earlier = trace_.tasks[before];
      open("s", workers_[earlier.worker], "dep", "\"dep\"",
           std::max(earlier.times.start, earlier.times.end - 1));
      put(FMT_COMPILE(",\"id\":{}}}"), arrow_);
      open("f", workers_[later.worker], "dep", "\"dep\"", later.times.start);
      put(FMT_COMPILE(",\"id\":{},\"bp\":\"e\"}}"), arrow_++);
    }
  }

  void waits() {
    for (const trace::Wait& wait : trace_.waits) {
      open("X", submitter(wait.rank), "wait",
           wait.for_all ? "\"wait for all tasks\"" : "\"wait for values\"", wait.from);
      put(FMT_COMPILE(",\"dur\":{}}}"), micros(wait.to - wait.from));
    }
  }

  void transfers() {
    for (const trace::Transfer& transfer : trace_.transfers)
      span(submitter(transfer.rank).process, "transfer",
           transfer.from_rank < 0
               ? fmt::format("\"transfers {} to {}\"", transfer.from_node, transfer.to_node)
               : fmt::format("\"messages of rank {}\"", transfer.from_rank),
           transfer.from, transfer.to,
           fmt::format("\"bytes\":{},\"count\":{}", transfer.bytes, transfer.count));
  }

  void exchanges() {
    for (const trace::Exchange& exchange : trace_.exchanges) {
      open("i", submitter(exchange.rank), "exchange",
           fmt::format("\"exchange of group {}\"", exchange.group), exchange.at);
      put(FMT_COMPILE(",\"s\":\"p\",\"args\":{{\"iteration\":{},\"staleness\":{}}}}}"),
          exchange.iteration, exchange.staleness);
    }
    for (const trace::Meeting& meeting : trace_.meetings) {
      open("i", submitter(meeting.rank), "meeting",
           fmt::format("\"meeting of {} group{}\"", meeting.groups, meeting.groups == 1 ? "" : "s"),
           meeting.at);
      put(FMT_COMPILE(",\"s\":\"p\",\"args\":{{\"number\":{}}}}}"), meeting.number);
    }
  }

  void counters() {
    std::vector<const trace::Counter*> sorted;
    for (const trace::Counter& counter : trace_.counters)
      if (std::isfinite(counter.value)) sorted.push_back(&counter);
    std::ranges::stable_sort(sorted, {}, &trace::Counter::at);
    for (const trace::Counter* counter : sorted) {
      open("C", submitter(counter->rank), "counter", in_json(counter->name), counter->at);
      put(FMT_COMPILE(",\"args\":{{\"value\":{}}}}}"), counter->value);
    }
  }

  Place submitter(std::int32_t rank) const {
    const int number = submitters_.at(rank);
    return {number, number};
  }

  const Trace& trace_;
  const Dependencies& dependencies_;
  AtomicFile file_;
  fmt::memory_buffer buffer_;
  bool first_ = true;
  std::uint64_t arrow_ = 0, span_ = 0;
  std::map<std::int32_t, int> submitters_;                 // by rank
  std::vector<Place> workers_;                             // by worker
  std::vector<std::string> names_, layers_;                // as JSON
  std::vector<std::vector<std::string>> implementations_;  // as JSON
};

}  // namespace

Status export_chrome(const Trace& trace, const Dependencies& dependencies,
                     const std::filesystem::path& path) {
  OMNI_TRY(AtomicFile file, AtomicFile::create(path));
  return Exporter(trace, dependencies, std::move(file)).run();
}

}  // namespace omni::perf
