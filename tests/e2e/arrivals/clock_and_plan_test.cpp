// The virtual clock, which a training follows, and `plan --nodes`, which trains nothing, say the
// same of a machine: strategy by strategy, whatever limits it.
#include <gtest/gtest.h>

#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;
constexpr int kNodes = 4, kEvery = 16;  // mini-batches of each group from meeting to meeting

const char* const kNet = R"([net]
batch=16
height=12
width=12
channels=1
learning_rate=1e-6
[convolutional]
filters=8
size=3
activation=relu
[connected]
output=40
activation=relu
[connected]
output=10
activation=linear
[softmax]
)";

class ClockAndPlan : public testing::TestWithParam<const char*> {
 protected:
  ClockAndPlan() { put(net_, kNet); }

  nlohmann::json plan(const std::string& link) const {
    const Finished run = omni_run({"plan", "--net", net_, "--most-groups", "1", "--nodes", "1,4",
                                   "--link", link, "--fc", "replicated", "--iterations", "4",
                                   "--warm-up", "2", "--workers", "1", "--json", "-q"});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return nlohmann::json::parse(run.output, nullptr, false);
  }

  // Seconds of an update behind the first meeting.
  double trained(const Words& how) const {
    const std::string metrics = folder_ / "metrics.jsonl";
    std::filesystem::remove(metrics);
    Words words{"--net",
                net_,
                "--data",
                "synthetic:640",
                "--arrivals",
                "virtual",
                "--machine",
                machine_,
                "--max-batches",
                std::to_string(3 * kEvery * kNodes),
                "--no-test",
                "--display",
                "1",
                "-q",
                "--workers",
                "1",
                "--metrics",
                metrics};
    words.insert(words.end(), how.begin(), how.end());
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    std::vector<double> times;
    for (const auto& line : read_metrics(metrics))
      times.push_back(line["simulated_time"].get<double>());
    const std::size_t first = kEvery * kNodes - 1;
    return (times.back() - times[first]) / static_cast<double>(times.size() - 1 - first);
  }

  TemporaryDirectory folder_;
  const std::string net_ = folder_ / "net.cfg", machine_ = folder_ / "machine.json";
};
INSTANTIATE_TEST_SUITE_P(Links, ClockAndPlan,
                         testing::Values("1mbit:10us", "20mbit:1ms", "100gbit:1us"));

TEST_P(ClockAndPlan, Agree) {
  const nlohmann::json planned = plan(GetParam());
  const double alone = planned["nodes"][0]["predicted_seconds"];
  put(machine_,
      nlohmann::json{
          {"name", "nodes"},
          {"devices", {{{"kind", "node"}, {"count", kNodes}, {"seconds", {{"16", alone}}}}}},
          {"link",
           {{"seconds", planned["link"]["latency_seconds"]},
            {"bytes_per_second", planned["link"]["bytes_per_second"]}}}}
          .dump());
  struct Way {
    std::string strategy;
    int groups;
    Words words;
  };
  for (const Way& way : std::vector<Way>{{"sync", 1, {}},
                                         {"async", 2, {"--guard", "off", "--fc", "replicated"}},
                                         {"async", 4, {"--guard", "off", "--fc", "replicated"}},
                                         {"hogbatch", 4, {"--group-batches", "16"}},
                                         {"sma", 4, {}},
                                         {"local", 4, {}},
                                         {"elastic", 4, {}}}) {
    Words words{"--strategy", way.strategy};
    if (way.groups > 1) words.insert(words.end(), {"--groups", std::to_string(way.groups)});
    words.insert(words.end(), way.words.begin(), way.words.end());
    const double seconds = trained(words);
    double foretold = 0;
    for (const auto& row : planned["nodes"])
      if (row["nodes"] == kNodes && row["groups"] == way.groups &&
          row["strategies"].get<std::string>().find(way.strategy) != std::string::npos)
        foretold = row["predicted_seconds"];
    EXPECT_NEAR(seconds, foretold, 0.05 * foretold) << way.strategy << ", groups: " << way.groups;
  }
}

}  // namespace
}  // namespace omni::test
