// These tests check which files omni-perf report and export write, and which files they never
// overwrite.
#include <gtest/gtest.h>

#include "tests/support/hand_trace.hpp"
#include "tests/support/omni_perf.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;

class Output : public testing::Test {
 protected:
  void SetUp() override {
    HandTrace hand(1);
    for (int i = 0; i < 3; ++i) hand.task({.times = times(0, 0, 10 * i, 10 * i + 9)});
    text_ = hand.text();
    fs::create_directory(trace_);
    put(trace_ / "rank-0.jsonl", text_);
    put(trace_ / "metrics.jsonl", metrics_);
  }

  void refused(const fs::path& output, const fs::path& trace,
               const std::vector<std::string>& more = {}) {
    for (const auto& [command, option] :
         {std::pair("report", "--html"), std::pair("export", "--chrome")}) {
      if (!more.empty() && command == std::string("export")) continue;
      std::vector<std::string> words{command, trace, option, output};
      words.insert(words.end(), more.begin(), more.end());
      const Finished run = omni_perf(words);
      EXPECT_EQ(run.exit_code, 2) << command << " " << output;
      EXPECT_EQ(run.errors.find(std::string("error: ") + option + ": " + output.string()), 0u)
          << run.errors;
      EXPECT_NE(run.errors.find("(choose a new name)"), std::string::npos) << run.errors;
    }
    EXPECT_EQ(get(trace_ / "rank-0.jsonl"), text_);
    EXPECT_EQ(get(trace_ / "metrics.jsonl"), metrics_);
  }

  TemporaryDirectory folder_;
  fs::path trace_ = folder_ / "run";
  std::string text_, errors_;
  std::string metrics_ = "{\"iteration\":5,\"time\":1,\"loss\":0.123454321}\n";
};

TEST_F(Output, NeverReplacesWhatIsRead) {
  refused(trace_ / "rank-0.jsonl", trace_);
  refused(trace_ / "rank-0.jsonl", trace_ / "rank-0.jsonl");
  refused(trace_ / "." / ".." / "run" / "rank-0.jsonl", trace_);
  refused(trace_ / "metrics.jsonl", trace_);
  refused(trace_ / "metrics.jsonl", trace_ / "rank-0.jsonl");
  fs::create_symlink(trace_ / "rank-0.jsonl", folder_ / "link.html");
  refused(folder_ / "link.html", trace_);
  put(folder_ / "other", metrics_);
  refused(folder_ / "other", trace_, {"--metrics", folder_ / "other"});
  EXPECT_EQ(get(folder_ / "other"), metrics_);
  fs::rename(trace_ / "rank-0.jsonl", folder_ / "any name");
  fs::create_symlink(folder_ / "any name", trace_ / "rank-0.jsonl");
  refused(folder_ / "any name", trace_);
  refused(folder_ / "any name", folder_ / "any name");
}

TEST_F(Output, NeverReplacesAnotherRecording) {
  for (const char* name : {"rank-1.jsonl", "rank-12.jsonl.part"}) {
    put(folder_ / name, "precious");
    refused(folder_ / name, trace_);
    EXPECT_EQ(get(folder_ / name), "precious");
  }
}

TEST_F(Output, TheReportTakesTheMetricsBesideTheTrace) {
  const auto page = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--html", folder_ / "page.html"});
    const Finished run = omni_perf(std::move(words));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    errors_ = run.errors;
    return get(folder_ / "page.html");
  };
  const std::string loss = "0.123454321";
  EXPECT_NE(page({"report", trace_}).find(loss), std::string::npos);
  EXPECT_NE(page({"report", trace_ / "rank-0.jsonl"}).find(loss), std::string::npos);
  put(folder_ / "other", "{\"iteration\":5,\"time\":1,\"loss\":0.77778888}\n");
  const std::string asked = page({"report", trace_, "--metrics", folder_ / "other"});
  EXPECT_EQ(asked.find(loss), std::string::npos);
  EXPECT_NE(asked.find("0.77778888"), std::string::npos);
  EXPECT_EQ(errors_.find("warning"), std::string::npos) << errors_;
  // The report of a run whose metrics file is empty has no curves, but is still written.
  put(trace_ / "metrics.jsonl", "");
  EXPECT_EQ(page({"report", trace_}).find(loss), std::string::npos);
  EXPECT_NE(errors_.find("the page has no curves"), std::string::npos) << errors_;
  fs::remove(trace_ / "metrics.jsonl");
  EXPECT_EQ(page({"report", trace_}).find(loss), std::string::npos);
  EXPECT_EQ(errors_.find("warning"), std::string::npos) << errors_;
  EXPECT_NE(omni_perf({"report", "--help"}).output.find("metrics.jsonl"), std::string::npos);
}

TEST_F(Output, ReplacesItsOwnFilesAndOthersByForceOnly) {
  for (const auto& [command, option, beginning] :
       {std::tuple("report", "--html", "<!"), std::tuple("export", "--chrome", "{\"")}) {
    const fs::path file = trace_ / (std::string("rank-0.jsonl.") + command);
    const std::vector<std::string> words{command, trace_, option, file};
    put(file, "");  // nothing to lose
    for (int i = 0; i < 2; ++i) {
      const Finished written = omni_perf(words);
      EXPECT_EQ(written.exit_code, 0);
      EXPECT_EQ(written.errors.find("wrote " + file.string() + " ("), 0u) << written.errors;
      EXPECT_NE(written.errors.find(" KiB)\n"), std::string::npos) << written.errors;
    }
    EXPECT_EQ(get(file).find(beginning), 0u);

    put(file, "a thesis");
    const Finished refused = omni_perf(words);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_EQ(refused.errors, std::string("error: ") + option + ": " + file.string() +
                                  " exists, and omni-perf did not write it (choose a new name, or "
                                  "--force)\n");
    EXPECT_EQ(get(file), "a thesis");
    EXPECT_EQ(omni_perf({command, trace_, option, file, "--force"}).exit_code, 0);
    EXPECT_EQ(get(file).find(beginning), 0u);
  }
  // Even --force does not overwrite a trace.
  const Finished lost = omni_perf({"report", trace_, "--html", trace_ / "rank-0.jsonl", "--force"});
  EXPECT_EQ(lost.exit_code, 2);
  EXPECT_EQ(get(trace_ / "rank-0.jsonl"), text_);
}

}  // namespace
}  // namespace omni::test
