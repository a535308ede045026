// These tests check a sweep whose ranks send messages about a member at the same time: one that it
// stops, another that it has ended.
#include "scheduling/ensemble/sweep_judge.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

std::string losses_letter(int member, const char* what, float loss) {
  nlohmann::json letter{{"member", member}, {what, std::vector<float>(100, loss)}};
  if (std::string(what) == "losses") letter["iteration"] = 10;
  return letter.dump();
}

TEST(SweepJudges, LeaveTheResultOfAMemberThatHasEnded) {
  SweepJudge owner({"a", "b", "c"});
  owner.over_ranks(
      1, [](int) { return 1; }, [](int, const std::string&) {});
  owner.note_end(1);
  for (const int member : {1, 2})
    owner.heard(nlohmann::json{{"stops", member}, {"reason", "loses"}}.dump());
  EXPECT_FALSE(owner.has_stopped(1)) << "it had ended before";
  EXPECT_TRUE(owner.has_stopped(2));
}

TEST(SweepJudges, TakeTheResultOfAMemberThatEndedBeforeItHeard) {
  const test::TemporaryDirectory folder;
  SweepJudge judge({"a", "b"});
  ASSERT_TRUE(judge.stop_by({.first = 10, .eta = 2}, folder / "rungs.json", false));
  std::vector<std::string> sent;
  judge.over_ranks(
      0, [](int) { return 1; }, [&sent](int, const std::string& text) { sent.push_back(text); });
  judge.heard(losses_letter(0, "losses", 1));
  judge.heard(losses_letter(1, "losses", 2));
  ASSERT_TRUE(judge.has_stopped(1));
  ASSERT_EQ(sent.size(), 1u);
  judge.heard(losses_letter(0, "final", 1));
  EXPECT_EQ(judge.best().next, -1) << "a member that has stopped has no result";
  judge.heard(losses_letter(1, "final", 0.5f));
  EXPECT_FALSE(judge.has_stopped(1)) << "it had ended before it heard";
  EXPECT_EQ(judge.best().best, 1);
}

// The first rank keeps the losses of all ranks' members at once, as a job may be killed at any
// time.
TEST(SweepJudges, KeepWhatMembersOfOtherRanksEndWith) {
  const test::TemporaryDirectory folder;
  const auto send = [](int, const std::string&) {};
  const auto ranks = [](int member) { return member; };
  SweepJudge first({"a", "b"}), second({"a", "b"});
  ASSERT_TRUE(first.keep_final(folder / "finals.json", false));
  ASSERT_TRUE(second.keep_final(folder / "other.json", false));
  first.over_ranks(0, ranks, send);
  second.over_ranks(1, ranks, send);
  for (SweepJudge* const each : {&first, &second}) each->heard(losses_letter(1, "final", 2));
  EXPECT_FALSE(std::filesystem::exists(folder / "other.json"));
  SweepJudge again({"a", "b", "c"});
  ASSERT_TRUE(again.keep_final(folder / "finals.json", true));
  EXPECT_EQ(again.best().best, 1);
}

// The last update of a member may have spoilt its weights, after a loss that was finite.
TEST(SweepJudges, FindTheBestOfMembersWithFiniteLosses) {
  SweepJudge judge({"a", "b", "c", "d", "e"});
  const auto end = [&](int member, float loss) {
    nlohmann::json losses = std::vector<float>(99, loss);
    losses.push_back(member < 2 ? nlohmann::json() : nlohmann::json(loss));
    judge.heard(nlohmann::json{{"member", member}, {"final", losses}}.dump());
  };
  end(0, 0.1f);
  end(1, 0.1f);
  EXPECT_EQ(judge.best().best, -1);
  end(2, 3);
  EXPECT_EQ(judge.best().best, 2);
  EXPECT_EQ(judge.best().next, -1);
  end(3, 2);
  end(4, 2);
  EXPECT_EQ(judge.best().best, 3) << "the first of equal ones";
  EXPECT_EQ(judge.best().next, 4);
}

}  // namespace
}  // namespace omni
