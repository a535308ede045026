// These tests let writing a trace fail. The trace is then lost, but the run goes on.
#include <gtest/gtest.h>

#include <cerrno>

#include "runtime/log.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/session.hpp"
#include "tests/fault/interpose.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {
namespace {

// This thread writes all lines, because no task runs. The fault injector allows only one thread.
TEST(TraceFault, a_full_disk_is_one_warning_and_leaves_what_was_written) {
  const TemporaryDirectory folder;
  SessionOptions options;
  options.cpu_workers = 1;
  options.models = folder / "models";
  const auto session = Session::start(options);
  ASSERT_TRUE(session);
  constexpr int kFirstWrite = 3;  // after making the folder and the file, which may fail the start
  for (int at = kFirstWrite;; ++at) {
    SCOPED_TRACE(at);
    const auto place = folder / ("trace" + std::to_string(at));
    const log::Capture said;
    const FileSession disk(place, {.at = at, .code = ENOSPC, .from_then_on = true});
    auto recorder = Recorder::start(place, {});
    ASSERT_TRUE(recorder);
    recording::write(trace::Layer{0, "convolutional", ""});
    recording::write(trace::Layer{1, "softmax", ""});
    recorder->reset();
    if (std::filesystem::exists(place / "rank-0.jsonl")) {
      EXPECT_GT(at, kFirstWrite + 4);  // there was something to fail
      break;
    }
    EXPECT_NE(said.text().find("rank-0.jsonl: cannot"), std::string::npos) << said.text();
    EXPECT_EQ(said.text().find('\n'), said.text().size() - 1) << said.text();
    EXPECT_TRUE(std::filesystem::exists(place / "rank-0.jsonl.part"));
  }
}

}  // namespace
}  // namespace omni::test
