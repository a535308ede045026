// These tests read traces that starpu_fxt_tool wrote.
#include "perf/trace/trace.hpp"

#include <gtest/gtest.h>

#include "perf/trace/dependencies.hpp"
#include "perf/trace/fxt_import.hpp"
#include "tests/support/omni_perf.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {
namespace {

// starpu_fxt_tool 1.4.10 writes times in ms, and tasks in the order of their ends.
constexpr const char* kTasks =
    "Name: second\nModel: m\nFile: a.cpp\nLine: 192\nJobId: 3\nSubmitOrder: 2\nPriority: 0\n"
    "DependsOn: 2\nDepLabels: task\nTag: 0\nWorkerId: 1\nMemoryNode: 1\nSubmitTime: 1.500000\n"
    "StartTime: 4.000000\nEndTime: 6.000000\nFootprint: 27\nGFlop: 0.000035\nIteration: 7 1\n"
    "Parameters: V5000x4\nHandles: 55aa 55bb\nModes: R RWC\nSizes: 20000 8\nNumaNodes: -1 -1\n"
    "MPIRank: -1\n\n"
    "Name: first\nJobId: 2\nPriority: 0\nTag: 0\nWorkerId: 0\nMemoryNode: 0\n"
    "SubmitTime: 1.000000\nStartTime: 2.000000\nEndTime: 3.000000\nFootprint: 0\n"
    "Handles: 55aa 55cc\nModes: W S\nSizes: 20000 4\nNumaNodes: -1 -1\nMPIRank: -1\n\n"
    "Name: third\nJobId: 4\nPriority: 0\nDependsOn: 3\nTag: 0\nWorkerId: 0\nMemoryNode: 0\n"
    "SubmitTime: 1.700000\nStartTime: 6.500000\nEndTime: 7.000000\nFootprint: 0\nMPIRank: -1\n\n"
    "JobId: 9\nPriority: 0\nDependsOn: 2\nTag: 0\nFootprint: 0\nMPIRank: -1\n\n"
    "Control: WontUse\nJobId: 4\nSubmitOrder: 3\nSubmitTime: 2.0\nHandles: 55aa\nMPIRank: -1\n\n";

TEST(FxtImport, BecomesATrace) {
  const TemporaryDirectory folder;
  put(folder / "tasks.rec", kTasks);
  const auto imported = perf::import_fxt(folder.path(), folder / "trace");
  ASSERT_TRUE(imported) << imported.error().message();
  EXPECT_EQ(imported->tasks, 3u);
  EXPECT_EQ(imported->left_out, 1u);
  const auto trace = perf::read_trace(folder / "trace");
  ASSERT_TRUE(trace) << trace.error().message();
  ASSERT_EQ(trace->tasks.size(), 3u);
  const perf::Task& second = trace->tasks[1];
  EXPECT_EQ(trace->codelet_name(second), "second");
  EXPECT_EQ(trace->workers[second.worker].kind, "node 1");
  EXPECT_EQ(second.iteration, 7);
  EXPECT_EQ(second.flops, 35000);
  EXPECT_EQ(second.times.submitted, 1'500'000);
  EXPECT_EQ(second.times.ready, 3'000'000);
  EXPECT_EQ(second.times.start, 4'000'000);
  EXPECT_EQ(second.times.released, 6'000'000);
  const auto accesses = trace->accesses_of(second);
  ASSERT_EQ(accesses.size(), 3u);
  EXPECT_EQ(accesses[1].mode, trace::AccessMode::write) << "its end, which the third reads";
  EXPECT_EQ(accesses[2].mode, trace::AccessMode::add);
  EXPECT_EQ(trace->data[accesses[0].data].bytes, 20000u);
  // The second task depends on the first by data. The third depends on the second by an explicit
  // dependency.
  const perf::Dependencies dependencies(*trace);
  EXPECT_EQ(dependencies.of(1)[0], 0u);
  ASSERT_EQ(dependencies.of(2).size(), 1u);
  EXPECT_EQ(dependencies.of(2)[0], 1u);
}

TEST(FxtImport, ProcessesAreKeptApart) {
  std::string tasks;
  for (const char* rank : {"0", "1"})
    tasks += std::string("Name: t\nJobId: ") + rank + "_2\nWorkerId: 0\nMemoryNode: 0\n" +
             "SubmitTime: 1.0\nStartTime: 2.0\nEndTime: 3.0\nMPIRank: " + rank + "\n\n";
  const TemporaryDirectory folder;
  put(folder / "tasks.rec", tasks);
  ASSERT_EQ(perf::import_fxt(folder / "tasks.rec", folder / "trace")->ranks, 2u);
  EXPECT_EQ(perf::read_trace(folder / "trace")->workers.size(), 2u);
}

TEST(FxtImport, RefusesWhatItCannotRead) {
  const TemporaryDirectory folder;
  const std::string path = folder / "tasks.rec";
  const auto refused = [&](const std::string& contents, const std::string& message) {
    put(path, contents);
    const Finished run = omni_perf({"import", path, folder / "trace"});
    EXPECT_EQ(run.exit_code, 3) << contents;
    EXPECT_EQ(run.errors,
              "error: " + path + message + " (is it a tasks.rec of starpu_fxt_tool?)\n");
    EXPECT_FALSE(std::filesystem::exists(folder / "trace"));
  };
  const std::string head = "Name: t\nJobId: 2\nWorkerId: 0\n";
  refused("", ":0: holds no task that ran");
  refused("<html>\n", ":1: is no 'Key: value'");
  refused(head, ":3: the last task is cut off");
  refused(head + "StartTime: 1.", ":4: the line is cut off");
  refused(head + "StartTime: nan\n", ":4: StartTime is no time");
  refused(head + "StartTime: -1\n", ":4: StartTime is no time");
  refused(head + "WorkerId: 99999999999\n", ":4: WorkerId is no small number");
  refused(head + "SubmitTime: 3\nStartTime: 2\nEndTime: 4\n\n",
          ":7: the task before this line goes back in time");
  refused(head + "StartTime: 2\nEndTime: 4\nHandles: a b\nModes: R\n\n",
          ":8: the task before this line has another number of modes than of handles");
  put(path, kTasks);
  EXPECT_EQ(omni_perf({"import", path, folder.path()}).exit_code, 2) << "not an empty folder";
  EXPECT_EQ(omni_perf({"import", folder / "missing", folder / "trace"}).exit_code, 2);
}

}  // namespace
}  // namespace omni::test
