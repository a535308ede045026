// These tests check what a Recorder writes about tasks that StarPU has run.
#include "runtime/tasks/recorder.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <tuple>

#include "runtime/log.hpp"
#include "runtime/tasks/access.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/submission.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/worker_set.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/with_session.hpp"

namespace omni {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

struct SleepArgs {
  int milliseconds;
};

Codelet<SleepArgs> sleep_codelet(
    {.name = "test_sleep",
     .color = 0x123456,
     .implementations = {{"never", [](const SleepArgs&, const Buffers&, DeviceContext&) {},
                          [](const SleepArgs&) { return false; }},
                         {"sleep",
                          [](const SleepArgs& args, const Buffers&, DeviceContext&) {
                            std::this_thread::sleep_for(milliseconds(args.milliseconds));
                          }}},
     .cost = [](const SleepArgs&) { return Cost{.flops = 1000, .bytes = 64}; },
     .footprint = [](const SleepArgs& args) { return footprint_of(args.milliseconds); }});

class RecorderTest : public test::WithSession {
 protected:
  RecorderTest() : WithSession(test::with_workers(2)) {}
  void SetUp() override {
    WithSession::SetUp();
    ASSERT_TRUE(a_.allocate());
    ASSERT_TRUE(b_.allocate());
  }
  std::unique_ptr<Recorder> record() {
    auto recorder = Recorder::start(folder_ / "trace", {.net = "a net", .batch = 8});
    EXPECT_TRUE(recorder) << recorder.error().message();
    return std::move(*recorder);
  }
  // Returns the lines that begin with this key.
  std::vector<json> lines(const std::string& key, const std::string& folder = "trace") const {
    std::istringstream text(test::get(folder_ / folder / "rank-0.jsonl"));
    std::vector<json> found;
    for (std::string line; std::getline(text, line);)
      if (line.starts_with("{\"" + key + "\":")) found.push_back(json::parse(line));
    return found;
  }

  Tensor a_{"a", 10}, b_{"b", 20};
};

TEST_F(RecorderTest, writes_every_task_with_all_that_is_known_of_it) {
  auto recorder = record();
  recording::begin_iteration(7);
  {
    const SubmissionScope scope({.iteration = 7, .group = 2, .workers = nullptr});
    sleep_codelet.submit({20}, {write(a_)}, {.layer = 3, .slice = 1});
    sleep_codelet.submit({1}, {read(a_), accumulate(b_)}, {.layer = 4});
  }
  sleep_codelet.submit({1}, {read_write(b_)});
  ASSERT_TRUE(wait_for_tasks());
  recorder.reset();

  EXPECT_EQ(lines("omnivore_trace").at(0)["net"], "a net");
  EXPECT_EQ(lines("worker").size(), 2u);
  EXPECT_EQ(lines("end").at(0)["tasks"], 3);
  EXPECT_EQ(lines("iteration").size(), 1u);
  const json codelet = lines("codelet").at(0);
  EXPECT_EQ(codelet["name"], "test_sleep");
  EXPECT_EQ(codelet["color"], 0x123456);
  EXPECT_EQ(codelet["implementations"], json({"never", "sleep"}));
  const std::vector<json> data = lines("data");
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(data[0]["name"], "a");
  EXPECT_EQ(data[1]["bytes"], 80);

  std::vector<json> tasks = lines("task");
  ASSERT_EQ(tasks.size(), 3u);
  std::sort(tasks.begin(), tasks.end(),
            [](const json& x, const json& y) { return x["task"] < y["task"]; });
  EXPECT_EQ(tasks[0]["impl"], 1);
  EXPECT_EQ(tasks[0]["layer"], 3);
  EXPECT_EQ(tasks[0]["slice"], 1);
  EXPECT_EQ(tasks[0]["iteration"], 7);
  EXPECT_EQ(tasks[0]["group"], 2);
  EXPECT_EQ(tasks[0]["flops"], 1000);
  EXPECT_EQ(tasks[0]["bytes"], 64);
  EXPECT_EQ(tasks[0]["writes"], json({data[0]["data"]}));
  EXPECT_EQ(tasks[1]["reads"], json({data[0]["data"]}));
  EXPECT_EQ(tasks[1]["adds"], json({data[1]["data"]}));
  EXPECT_EQ(tasks[2]["updates"], json({data[1]["data"]}));
  EXPECT_FALSE(tasks[2].contains("iteration"));
  EXPECT_FALSE(tasks[2].contains("layer"));

  constexpr std::size_t kReady = 1, kStart = 6, kEnd = 7, kTimes = 9;
  std::int64_t end_of_run = lines("end").at(0)["end"];
  for (const json& task : tasks) {
    const auto times = task["times"].get<std::vector<std::int64_t>>();
    ASSERT_EQ(times.size(), kTimes);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end())) << task;
    EXPECT_GT(times.front(), 0);
    EXPECT_LE(times.back(), end_of_run);
  }
  EXPECT_GE(tasks[0]["times"][kEnd].get<std::int64_t>(),
            tasks[0]["times"][kStart].get<std::int64_t>() + 20'000'000);
  // The second task reads what the first one writes, so it becomes ready when the first one ends.
  EXPECT_GE(tasks[1]["times"][kReady], tasks[0]["times"][kEnd]);
}

