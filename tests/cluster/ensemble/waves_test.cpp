// These tests run sweeps in waves over ranks. All ranks train the same waves as one process does.
#include <gtest/gtest.h>

#include <set>

#include "tests/cluster/ranks.hpp"
#include "tests/e2e/ensemble/wave_sweep.hpp"

namespace omni::test {
namespace {

namespace fs = std::filesystem;

class WavesOverRanks : public testing::Test {
 protected:
  Words sweep(const char* out, const Words& more = {}) const {
    Words words = wave_sweep(folder_, out, "1", "tpe:9:3");
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  void expect_equal(const nlohmann::json& members, const char* one, const char* other) const {
    ASSERT_EQ(members.size(), 9u);
    for (const auto& each : members) {
      const std::string name = each["name"], weights = get(folder_ / one / name / "net.weights");
      EXPECT_FALSE(weights.empty()) << name;
      EXPECT_TRUE(weights == get(folder_ / other / name / "net.weights")) << name;
    }
  }

  TemporaryDirectory folder_;
};

// The waves have 5, 3 and 1 members.
TEST_F(WavesOverRanks, MayHaveFewerMembersThanRanks) {
  const Finished one = omni_run(sweep("one"));
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  const auto summary = nlohmann::json::parse(one.output);
  const Finished two = on_ranks(2, sweep("two"));
  ASSERT_EQ(two.exit_code, 0) << two.errors;
  EXPECT_EQ(nlohmann::json::parse(two.output), summary);
  expect_equal(summary["members"], "one", "two");
}

class WavesOfTwoRanks : public WavesOverRanks {
 protected:
  Words sweep(const char* out, const Words& more = {}) const {
    Words words = WavesOverRanks::sweep(out, more);
    *std::ranges::find(words, "tpe:9:3") = "tpe:9:4";  // waves have 5 and 4 members
    return words;
  }
};

TEST_F(WavesOfTwoRanks, DrawAndLearnTheSameAsOneProcess) {
  const Finished one = omni_run(sweep("one"));
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  const auto summary = nlohmann::json::parse(one.output);
  const Finished two = on_ranks(2, sweep("two"));
  ASSERT_EQ(two.exit_code, 0) << two.errors;
  EXPECT_EQ(nlohmann::json::parse(two.output), summary) << "the first rank compares all waves";
  EXPECT_EQ(get(folder_ / "two/finals.json"), get(folder_ / "one/finals.json"));
  expect_equal(summary["members"], "one", "two");
}

TEST_F(WavesOfTwoRanks, GoOnAfterAKillOnAnotherNumberOfRanks) {
  const Finished one = omni_run(sweep("one"));
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  const auto summary = nlohmann::json::parse(one.output);
  const Words words = sweep("killed", {"--checkpoint-every", "10", "--resume", "auto"});
  int ranks = 2;
  for (const std::size_t members : {5, 9}) {  // in each wave
    const pid_t job = start_program(mpiexec(ranks++, words));
    const auto begun = [&] {
      if (!fs::exists(folder_ / "killed/ensemble.json")) return false;
      const auto list =
          nlohmann::json::parse(get(folder_ / "killed/ensemble.json"), nullptr, false)["members"];
      return list.size() >= members &&
             fs::exists(folder_ / "killed" / list[members - 1]["name"].get<std::string>());
    };
    while (!begun()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const pid_t process = process_of_rank(1, folder_ / "killed");
    if (process > 0) kill(process, SIGKILL);
    wait_for_program(job);
  }
  const Finished last = on_ranks(2, words);
  ASSERT_EQ(last.exit_code, 0) << last.errors;
  const auto again = nlohmann::json::parse(last.output);
  EXPECT_EQ(again["members"], summary["members"]);
  EXPECT_EQ(again["best"], summary["best"]);
  expect_equal(summary["members"], "one", "killed");
}

// The equal members of a wave train on the ranks in turn. Those of the first rank print lines.
TEST_F(WavesOfTwoRanks, TakeTheMembersInTurn) {
  const Finished run = on_ranks(2, sweep("run"));
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const auto members = nlohmann::json::parse(run.output)["members"];
  ASSERT_EQ(members.size(), 9u);
  for (std::size_t i = 0; i < members.size(); ++i)
    EXPECT_EQ(
        run.errors.find("\n" + members[i]["name"].get<std::string>() + ": ") != std::string::npos,
        (i < 5 ? i : i - 5) % 2 == 0)
        << members[i] << " of\n"
        << run.errors;
}

// Members of the second wave are compared at rungs with those of the first, on both ranks.
TEST_F(WavesOfTwoRanks, LosersOfAllWavesAreEnded) {
  Words words = sweep("run", {"--stop", "asha:50:2"});
  *std::ranges::find(words, "80") = "1600";
  const Finished run = on_ranks(2, words);
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const auto rungs = nlohmann::json::parse(get(folder_ / "run/rungs.json"));
  std::set<int> at_first;
  for (const auto& each : rungs["reached"])
    if (each["iteration"] == 50) at_first.insert(each["member"].get<int>());
  EXPECT_EQ(at_first.size(), 9u);
  std::set<int> dropped;
  const auto members = nlohmann::json::parse(run.output)["members"];
  for (int i = 0; i < 9; ++i)
    if (members[i]["state"] == "dropped") dropped.insert(i);
  EXPECT_FALSE(dropped.empty()) << members;
  const auto left = rungs["left"].get<std::set<int>>();
  for (const int each : dropped) EXPECT_TRUE(left.contains(each)) << each;
}

// A wave that diverges as a whole is no end, unless all do.
TEST_F(WavesOfTwoRanks, OfWhichAllDivergeAreAnError) {
  Words words = sweep("run");
  const auto rates = [&](const char* text) {
    *std::ranges::find_if(
        words, [](const std::string& word) { return word.starts_with("learning_rate="); }) = text;
  };
  rates("learning_rate=1e30,1e31,1e32,1e33,1e34");
  const Finished all = on_ranks(2, words);
  EXPECT_EQ(all.exit_code, 6) << all.errors;
  ASSERT_FALSE(all.output.empty()) << all.errors;
  EXPECT_EQ(nlohmann::json::parse(all.output)["members"].size(), 9u);
  rates("learning_rate=1e30,1e31,1e32,1e33,0.01");
  EXPECT_EQ(on_ranks(2, words).exit_code, 0);
}

}  // namespace
}  // namespace omni::test
