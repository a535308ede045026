// These tests check omni-run ensemble --plan: its rates are those of the virtual clock, and nothing
// is trained.
#include <gtest/gtest.h>

#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;
using PlanWords = std::vector<std::string>;

class PlanOfEnsemble : public testing::Test {
 protected:
  void SetUp() override {
    put(folder_ / "small.cfg", net(16, {12, 12, 1}, "learning_rate=1e-6\nmax_batches=100\n") +
                                   convolutional(8, "relu") + connected(4) + layer("softmax"));
    put(folder_ / "large.cfg", net(32, {12, 12, 1}, "learning_rate=1e-6\nmax_batches=100\n") +
                                   convolutional(32, "relu") + connected(4) + layer("softmax"));
    put(folder_ / "machine.json", R"({"name": "four", "devices": [
        {"kind": "node", "count": 4, "overhead": 1e-4, "flops_per_second": 1e9},
        {"kind": "cpu", "flops_per_second": 1e9}],
        "link": {"seconds": 1e-5, "bytes_per_second": 1e9}})");
  }
  std::string file(const char* name) const { return folder_ / name; }
  PlanWords plan(const PlanWords& more) const {
    PlanWords words{"ensemble",  "--net",           file("small.cfg") + ":2",
                    "--net",     file("large.cfg"), "--out",
                    file("out"), "--plan"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  nlohmann::json json_plan(PlanWords more) const {
    more.push_back("--json");
    const Finished run = omni_run(plan(more));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return nlohmann::json::parse(run.output, nullptr, false);
  }

  TemporaryDirectory folder_;
};

TEST_F(PlanOfEnsemble, RatesAreThoseOfTheVirtualClock) {
  const auto planned = json_plan({"--machine", file("machine.json")});
  EXPECT_EQ(planned["machine"], "four");
  EXPECT_EQ(planned["kind"], "node");
  EXPECT_EQ(planned["devices"], 4);
  EXPECT_EQ(planned["devices_of_machine"], 5);
  ASSERT_EQ(planned["members"].size(), 3u);
  EXPECT_EQ(planned["members"][0]["name"], "small-1");
  EXPECT_EQ(planned["members"][0]["samples"], 1600);
  EXPECT_EQ(planned["members"][2]["samples"], 3200);
  put(folder_ / "three.json", R"({"name": "three", "devices": [
      {"kind": "node", "count": 3, "overhead": 1e-4, "flops_per_second": 1e9}],
      "link": {"seconds": 1e-5, "bytes_per_second": 1e9}})");
  const Finished trained =
      omni_run({"--net", file("large.cfg"), "--data", "synthetic:320:4", "--arrivals", "virtual",
                "--machine", file("three.json"), "--json", "--quiet", "--no-test", "--workers", "1",
                "--out", file("alone")});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  const double seconds = nlohmann::json::parse(trained.output)["simulated_seconds"];
  EXPECT_NEAR(3200 / planned["members"][2]["rates"][2].get<double>(), seconds, 0.02 * seconds);
}

TEST_F(PlanOfEnsemble, NothingIsTrainedAndAllMembersEnd) {
  const auto planned = json_plan({"--machine", "8-gpus"});
  double at = 0;
  std::map<std::string, std::uint64_t> samples;
  std::vector<std::string> ended;
  for (const auto& each : planned["flotillas"]) {
    EXPECT_EQ(each["from_seconds"], at);
    at += each["seconds"].get<double>();
    EXPECT_LE(each["devices"], 8);
    for (const auto& member : each["members"]) {
      samples[member["name"]] += each["samples"].get<std::uint64_t>();
      if (member["ends"]) ended.push_back(member["name"]);
    }
  }
  EXPECT_EQ(at, planned["makespan_seconds"]);
  EXPECT_EQ(ended.size(), 3u);
  EXPECT_EQ(samples, (std::map<std::string, std::uint64_t>{
                         {"small-1", 1600}, {"small-2", 1600}, {"large", 3200}}));
  EXPECT_GE(planned["one_by_one_seconds"], planned["makespan_seconds"]);
  EXPECT_FALSE(fs::exists(folder_ / "out"));

  const Finished text = omni_run(plan({"--machine", "8-gpus"}));
  ASSERT_EQ(text.exit_code, 0) << text.errors;
  for (const char* part :
       {"8 gpu devices of ", "forecast of the cost model: nothing was trained", "flotilla",
        " small-1: ", "makespan: ", "; all at once: ", "; one after another: "})
    EXPECT_NE(text.output.find(part), std::string::npos) << part << text.output;
}

TEST_F(PlanOfEnsemble, TheLengthIsThatOfTheTraining) {
  const auto planned = json_plan(
      {"--machine", "8-gpus", "--data", "synthetic:300:4", "--epochs", "2", "--hold-out", "0.1"});
  EXPECT_EQ(planned["members"][0]["samples"], 544);  // 34 mini-batches of 16
  EXPECT_EQ(planned["members"][2]["samples"], 544);
}

// Members that differ only in momentum have equal rates. The plan does not cover --stop and
// --groups, and says so.
TEST_F(PlanOfEnsemble, WhatIsNotPlannedIsSaid) {
  const Finished swept = omni_run(plan({"--machine", file("machine.json"), "--sweep",
                                        "momentum=0.5,0.9", "--stop", "asha", "--groups", "2"}));
  ASSERT_EQ(swept.exit_code, 0) << swept.errors;
  for (const char* part :
       {"4 node devices of \"four\": those that are like the first of its 5 devices",
        "planned without --stop",
        "planned as one synchronous group each: small-1,momentum=0.5, small-1,momentum=0.9"})
    EXPECT_NE(swept.output.find(part), std::string::npos) << part << swept.output;
}

TEST_F(PlanOfEnsemble, WhatCannotBePlannedIsRefused) {
  put(folder_ / "table.json",
      R"({"name": "t", "devices": [{"kind": "gpu", "seconds": {"16": 0.1}}]})");
  put(folder_ / "many.json", R"({"name": "m", "devices": [{"kind": "gpu", "count": 257,
      "flops_per_second": 1e12}]})");
  put(folder_ / "endless.cfg",
      net(16, {12, 12, 1}, "learning_rate=1e-6\n") + connected(4) + layer("softmax"));
  const struct {
    PlanWords words;
    std::string text;
  } kCases[] = {
      {{}, "--plan: the rates of this machine's workers are not known without measuring"},
      {{"--machine", "9-gpus"}, "--machine 9-gpus: no such machine"},
      {{"--machine", "8-gpus", "--resume", "auto"}, "a plan is of whole trainings"},
      {{"--machine", file("table.json")}, "are those of one net, the members have several"},
      {{"--machine", file("many.json")},
       "has 257 devices of its first kind, a plan is for at most 256"},
      {{"--machine", "8-gpus", "--net", file("endless.cfg")}, "the training has no end"},
      {{"--machine", "8-gpus", "--net", "no-such-net"}, "no-such-net"},
  };
  for (const auto& each : kCases) {
    const Finished run = omni_run(plan(each.words));
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_NE(run.errors.find(each.text), std::string::npos) << run.errors;
    EXPECT_EQ(run.output, "") << each.text;
  }
  PlanWords trains = plan({"--machine", "8-gpus"});
  std::erase(trains, "--plan");
  const Finished run = omni_run(trains);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.errors.find("--machine: has no effect on real arrivals"), std::string::npos);
}

}  // namespace
}  // namespace omni::test
