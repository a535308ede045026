// These tests check what a trace says about transfers, in cases where it is known which data had to
// move.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/support/omni_perf.hpp"
#include "tests/support/second_node.hpp"

namespace omni {
namespace {

using nlohmann::json;
using test::Finished;
using test::SecondNode;
using test::start_session;
using test::Where;

struct NoArgs {};
Cost no_cost(const NoArgs&) { return {}; }
std::uint64_t footprint(const NoArgs&) { return footprint_of(0); }
void nothing(const NoArgs&, const Buffers&, DeviceContext&) {}

Codelet<NoArgs> here({.name = "here",
                      .implementations = {{"only", nothing}},
                      .cost = no_cost,
                      .footprint = footprint});
Codelet<NoArgs> there({.name = "there",
                       .implementations = {{"only", nothing}},
                       .cost = no_cost,
                       .footprint = footprint});

class Transfers : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(session_) << session_.error().message();
    for (Tensor* tensor : {&small_, &large_}) ASSERT_TRUE(tensor->allocate());
  }
  // Runs one task and waits for it, so that the place of all data is known.
  void run(Codelet<NoArgs>& codelet, Access access) {
    codelet.submit({}, {access});
    ASSERT_TRUE(wait_for_tasks());
  }
  std::unique_ptr<Recorder> record() {
    auto recorder = Recorder::start(folder_ / "trace", {.net = "a net", .batch = 8});
    EXPECT_TRUE(recorder) << recorder.error().message();
    return std::move(*recorder);
  }
  json links() const {
    const Finished finished =
        test::omni_perf({"transfers", (folder_ / "trace").string(), "--json"});
    EXPECT_EQ(finished.exit_code, 0) << finished.errors;
    return json::parse(finished.output)["links"];
  }
  // Returns the number of transfers between two memory nodes, and their bytes.
  static std::pair<int, double> moved(const json& links, int from, int to) {
    for (const json& link : links)
      if (link["from_node"] == from && link["to_node"] == to) return {link["count"], link["bytes"]};
    return {0, 0};
  }

  static constexpr std::size_t kSmall = 1000, kLarge = 50000;
  test::TemporaryDirectory folder_;
  SecondNode second_{[](const std::string& codelet) {
    return codelet == "there" ? Where::second_node : Where::main_memory;
  }};
  Result<Session> session_ = start_session();
  Tensor small_{"small", kSmall}, large_{"large", kLarge};
};

TEST_F(Transfers, are_those_that_the_accesses_need) {
  run(there, read_write(small_));  // before the recording: not counted
  auto recorder = record();
  run(here, read_write(small_));                                // <-
  run(there, write(small_));                                    // nothing to bring
  run(here, read(small_));                                      // <-
  run(here, read(small_));                                      // is there
  run(there, read(small_));                                     // still valid
  run(there, read_write(small_));                               // still valid
  run(here, read_write(small_));                                // <-
  run(there, read(large_));                                     // ->
  run(here, read_write(large_));                                // makes the other copy old
  run(there, read_write(large_));                               // ->
  { const HostAccess access(large_, HostAccess::Mode::read); }  // <-
  recorder.reset();

  const json found = links();
  EXPECT_EQ(moved(found, 1, 0), std::pair(4, 4.0 * (3 * kSmall + kLarge)));
  EXPECT_EQ(moved(found, 0, 1), std::pair(2, 4.0 * 2 * kLarge));
  EXPECT_EQ(found.size(), 2u);
  for (const json& link : found) {
    EXPECT_GT(link["busy"].get<double>(), 0);
    EXPECT_GT(link["bandwidth"].get<double>(), 0);
  }
}

TEST_F(Transfers, of_a_trace_begin_when_it_begins) {
  const trace::Nanoseconds before = recording::now();
  auto recorder = record();
  run(there, read(small_));
  recorder.reset();
  std::istringstream lines(test::get(folder_ / "trace" / "rank-0.jsonl"));
  int found = 0;
  for (std::string line; std::getline(lines, line);)
    if (const json record = json::parse(line); record.contains("transfer")) {
      ++found;
      EXPECT_GE(record["from"].get<trace::Nanoseconds>(), before);
    }
  EXPECT_EQ(found, 1);
}

TEST_F(Transfers, none_where_nothing_crosses) {
  auto recorder = record();
  for (int i = 0; i < 10; ++i) run(here, read_write(small_));
  recorder.reset();
  EXPECT_EQ(links(), json::array());
}

// Many transfers in both directions overlap, during several samples of the recorder.
TEST_F(Transfers, of_a_busy_run_are_all_counted) {
  auto recorder = record();
  constexpr int kRounds = 500;
  for (int i = 0; i < kRounds; ++i) {
    there.submit({}, {read_write(small_), read(large_)});
    here.submit({}, {read_write(small_)});
    recording::begin_iteration(i);
  }
  ASSERT_TRUE(wait_for_tasks());
  recorder.reset();
  const json found = links();
  EXPECT_EQ(moved(found, 1, 0), std::pair(kRounds, 4.0 * kRounds * kSmall));
  EXPECT_EQ(moved(found, 0, 1), std::pair(kRounds + 1, 4.0 * (kRounds * kSmall + kLarge)));
}

}  // namespace
}  // namespace omni
