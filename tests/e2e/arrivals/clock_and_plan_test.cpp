// These tests compare a training on the virtual clock with `plan --nodes`, which trains nothing.
// Both must give the same time per update, for every strategy and every bottleneck.
#include <gtest/gtest.h>

#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;
constexpr int kNodes = 4, kEvery = 16;  // mini-batches of each group from meeting to meeting
// Each group trains kMiniBatches mini-batches. Groups that share a server may never reach a steady
// rate; then they train kUnsettled, as many as the forecast simulates.
constexpr int kMiniBatches = 10 * kEvery, kUnsettled = 650;

const std::string kNet = net(16, {12, 12, 1}, "learning_rate=1e-6\n") +
                         convolutional(8, "relu", "") + connected(40, "relu") + connected(10) +
                         layer("softmax");

class ClockAndPlan : public testing::TestWithParam<const char*> {
 protected:
  struct Way {
    std::string strategy;
    int groups;
    Words words;
  };

  ClockAndPlan() { put(net_, kNet); }

  nlohmann::json plan(const std::string& link, const std::string& fc,
                      const std::string& nodes) const {
    const Finished run = omni_run({"plan", "--net", net_, "--most-groups", "2", "--nodes", nodes,
                                   "--link", link, "--fc", fc, "--iterations", "4", "--warm-up",
                                   "2", "--workers", "1", "--json", "-q"});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return nlohmann::json::parse(run.output, nullptr, false);
  }

  static double predicted(const nlohmann::json& planned, int nodes, const Way& way) {
    for (const auto& row : planned["nodes"])
      if (row["nodes"] == nodes && row["groups"] == way.groups &&
          row["strategies"].get<std::string>().find(way.strategy) != std::string::npos)
        return row["predicted_seconds"];
    return 0;
  }

  // Writes a machine of nodes with the speed that the plan measured for this machine. With
  // `server`, one more node computes the merged layers.
  void put_machine(const nlohmann::json& planned, bool server) const {
    const nlohmann::json& node = planned["node"];
    nlohmann::json device{{"kind", "node"},
                          {"count", kNodes},
                          {"seconds", {{node["batch"].dump(), node["seconds"]}}},
                          {"merged_share", node["merged_share"]}};
    auto devices = nlohmann::json::array({device});
    if (server) {
      device["count"] = 1;
      device["serves"] = "merged";
      devices.push_back(device);
    }
    put(machine_, nlohmann::json{{"name", "nodes"},
                                 {"devices", devices},
                                 {"link",
                                  {{"seconds", planned["link"]["latency_seconds"]},
                                   {"bytes_per_second", planned["link"]["bytes_per_second"]}}}}
                      .dump());
  }

  // Returns the simulated seconds per update after the first meeting.
  double trained(const Way& way, int mini_batches) const {
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
                "--strategy",
                way.strategy,
                "--max-batches",
                std::to_string(way.groups * mini_batches),
                "--no-test",
                "--display",
                "1",
                "-q",
                "--workers",
                "1",
                "--metrics",
                metrics};
    if (way.groups > 1) words.insert(words.end(), {"--groups", std::to_string(way.groups)});
    words.insert(words.end(), way.words.begin(), way.words.end());
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    std::vector<double> times;
    for (const auto& line : read_metrics(metrics))
      times.push_back(line["simulated_time"].get<double>());
    const auto first = static_cast<std::size_t>(kEvery * way.groups - 1);
    return (times.back() - times[first]) / static_cast<double>(times.size() - 1 - first);
  }

  TemporaryDirectory folder_;
  const std::string net_ = folder_ / "net.cfg", machine_ = folder_ / "machine.json";
};
INSTANTIATE_TEST_SUITE_P(Links, ClockAndPlan,
                         testing::Values("1mbit:10us", "20mbit:1ms", "100gbit:1us"));

TEST_P(ClockAndPlan, Agree) {
  const nlohmann::json planned = plan(GetParam(), "replicated", "1,4");
  put_machine(planned, false);
  for (const Way& way : std::vector<Way>{{"sync", 1, {}},
                                         {"async", 2, {"--guard", "off", "--fc", "replicated"}},
                                         {"async", 4, {"--guard", "off", "--fc", "replicated"}},
                                         {"hogbatch", 4, {"--group-batches", "16"}},
                                         {"sma", 4, {}},
                                         {"local", 4, {}},
                                         {"elastic", 4, {}}}) {
    const double seconds = trained(way, kMiniBatches);
    const double foretold = predicted(planned, kNodes, way);
    EXPECT_NEAR(seconds, foretold, 0.05 * foretold) << way.strategy << ", groups: " << way.groups;
  }
}

// The groups' merged layers are computed by the first node, or by one more node, the server.
TEST_P(ClockAndPlan, AgreeAboutMergedLayers) {
  const nlohmann::json planned = plan(GetParam(), "merged", "4,4+1");
  for (const bool server : {false, true}) {
    put_machine(planned, server);
    for (const int groups : {2, 4}) {
      const Way way{"async", groups, {"--guard", "off"}};
      const double seconds = trained(way, kUnsettled);
      const double foretold = predicted(planned, server ? kNodes + 1 : kNodes, way);
      EXPECT_NEAR(seconds, foretold, 0.05 * foretold) << server << ", groups: " << groups;
    }
  }
}

}  // namespace
}  // namespace omni::test
