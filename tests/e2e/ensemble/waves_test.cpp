// These tests check omni-run ensemble --sweep tpe:COUNT, which trains waves of members, also after
// a kill and a resume.
#include <gtest/gtest.h>
#include <signal.h>

#include <set>
#include <thread>

#include "tests/e2e/ensemble/wave_sweep.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;
using WaveWords = std::vector<std::string>;

class WaveRuns : public testing::Test {
 protected:
  WaveWords sweep(const char* out, const WaveWords& more) const {
    WaveWords words = wave_sweep(folder_, out, "2", "tpe:8:2");
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  nlohmann::json record(const char* out) const {
    return nlohmann::json::parse(get(folder_ / out / "ensemble.json"));
  }

  TemporaryDirectory folder_;
};

// A sweep that is killed in any wave draws the same settings and learns the same after a resume.
TEST_F(WaveRuns, AKilledSweepDrawsTheSame) {
  const Finished undisturbed = omni_run(sweep("undisturbed", {"--checkpoint-every", "20"}));
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.errors;
  const auto summary = nlohmann::json::parse(undisturbed.output);
  ASSERT_EQ(summary["members"].size(), 8u) << "the one table has all waves";
  for (const auto& each : summary["members"]) EXPECT_EQ(each["state"], "finished") << each;
  double least = 1e9;
  for (const auto& each : summary["members"]) least = std::min<double>(least, each["test_loss"]);
  for (const auto& each : summary["members"])
    EXPECT_EQ(each["name"] == summary["best"], each["test_loss"] == least) << "of all waves";
  EXPECT_GE(summary["ahead"]["loss"], 0);

  const WaveWords words = sweep("killed", {"--checkpoint-every", "20", "--resume", "auto"});
  for (const std::size_t members : {4, 6, 8}) {  // in each wave
    WaveWords command = words;
    command.insert(command.begin(), kOmniRun);
    const pid_t child = start_program(command);
    const auto begun = [&] {
      if (!fs::exists(folder_ / "killed/ensemble.json")) return false;
      const auto list = record("killed")["members"];
      return list.size() >= members &&
             fs::exists(folder_ / "killed" / list[members - 1]["name"].get<std::string>());
    };
    while (!begun()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    kill(child, SIGKILL);
    wait_for_program(child);
  }
  const Finished last = omni_run(words);
  ASSERT_EQ(last.exit_code, 0) << last.errors;
  const auto again = nlohmann::json::parse(last.output);
  EXPECT_EQ(again["members"], summary["members"]);
  EXPECT_EQ(again["best"], summary["best"]);
  EXPECT_EQ(again["ahead"], summary["ahead"]);
  for (const auto& each : summary["members"]) {
    const std::string name = each["name"];
    EXPECT_EQ(get(folder_ / "killed" / name / "net.weights"),
              get(folder_ / "undisturbed" / name / "net.weights"))
        << name;
  }
  const Finished joint = omni_run({"valid", "--ensemble", folder_ / "killed", "--data",
                                   "synthetic:300:3", "--json", "--workers", "1"});
  EXPECT_EQ(joint.exit_code, 0) << joint.errors;

  WaveWords others = words;
  std::ranges::replace(others, std::string("momentum=0,0.5"), std::string("momentum=0,0.6"));
  const Finished refused = omni_run(others);
  EXPECT_EQ(refused.exit_code, 2) << refused.errors;
  EXPECT_NE(refused.errors.find("is of another sweep"), std::string::npos) << refused.errors;
}

// Members of later waves are compared at rungs with those of earlier ones.
TEST_F(WaveRuns, LosersOfAllWavesAreEnded) {
  const Finished run = omni_run(sweep("run", {"--stop", "asha:20:2"}));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const auto members = nlohmann::json::parse(run.output)["members"];
  ASSERT_EQ(members.size(), 8u);
  int dropped = 0;
  for (const auto& each : members) dropped += each["state"] == "dropped";
  EXPECT_GT(dropped, 0) << members;
  EXPECT_LT(dropped, 8) << members;
  const auto rungs = nlohmann::json::parse(get(folder_ / "run/rungs.json"));
  EXPECT_EQ(rungs["members"].size(), 8u);
  std::set<int> at_first;
  for (const auto& each : rungs["reached"])
    if (each["iteration"] == 20) at_first.insert(each["member"].get<int>());
  EXPECT_EQ(at_first.size(), 8u) << "all waves have the same rungs";
}

// Later waves may have other mini-batches, and so other lengths. The rungs stay where they are.
TEST_F(WaveRuns, RungsFollowFromTheFirstWave) {
  WaveWords words = sweep("run", {"--epochs", "3", "--stop", "asha"});
  words.erase(std::ranges::find(words, "--max-batches"),
              std::ranges::find(words, "--max-batches") + 2);
  std::ranges::replace(words, std::string("momentum=0,0.5"), std::string("batch=2,3,4,6,9,12"));
  std::ranges::replace(words, std::string("tpe:8:2"), std::string("tpe:5:1"));
  const Finished run = omni_run(words);
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const auto rungs = nlohmann::json::parse(get(folder_ / "run/rungs.json"));
  EXPECT_EQ(rungs["members"].size(), 5u);
  words.insert(words.end(), {"--resume", "auto"});
  EXPECT_EQ(omni_run(words).exit_code, 0);
}

// The table has what is known where the sweep does not go on.
TEST_F(WaveRuns, AWaveThatEndsTheSweepHasATable) {
  WaveWords words = sweep("run", {"--strict"});
  std::ranges::replace(words, std::string("learning_rate=log:1e-7..1"),
                       std::string("learning_rate=1e30,1e31,1e32,1e33"));
  const Finished run = omni_run(words);
  EXPECT_EQ(run.exit_code, 6) << run.errors;
  ASSERT_FALSE(run.output.empty());
  EXPECT_EQ(nlohmann::json::parse(run.output)["members"].size(), 4u) << "of the first wave";
}

// The sweep goes on after a wave whose members all diverge. It fails only if all members of all
// waves diverge.
TEST_F(WaveRuns, DivergedMembersAreBadSettings) {
  WaveWords words = sweep("run", {});
  std::ranges::replace(words, std::string("learning_rate=log:1e-7..1"),
                       std::string("learning_rate=1e30,1e31,1e32,0.01"));
  const Finished run = omni_run(words);
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  std::ranges::replace(words, std::string("learning_rate=1e30,1e31,1e32,0.01"),
                       std::string("learning_rate=1e30,1e31,1e32,1e33"));
  EXPECT_EQ(omni_run(words).exit_code, 6);
}

TEST_F(WaveRuns, RefuseWhatTheyCannotHave) {
  const struct {
    WaveWords words;
    const char* text;
  } kCases[] = {
      {{"--net", folder_ / "small.cfg"}, "--sweep tpe: draws settings of one net"},
      {{"--part", "1/2"}, "--sweep tpe: results decide which members begin"},
      {{"--exploit", "10"}, "--sweep tpe: members of later waves cannot join a tournament"},
      {{"--plan", "--machine", "8-gpus"}, "--sweep tpe: its members are not known before"},
      {{"--no-test"}, "there is no test set"}};
  for (const auto& each : kCases) {
    WaveWords words = sweep("out", each.words);
    if (each.words.front() == "--no-test")
      words.erase(std::ranges::find(words, "--test-every"),
                  std::ranges::find(words, "--test-every") + 2);
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_NE(run.errors.find(each.text), std::string::npos) << run.errors;
  }
}

}  // namespace
}  // namespace omni::test
