// These tests export traces in Chrome's Trace Event Format.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "perf/report/chrome_export.hpp"
#include "perf/trace/trace.hpp"
#include "tests/support/synthetic_trace.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::perf {
namespace {

using nlohmann::json;
using test::TemporaryDirectory;

std::vector<json> exported(const Trace& trace, std::string* text = nullptr) {
  const TemporaryDirectory folder;
  EXPECT_TRUE(export_chrome(trace, Dependencies(trace), folder / "trace.json"));
  const std::string written = test::get(folder / "trace.json");
  if (text != nullptr) *text = written;
  return json::parse(written).at("traceEvents").get<std::vector<json>>();
}

Trace synthetic(const test::SyntheticTrace& options) {
  const TemporaryDirectory folder;
  test::write_synthetic_trace(folder / "trace", options);
  auto trace = read_trace(folder / "trace");
  if (!trace) throw std::runtime_error(trace.error().message());
  return *std::move(trace);
}

// Returns a trace of two tasks on two workers, of which the second task follows the first.
Trace two_tasks(const std::string& codelet) {
  Trace trace;
  trace.headers = {{.rank = 0,
                    .started = 0,
                    .host = "h",
                    .command = "c",
                    .starpu = "",
                    .scheduler = "",
                    .net = "n",
                    .batch = 1}};
  trace.workers = {{.name = "CPU 0", .kind = "CPU"}, {.name = "CPU 1", .kind = "CPU"}};
  trace.codelets = {{.id = 0, .name = codelet, .color = 0, .implementations = {"only"}}};
  trace.data = {{.id = 0, .name = "d", .bytes = 8}};
  trace.accesses = {{0, trace::AccessMode::write}, {0, trace::AccessMode::read}};
  Task task{};
  task.times = {.submitted = 10,
                .ready = 10,
                .pop_start = 10,
                .popped = 11,
                .fetch_start = 11,
                .fetch_end = 11,
                .start = 1'000'012,
                .end = 1'234'567,
                .released = 1'234'567};
  task.access_count = 1;
  trace.tasks.push_back(task);
  task.id = 1;
  task.worker = 1;
  task.first_access = 1;
  task.times.start = 1'234'567;
  task.times.end = 1'234'567 + 9'007'199'254'740'993;  // one more than a double can tell
  trace.tasks.push_back(task);
  trace.begin = 10;
  trace.end = task.times.end;
  return trace;
}

std::vector<json> of_phase(const std::vector<json>& events, const char* phase) {
  std::vector<json> found;
  for (const json& event : events)
    if (event["ph"] == phase) found.push_back(event);
  return found;
}

TEST(ChromeExport, AProcessPerRankAndAThreadPerWorker) {
  const Trace trace = synthetic({.ranks = 2, .workers = 3, .tasks = 200});
  const auto events = exported(trace);
  std::map<std::pair<int, int>, std::string> threads;
  std::set<int> processes;
  for (const json& event : of_phase(events, "M")) {
    if (event["name"] == "process_name") processes.insert(event["pid"].get<int>());
    if (event["name"] == "thread_name")
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  EXPECT_THAT(processes, testing::ElementsAre(1, 2));
  EXPECT_EQ(threads.size(), 2 * (3 + 1));
  std::size_t tasks = 0;
  for (const json& event : of_phase(events, "X")) {
    EXPECT_TRUE(threads.contains({event["pid"], event["tid"]}));
    if (event["cat"] == "task") ++tasks;
  }
  EXPECT_EQ(tasks, trace.tasks.size());
}

TEST(ChromeExport, NamesAreEscaped) {
  const std::string name = "a\"b\\c</script>\n\x01\xff";
  const auto slices = of_phase(exported(two_tasks(name)), "X");
  ASSERT_EQ(slices.size(), 2);
  EXPECT_EQ(slices[0]["name"], "a\"b\\c</script>\n\x01\xef\xbf\xbd");
}

TEST(ChromeExport, MicrosecondsKeepEveryNanosecond) {
  std::string text;
  exported(two_tasks("k"), &text);
  EXPECT_THAT(text, testing::HasSubstr("\"ts\":1000.002,\"dur\":234.555"));
  EXPECT_THAT(text, testing::HasSubstr("\"ts\":1234.557,\"dur\":9007199254740.993"));
}

TEST(ChromeExport, ArrowsJoinTheTasksThatDependOnEachOther) {
  const Trace trace = synthetic({.workers = 4, .groups = 2, .tasks = 500});
  const auto events = exported(trace);
  // holds() returns whether a task of the same thread runs at the time of the event.
  std::map<std::tuple<int, int, double>, double> slices;
  for (const json& event : of_phase(events, "X"))
    if (event["cat"] == "task") slices[{event["pid"], event["tid"], event["ts"]}] = event["dur"];
  const auto holds = [&](const json& event) {
    auto slice = slices.upper_bound({event["pid"], event["tid"], event["ts"]});
    if (slice == slices.begin()) return false;
    --slice;
    return std::get<1>(slice->first) == event["tid"] &&
           event["ts"].get<double>() < std::get<2>(slice->first) + slice->second;
  };
  const auto starts = of_phase(events, "s"), ends = of_phase(events, "f");
  const Dependencies dependencies(trace);
  std::size_t count = 0;
  for (std::size_t i = 0; i < trace.tasks.size(); ++i) count += dependencies.of(i).size();
  ASSERT_GT(count, 500);
  ASSERT_EQ(starts.size(), count);
  ASSERT_EQ(ends.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(starts[i]["id"], ends[i]["id"]);
    EXPECT_EQ(ends[i]["bp"], "e");
    EXPECT_LE(starts[i]["ts"].get<double>(), ends[i]["ts"].get<double>());
    EXPECT_TRUE(holds(starts[i])) << starts[i];
    EXPECT_TRUE(holds(ends[i])) << ends[i];
  }
}

// If a trace breaks these rules, Perfetto drops tasks or shows them elsewhere.
// tests/e2e/perfetto_test.py tests with Perfetto itself.
TEST(ChromeExport, KeepsTheRulesOfTheFormat) {
  const auto events = exported(
      synthetic({.ranks = 2, .workers = 4, .groups = 2, .tasks = 2000, .transfers = true}));
  const auto nanos = [](const json& micros) { return std::llround(micros.get<double>() * 1000); };
  std::map<int, int> process_of;                                   // by thread
  std::map<int, std::map<long long, long long>> slices;            // by thread; end by beginning
  std::map<std::pair<int, std::string>, std::vector<json>> spans;  // by process and id
  std::map<std::uint64_t, std::string> arrows;                     // by id
  for (const json& event : events) {
    const std::string phase = event.at("ph");
    EXPECT_NE(std::string("MXibesfC").find(phase), std::string::npos) << event;
    const int process = event.at("pid"), thread = event.at("tid");
    EXPECT_GT(process, 0) << "Perfetto keeps 0 for itself";
    EXPECT_EQ(process_of.try_emplace(thread, process).first->second, process)
        << "Perfetto knows a thread by its number alone: " << event;
    if (phase != "M") {
      EXPECT_GE(nanos(event.at("ts")), 0) << event;
    }
    if (phase == "X") {
      const long long from = nanos(event.at("ts"));
      EXPECT_TRUE(slices[thread].emplace(from, from + nanos(event.at("dur"))).second) << event;
    }
    if (phase == "b" || phase == "e")
      spans[{process, event.at("id2").at("local")}].push_back(event);
    if (phase == "s" || phase == "f") arrows[event.at("id")] += phase;
  }
  for (const auto& [thread, of_thread] : slices) {
    long long free = 0;
    for (const auto& [from, to] : of_thread) {
      EXPECT_GE(from, free) << "slices of thread " << thread << " overlap";
      free = to;
    }
  }
  for (const auto& [id, both] : spans) {
    ASSERT_EQ(both.size(), 2u) << id.second;
    EXPECT_EQ(both[0].at("ph"), "b");
    EXPECT_EQ(both[1].at("ph"), "e");
    EXPECT_GE(both[1].at("ts").get<double>(), both[0].at("ts").get<double>());
    for (const char* key : {"name", "cat"}) EXPECT_EQ(both[0].at(key), both[1].at(key));
  }
  EXPECT_FALSE(arrows.empty());
  for (const auto& [id, phases] : arrows) EXPECT_EQ(phases, "sf") << id;
}

TEST(ChromeExport, CountersGoForwardInTime) {
  const auto counters = of_phase(exported(synthetic({.ranks = 2, .tasks = 2000})), "C");
  ASSERT_GT(counters.size(), 8);
  double last = 0;
  for (const json& event : counters) {
    EXPECT_GE(event["ts"].get<double>(), last);
    last = event["ts"];
    EXPECT_TRUE(event["args"]["value"].is_number());
  }
}

TEST(ChromeExport, IterationsWaitsTransfersAndExchangesAreThere) {
  const auto events =
      exported(synthetic({.workers = 4, .groups = 2, .tasks = 2000, .transfers = true}));
  std::map<std::string, int> categories;
  for (const json& event : events)
    ++categories[event["cat"].get<std::string>() + event["ph"].get<std::string>()];
  for (const char* expected :
       {"iterationi", "iterationb", "iteratione", "waitX", "transferb", "transfere", "exchangei"})
    EXPECT_GT(categories[expected], 0) << expected;
  EXPECT_EQ(categories["iterationb"], categories["iteratione"]);
}

TEST(ChromeExport, ATraceWithoutTasksIsAValidFile) {
  Trace trace;
  EXPECT_THAT(exported(trace), testing::IsEmpty());
}

TEST(ChromeExport, AFileThatCannotBeWrittenIsAnError) {
  const Trace trace = two_tasks("k");
  const auto status = export_chrome(trace, Dependencies(trace), "/nowhere/trace.json");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace omni::perf
