// These tests read traces from files and from texts.
#include "perf/trace/trace.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/hand_trace.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {
namespace {

TEST(Reader, KeepsWhatWasWritten) {
  HandTrace hand(1);
  hand.worker("GPU", 1);
  hand.add(trace::Layer{.id = 0, .type = "convolutional", .detail = "64 3x3/1"});
  hand.add(trace::Peak{.what = "gemm", .kind = "CPU", .per_worker = 1e11, .together = 1.5e11});
  hand.add(trace::IterationStart{.iteration = 4, .at = 1});
  hand.task({.codelet = "conv",
             .worker = 1,
             .times = {1, 2, 3, 4, 5, 6, 7, 8, 9},
             .reads = {"x", "w"},
             .writes = {"y"},
             .updates = {"u"},
             .adds = {"g"},
             .iteration = 4,
             .layer = 0,
             .flops = 5e7,
             .bytes = 4096,
             .predicted = 81000});
  hand.add(trace::Eligible{.id = 3, .workers = {0}});
  hand.task({.times = times(2, 2, 10, 12), .eligible = 3});
  hand.add(trace::Wait{.for_all = false, .from = 10, .to = 20});
  hand.add(
      trace::Transfer{.from_node = 0, .to_node = 1, .bytes = 99, .count = 3, .from = 5, .to = 6});
  hand.add(trace::Exchange{.iteration = 4, .group = 2, .staleness = 1, .at = 15});
  hand.add(trace::Meeting{.number = 7, .groups = 2, .at = 16});
  hand.add(trace::Counter{.name = "loss", .at = 30, .value = 0.25});
  hand.add(trace::Counter{.name = "loss", .at = 31, .value = NAN});  // null
  const perf::Trace trace = hand.read();

  ASSERT_EQ(trace.headers.size(), 1u);
  EXPECT_EQ(trace.headers[0].net, "toy");
  EXPECT_EQ(trace.headers[0].batch, 32);
  EXPECT_TRUE(trace.complete);
  ASSERT_EQ(trace.workers.size(), 2u);
  EXPECT_EQ(trace.workers[1].name, "GPU 1");
  EXPECT_EQ(trace.workers[1].node, 1);
  ASSERT_EQ(trace.tasks.size(), 2u);
  const perf::Task& task = trace.tasks[0];
  EXPECT_EQ(trace.codelet_name(task), "conv");
  EXPECT_EQ(trace.implementation_name(task), "plain");
  EXPECT_EQ(task.worker, 1u);
  EXPECT_EQ(task.layer, 0);
  EXPECT_EQ(task.slice, -1);
  EXPECT_EQ(task.iteration, 4);
  EXPECT_EQ(task.times.submitted, 1);
  EXPECT_EQ(task.times.released, 9);
  EXPECT_EQ(task.predicted, 81000);
  EXPECT_EQ(task.flops, 5e7);
  EXPECT_EQ(task.bytes, 4096);
  std::vector<std::pair<std::string, trace::AccessMode>> accesses;
  for (const trace::Access& access : trace.accesses_of(task))
    accesses.emplace_back(trace.data[access.data].name, access.mode);
  using trace::AccessMode;
  EXPECT_EQ(accesses, (std::vector<std::pair<std::string, AccessMode>>{{"x", AccessMode::read},
                                                                       {"w", AccessMode::read},
                                                                       {"y", AccessMode::write},
                                                                       {"u", AccessMode::update},
                                                                       {"g", AccessMode::add}}));
  EXPECT_TRUE(std::isnan(trace.tasks[1].predicted));
  EXPECT_EQ(trace.layers[0].detail, "64 3x3/1");
  EXPECT_EQ(trace.peaks[0].together, 1.5e11);
  EXPECT_EQ(trace.iterations[0].iteration, 4);
  EXPECT_FALSE(trace.waits[0].for_all);
  EXPECT_EQ(trace.transfers[0].count, 3u);
  EXPECT_EQ(trace.exchanges[0].staleness, 1);
  EXPECT_EQ(trace.meetings[0].number, 7);
  EXPECT_EQ(trace.meetings[0].groups, 2);
  EXPECT_EQ(task.eligible, -1);
  EXPECT_EQ(trace.tasks[1].eligible, 0);
  EXPECT_EQ(trace.eligible, (std::vector<std::vector<bool>>{{true, false}}));
  ASSERT_EQ(trace.counters.size(), 1u);
  EXPECT_EQ(trace.counters[0].value, 0.25);
  EXPECT_EQ(trace.begin, 1);
  EXPECT_EQ(trace.end, 20);
}

TEST(Reader, SkipsWhatALaterVersionAdds) {
  std::string text = HandTrace(1).text();
  const std::size_t second = text.find('\n') + 1;
  text.insert(second, "{\"novelty\":{\"deep\":[1,{}]},\"data\":7}\n");
  text.insert(1, "\"omnivore_trace\":1,\"more\":[[]],");
  text.replace(text.find("\"omnivore_trace\":1,\"rank"), 19, "");
  const auto trace = perf::read_trace_text(text, "t");
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->workers.size(), 1u);
  EXPECT_EQ(trace->data.size(), 0u);
}