TEST_F(RecorderTest, says_which_workers_may_run_a_task_where_not_all_may) {
  auto recorder = record();
  const WorkerSet second(std::vector<int>{1});
  {
    const SubmissionScope scope({.workers = &second});
    sleep_codelet.submit({1}, {write(a_)});
    sleep_codelet.submit({1}, {write(b_)});
  }
  sleep_codelet.submit({1}, {write(a_)});
  ASSERT_TRUE(wait_for_tasks());
  recorder.reset();
  const std::vector<json> sets = lines("eligible");
  ASSERT_EQ(sets.size(), 1u);
  EXPECT_EQ(sets[0]["workers"], json({1}));
  int bound = 0;
  for (const json& task : lines("task")) {
    if (!task.contains("eligible")) continue;
    ++bound;
    EXPECT_EQ(task["eligible"], sets[0]["eligible"]);
    EXPECT_EQ(task["worker"], 1);
  }
  EXPECT_EQ(bound, 2);
}

TEST_F(RecorderTest, notes_for_what_the_submitting_thread_waited) {
  auto recorder = record();
  // The task sleeps for 300 ms, much longer than this thread takes to reach the wait, even on a
  // busy machine.
  sleep_codelet.submit({300}, {write(a_)});
  { const HostAccess access(a_, HostAccess::Mode::read); }
  sleep_codelet.submit({300}, {write(a_)});
  ASSERT_TRUE(wait_for_tasks());
  recorder.reset();
  const std::vector<json> waits = lines("wait");
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0]["wait"], "data");
  EXPECT_EQ(waits[1]["wait"], "all");
  for (const json& wait : waits)
    EXPECT_GE(wait["to"].get<std::int64_t>() - wait["from"].get<std::int64_t>(), 150'000'000);
}

TEST_F(RecorderTest, a_second_trace_goes_beside_the_first) {
  record().reset();
  auto second = record();
  EXPECT_EQ(second->folder(), folder_ / "trace-2");
  // The trace of a run that was killed is called rank-0.jsonl.part, and its folder is not used
  // again either.
  second.reset();
  std::filesystem::rename(folder_ / "trace-2" / "rank-0.jsonl",
                          folder_ / "trace-2" / "rank-0.jsonl.part");
  EXPECT_EQ(record()->folder(), folder_ / "trace-3");
  EXPECT_EQ(lines("end").size(), 1u);
}

TEST_F(RecorderTest, lines_reach_the_file_while_the_run_goes_on) {
  auto recorder = record();
  sleep_codelet.submit({1}, {write(a_)});
  ASSERT_TRUE(wait_for_tasks());
  std::this_thread::sleep_for(milliseconds(550));
  recording::begin_iteration(1);  // the submitting thread writes out what others left
  const std::string written = test::get(folder_ / "trace" / "rank-0.jsonl.part");
  EXPECT_NE(written.find("{\"task\":0,"), std::string::npos);
  EXPECT_EQ(written.back(), '\n');
}

TEST_F(RecorderTest, without_one_nothing_is_recorded) {
  EXPECT_FALSE(recording::on());
  record().reset();
  EXPECT_FALSE(recording::on());
  recording::begin_iteration(3);
  recording::write(trace::Counter{"a", 1, 1});
  sleep_codelet.submit({1}, {write(a_)});
  ASSERT_TRUE(wait_for_tasks());
  EXPECT_TRUE(lines("task").empty());
  EXPECT_TRUE(lines("iteration").empty());
}

// Two trainings of a process have a trace each, whatever worker runs their tasks.
TEST_F(RecorderTest, of_scopes_record_their_threads_alone) {
  constexpr auto kOf = Recorder::Of::scopes;
  auto one = Recorder::start(folder_ / "one", {.net = "one"}, kOf);
  auto other = Recorder::start(folder_ / "other", {.net = "other"}, kOf);
  ASSERT_TRUE(one && other);
  EXPECT_FALSE(recording::on());
  sleep_codelet.submit({1}, {write(a_)});
  const auto train = [&](const Recorder& recorder, Tensor& tensor, int layer, int tasks) {
    const Recorder::Scope scope(&recorder);
    {
      const Recorder::Scope none(nullptr);
      EXPECT_TRUE(recording::on());
    }
    recording::begin_iteration(layer);
    for (int i = 0; i < tasks; ++i)
      sleep_codelet.submit({1}, {read_write(tensor)}, {.layer = layer});
    ASSERT_TRUE(wait_for_tasks());
  };
  {
    const std::jthread first(train, std::cref(**one), std::ref(a_), 4, 20);
    const std::jthread second(train, std::cref(**other), std::ref(b_), 5, 30);
  }
  EXPECT_FALSE(recording::on());
  one->reset();
  // The end of the first leaves StarPU's profiling to the second.
  std::jthread(train, std::cref(**other), std::ref(b_), 5, 1).join();
  other->reset();
  for (const auto& [folder, layer, tasks] :
       {std::tuple("one", 4, 20u), std::tuple("other", 5, 31u)}) {
    EXPECT_EQ(lines("omnivore_trace", folder).at(0)["net"], folder);
    EXPECT_EQ(lines("worker", folder).size(), 2u);
    EXPECT_EQ(lines("task", folder).size(), tasks);
    EXPECT_EQ(lines("end", folder).at(0)["tasks"], tasks);
    EXPECT_EQ(lines("data", folder).size(), 1u);
    for (const json& each : lines("task", folder)) EXPECT_EQ(each["layer"], layer);
    for (const json& each : lines("iteration", folder)) EXPECT_EQ(each["iteration"], layer);
  }
}

TEST_F(RecorderTest, a_folder_that_cannot_be_made_is_refused) {
  test::put(folder_ / "file", "x");
  for (const auto& place : {folder_ / "file" / "trace", folder_ / std::string(5000, 'x')}) {
    const auto recorder = Recorder::start(place, {});
    ASSERT_FALSE(recorder);
    EXPECT_EQ(recorder.error().kind, ErrorKind::usage);
    EXPECT_NE(recorder.error().hint, "");
    EXPECT_FALSE(recording::on());
  }
}

}  // namespace
}  // namespace omni
