// Compute groups from the command line: what they say, what they write, what they learn.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using nlohmann::json;

std::vector<json> json_lines(const std::string& text) {
  std::vector<json> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) found.push_back(json::parse(line));
  return found;
}

TEST(Groups, metrics_and_trace_have_every_update) {
  const TemporaryDirectory folder;
  const Finished run = omni_run(
      {"--net", "lenet", "--data", "synthetic:640", "--no-test", "--max-batches", "40", "--groups",
       "4", "--display", "1", "--metrics", folder / "metrics.jsonl", "--trace", folder / "trace"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.errors.find("4 compute groups on workers "), std::string::npos) << run.errors;

  const std::vector<json> metrics = json_lines(get(folder / "metrics.jsonl"));
  ASSERT_EQ(metrics.size(), 40u);
  double staleness = 0;
  for (const json& update : metrics) {
    EXPECT_GE(update["group"], 0);
    EXPECT_LT(update["group"], 4);
    EXPECT_EQ(update["fc_staleness"], 0);
    EXPECT_NEAR(update["explicit_momentum"].get<double>(), 0.6, 1e-6);
    EXPECT_NEAR(update["implicit_momentum"].get<double>(), 0.75, 1e-6);
    EXPECT_NEAR(update["total_momentum"].get<double>(), 0.9, 1e-6);
    staleness += update["staleness"].get<double>();
  }
  EXPECT_NEAR(staleness / 40, 3, 0.5);

  std::size_t exchanges = 0;
  for (const json& record : json_lines(get(folder / "trace" / "rank-0.jsonl")))
    exchanges += record.contains("exchange");
  EXPECT_EQ(exchanges, 40u);
}

TEST(Groups, plan_predicts_every_number_of_groups) {
  const Finished run = omni_run({"plan", "--net", "lenet", "--most-groups", "4", "--iterations",
                                 "6", "--warm-up", "4", "--json", "-q"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const json plan = json::parse(run.output);
  ASSERT_EQ(plan["rows"].size(), 3u);
  for (const json& row : plan["rows"]) {
    EXPECT_GT(row["predicted_seconds"], 0);
    EXPECT_TRUE(row["measured_seconds"].is_null());
  }
  EXPECT_EQ(plan["rows"][2]["groups"], 4);
  EXPECT_NEAR(plan["rows"][2]["explicit_momentum"].get<double>(), 0.6, 1e-6);
  EXPECT_GE(plan["saturating_groups"], 1);
}

TEST(Groups, plan_of_a_net_that_learns_nothing_is_refused) {
  const TemporaryDirectory folder;
  put(folder / "none.cfg", "[net]\nbatch=4\nheight=8\nwidth=8\nchannels=1\n[avgpool]\n[softmax]\n");
  const Finished run = omni_run({"plan", "--net", folder / "none.cfg", "--iterations", "4"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.errors.find("has nothing to learn (add a layer with weights)"), std::string::npos)
      << run.errors;
}

}  // namespace
}  // namespace omni::test