TEST(Reader, SortsTasksBySubmission) {
  const std::string head =
      "{\"omnivore_trace\":1,\"rank\":0,\"started\":0}\n"
      "{\"worker\":3,\"name\":\"w\",\"kind\":\"CPU\",\"node\":0}\n"
      "{\"codelet\":5,\"name\":\"c\",\"implementations\":[\"i\"]}\n"
      "{\"data\":1,\"name\":\"a\"}\n{\"data\":2,\"name\":\"b\"}\n";
  const auto task = [](int id) {
    const std::string number = std::to_string(id);
    return "{\"task\":" + number +
           ",\"codelet\":5,\"impl\":0,\"worker\":3,\"times\":[0,0,0,0,0,0,0,0," + number +
           "],\"reads\":[" + number + "]}\n";
  };
  const auto trace =
      perf::read_trace_text(head + task(2) + task(1) + "{\"end\":9,\"tasks\":2}\n", "t");
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_EQ(trace->tasks[0].id, 1u);
  EXPECT_EQ(trace->data[trace->accesses_of(trace->tasks[0])[0].data].name, "a");
  EXPECT_EQ(trace->data[trace->accesses_of(trace->tasks[1])[0].data].name, "b");
}

TEST(Reader, AKilledRunLosesItsLastLine) {
  HandTrace hand(1);
  hand.task({.times = times(0, 0, 0, 10)});
  hand.task({.times = times(0, 0, 10, 20)});
  const std::string text = hand.text_so_far();
  const auto whole = perf::read_trace_text(text, "t", true);
  ASSERT_TRUE(whole);
  EXPECT_FALSE(whole->complete);
  EXPECT_EQ(whole->tasks.size(), 2u);
  const auto cut = perf::read_trace_text(text.substr(0, text.size() - 5), "t", true);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->tasks.size(), 1u);
  // The run ended, but was killed before it could rename its trace file.
  const auto ended = perf::read_trace_text(hand.text(), "t", true);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->complete);
}

TEST(Reader, AnyCutOfAFileIsRefusedOrKilled) {
  HandTrace hand(1);
  hand.task({.times = times(0, 0, 0, 10), .reads = {"a"}});
  const std::string text = hand.text();
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto cut = perf::read_trace_text(text.substr(0, length), "t");
    EXPECT_FALSE(cut) << length;
    if (cut) continue;
    EXPECT_EQ(cut.error().kind, ErrorKind::data);
    EXPECT_FALSE(cut.error().what.empty());
  }
}

TEST(Reader, ProcessesShareCodeletsAndAClock) {
  HandTrace one(1, 0, 100.0), two(1, 1, 99.5);
  one.task({.codelet = "a", .times = times(0, 0, 0, 10), .reads = {"x"}, .implementation = "p"});
  two.task({.codelet = "b", .times = times(0, 0, 0, 10)});
  two.task({.codelet = "a", .times = times(0, 10, 10, 20), .reads = {"x"}, .implementation = "q"});
  const TemporaryDirectory folder;
  put(folder / "rank-0.jsonl", one.text());
  put(folder / "rank-1.jsonl.part", two.text_so_far());
  put(folder / "notes.txt", "not of the trace");
  const auto read = perf::read_trace(folder.path());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_FALSE(read->complete);
  ASSERT_EQ(read->tasks.size(), 3u);
  EXPECT_EQ(read->workers[0].name, "rank 0: CPU 0");
  EXPECT_EQ(read->workers[1].rank, 1);
  EXPECT_EQ(read->tasks[0].times.start, 500'000'000);
  EXPECT_EQ(read->tasks[1].times.start, 0);
  ASSERT_EQ(read->codelets.size(), 2u);
  EXPECT_EQ(read->codelet_name(read->tasks[2]), "a");
  EXPECT_EQ(read->implementation_name(read->tasks[0]), "p");
  EXPECT_EQ(read->implementation_name(read->tasks[2]), "q");
  EXPECT_EQ(read->data.size(), 2u) << "data of two processes are different things";
  EXPECT_EQ(read->begin, 0);
  EXPECT_EQ(read->end, 500'000'010);
}

}  // namespace
}  // namespace omni::test
