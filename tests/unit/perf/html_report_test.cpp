// These tests check the HTML report and the numbers in it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "perf/report/html_report.hpp"
#include "perf/report/packed_column.hpp"
#include "perf/trace/trace.hpp"
#include "tests/support/synthetic_trace.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::perf {
namespace {

using test::TemporaryDirectory;

std::string page_of(const test::SyntheticTrace& options) {
  const TemporaryDirectory folder;
  test::write_synthetic_trace(folder / "trace", options);
  auto trace = read_trace(folder / "trace");
  if (!trace) throw std::runtime_error(trace.error().message());
  return html_report(*trace, Dependencies(*trace), {});
}

// Returns the JSON data that are embedded in the page.
std::string data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t from = page.find(open) + open.size();
  return page.substr(from, page.find("</script", from) - from);
}

TEST(HtmlReport, ColumnsHoldEveryInteger) {
  PackedColumn column;
  for (const std::int64_t value : {0, 1, -1, 63, 64, -64, 300}) column.add(value);
  // The values are stored in zigzag order, as 0 2 1 126 128 127 600.
  EXPECT_EQ(column.text(), "AAIBfoABf9gE");
  PackedColumn deltas;
  for (const std::int64_t value : {5, 3, 3}) deltas.add_delta(value);
  EXPECT_EQ(deltas.text(), "CgMA");
  PackedColumn odd;
  odd.add(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(odd.text(), "/v//////////AQ==");
  EXPECT_EQ(PackedColumn().text(), "");
}

TEST(HtmlReport, NamesCannotLeaveTheData) {
  const std::string name = "</script><script>alert(1)</script><!--\"\\\xff";
  const std::string page = page_of({.tasks = 100, .bad_name = name});
  const auto data = nlohmann::json::parse(data_of(page));
  EXPECT_EQ(data["codelets"][1]["name"], "</script><script>alert(1)</script><!--\"\\\xef\xbf\xbd");
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
}

TEST(HtmlReport, RefersToNothingOutside) {
  const std::string page = page_of({.tasks = 100});
  for (const char* outside : {"src=", "href=\"http", "url(", "@import", "fetch(", "import("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  EXPECT_THAT(page, testing::HasSubstr("default-src 'none'"));
  EXPECT_EQ(page.find("{{"), std::string::npos);
}

TEST(HtmlReport, ATraceWithoutAnythingIsAPage) {
  Trace trace;
  const auto data = nlohmann::json::parse(data_of(html_report(trace, Dependencies(trace), {})));
  EXPECT_EQ(data["tasks"]["count"], 0);
}

TEST(HtmlReport, ReadsWhatOmniRunLogs) {
  const TemporaryDirectory folder;
  test::put(folder / "metrics.jsonl",
            "{\"iteration\":10,\"time\":1.5,\"loss\":2.5,\"loss_average\":null}\n"
            "{\"iteration\":10,\"time\":1.5,\"test_accuracy\":0.5}\n"
            "not JSON\n[1]\n{\"iteration\":\"x\"}\n"
            "{\"iteration\":20,\"time\":0.5,\"loss\":2}\n"
            "{\"iteration\":30,\"los");
  const auto lines = read_metrics(folder / "metrics.jsonl");
  ASSERT_TRUE(lines);
  ASSERT_EQ(lines->size(), 3);
  EXPECT_EQ((*lines)[0].loss, 2.5);
  EXPECT_TRUE(std::isnan((*lines)[0].loss_average));
  EXPECT_EQ((*lines)[1].test_accuracy, 0.5);
  EXPECT_EQ((*lines)[2].seconds, 2);  // a second start of the run goes on where the first ended
}

// The curves can be drawn over simulated time. It is the last number of a line, or null without a
// virtual clock.
TEST(HtmlReport, HasTheTimeOfAVirtualClock) {
  const TemporaryDirectory folder;
  test::put(folder / "metrics.jsonl",
            "{\"iteration\":10,\"time\":1.5,\"simulated_time\":0.25,\"loss\":2.5}\n"
            "{\"iteration\":20,\"time\":2.5,\"loss\":2}\n");
  const auto metrics = read_metrics(folder / "metrics.jsonl");
  ASSERT_TRUE(metrics);
  const Trace trace;
  const auto data =
      nlohmann::json::parse(data_of(html_report(trace, Dependencies(trace), *metrics)));
  const auto& lines = data["metrics"]["lines"];
  EXPECT_EQ(lines.at(0).at(8), 0.25);
  EXPECT_TRUE(lines.at(1).at(8).is_null());
}

TEST(HtmlReport, MetricsThatAreNoneAreRefused) {
  const TemporaryDirectory folder;
  test::put(folder / "metrics.jsonl", "\n\n");
  const auto empty = read_metrics(folder / "metrics.jsonl");
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().kind, ErrorKind::data);
  EXPECT_THAT(empty.error().message(), testing::HasSubstr("holds no metrics"));
  EXPECT_FALSE(read_metrics(folder / "absent.jsonl"));
}

}  // namespace
}  // namespace omni::perf
