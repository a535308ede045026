// These tests check omni-run ensemble --sweep: it makes a member of each setting, and ends members
// that surely lose.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;
using SweepWords = std::vector<std::string>;

class SweepRuns : public testing::Test {
 protected:
  void SetUp() override {
    put(folder_ / "small.cfg",
        net(10, {8, 8, 1}, "learning_rate=0.05\n") + connected(3) + layer("softmax"));
  }
  SweepWords sweep(const char* out, SweepWords more) const {
    SweepWords words{"ensemble",
                     "--net",
                     folder_ / "small.cfg",
                     "--data",
                     "synthetic:600:3",
                     "--max-batches",
                     "80",
                     "--test-every",
                     "0",
                     "--deterministic",
                     "--workers",
                     "2",
                     "--out",
                     folder_ / out};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Returns, by the member's name, its state and its number of iterations.
  static std::map<std::string, std::pair<std::string, int>> members(const Finished& run) {
    std::map<std::string, std::pair<std::string, int>> all;
    const auto summary = nlohmann::json::parse(run.output);
    for (const auto& each : summary["members"])
      all[each["name"]] = {each["state"], each["iterations"]};
    return all;
  }

  TemporaryDirectory folder_;
};

TEST_F(SweepRuns, ASweepMakesAMemberOfEachSetting) {
  const Finished run =
      omni_run(sweep("run", {"--sweep", "learning_rate=0.05,1e-6", "momentum=0,0.5", "--json"}));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const auto all = members(run);
  EXPECT_EQ(all.size(), 4u);
  for (const auto& [name, ended] : all)
    EXPECT_EQ(ended, std::pair(std::string("finished"), 80)) << name;
  const auto summary = nlohmann::json::parse(run.output);
  EXPECT_EQ(summary["best"].get<std::string>().find("small,learning_rate=0.05,"), 0u) << run.output;
  EXPECT_GE(summary["ahead"]["error"], 0) << run.output;
  const Finished joint = omni_run({"valid", "--ensemble", folder_ / "run", "--data",
                                   "synthetic:600:3", "--json", "--workers", "1"});
  EXPECT_EQ(joint.exit_code, 0) << joint.errors;
}

// The members with rates of 1e-6 and 1e-7 learn nothing and are ended. After a resume they stay
// ended.
TEST_F(SweepRuns, MembersThatSurelyLoseAreEnded) {
  const SweepWords more{"--sweep", "learning_rate=0.2,1e-6,1e-7", "--stop", "asha:30:2", "--json"};
  SweepWords words = sweep("run", more);
  // The training is so long that a member that was early at one rung meets the others at the next
  // rung.
  std::ranges::replace(words, std::string("80"), std::string("320"));
  const Finished run = omni_run(words);
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  auto all = members(run);
  EXPECT_EQ(all["small,learning_rate=0.2"].first, "finished") << run.output;
  for (const char* loser : {"small,learning_rate=1e-06", "small,learning_rate=1e-07"}) {
    EXPECT_EQ(all[loser].first, "dropped") << run.output;
    EXPECT_LT(all[loser].second, 320) << run.output;
  }
  EXPECT_NE(run.errors.find("stops: at iteration 30 it is number "), std::string::npos);

  SweepWords again = words;
  again.insert(again.end(), {"--resume", "auto"});
  const Finished resumed = omni_run(again);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(members(resumed), all);

  std::ranges::replace(again, std::string("learning_rate=0.2,1e-6,1e-7"),
                       std::string("learning_rate=0.2,1e-6,1e-5"));
  const Finished others = omni_run(again);
  EXPECT_EQ(others.exit_code, 2) << others.errors;
  EXPECT_NE(others.errors.find("compares other members"), std::string::npos) << others.errors;
}

// A member saves its checkpoint before it is judged, so a kill may come between the two.
TEST_F(SweepRuns, AResumeAtARungIsJudgedThere) {
  SweepWords words = sweep("run", {"--sweep", "learning_rate=0.2,1e-6,1e-7", "--stop", "asha:30:2",
                                   "--checkpoint-every", "30", "--json", "--resume", "auto"});
  const auto length = std::ranges::find(words, "80");
  *length = "30";  // complete members are not judged
  ASSERT_EQ(omni_run(words).exit_code, 0);
  *length = "80";
  const Finished resumed = omni_run(words);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  std::set<int> judged;
  const auto rungs = nlohmann::json::parse(get(folder_ / "run" / "rungs.json"));
  for (const auto& each : rungs["reached"])
    if (each["iteration"] == 30) judged.insert(each["member"].get<int>());
  EXPECT_EQ(judged.size(), 3u) << rungs;
}

// A member that has finished keeps its result, even if another member is better later.
TEST_F(SweepRuns, ACompleteMemberKeepsItsResult) {
  const std::string small = "--net " + (folder_ / "small.cfg").string();
  put(folder_ / "members", small + " --max-batches 20 --name brief\n" + small + " --name long\n");
  SweepWords words = sweep("run", {"--stop", "asha:10:2", "--json", "--resume", "auto"});
  words.erase(words.begin() + 1, words.begin() + 3);
  words.insert(words.end(), {"--members", folder_ / "members"});
  const auto length = std::ranges::find(words, "80");
  *length = "40";
  const Finished first = omni_run(words);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(members(first)["brief"], std::pair(std::string("finished"), 20)) << first.output;
  auto rungs = nlohmann::json::parse(get(folder_ / "run/rungs.json"));
  for (auto& each : rungs["reached"])
    if (each["member"] == 1)
      for (auto& loss : each["losses"]) loss = 0.001;
  put(folder_ / "run/rungs.json", rungs.dump());
  *length = "81";  // the rung at 80 judges both
  const Finished run = omni_run(words);
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_EQ(members(run)["brief"], std::pair(std::string("finished"), 20)) << run.output;
  EXPECT_EQ(members(run)["long"], std::pair(std::string("finished"), 81)) << run.output;
}

TEST_F(SweepRuns, WhatIsWrongIsSaid) {
  const struct {
    SweepWords words;
    const char* text;
  } kCases[] = {
      {{"--sweep", "learning_rate=0.1,x"}, "--sweep"},
      {{"--sweep", "no_such_key=1,2"}, "no_such_key"},
      {{"--sweep", "workers=1,2"}, "--workers is no option of one member"},
      {{"--sweep", "learning_rate=0.1", "learning_rate=0.2"}, "is there twice"},
      {{"--sweep", "learning_rate=0.1", "--stop", "best"}, "--stop best: is no rule"},
      {{"--sweep", "learning_rate=0.1", "--stop", "asha:10:1"}, "--stop asha:10:1: is no rule"},
      {{"--sweep", "learning_rate=0.1", "--stop", "median:10:3"}, "is no rule"},
      {{"--sweep", "learning_rate=0.1", "--no-test"}, "there is no test set"},
  };
  for (const auto& each : kCases) {
    SweepWords words = sweep("out", each.words);
    if (each.words.back() == "--no-test")
      words.erase(std::ranges::find(words, "--test-every"),
                  std::ranges::find(words, "--test-every") + 2);
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_NE(run.errors.find(each.text), std::string::npos) << run.errors;
  }
}

}  // namespace
}  // namespace omni::test
