// These tests check which members a sweep stops at its rungs: in examples by hand, with pure noise,
// with members that surely lose, and in any order of reports.
#include "scheduling/ensemble/rungs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/rng.hpp"

namespace omni {
namespace {

using Losses = std::vector<float>;

Rungs rungs_of(const RungOptions& options) {
  auto rungs = Rungs::make(options);
  EXPECT_TRUE(rungs);
  return *rungs;
}

void reach(Rungs& rungs, int member, std::uint64_t iteration, Losses losses) {
  const Status reached = rungs.reach(member, iteration, std::move(losses));
  EXPECT_TRUE(reached) << reached.error().message();
}

std::vector<int> stopped(const Rungs& rungs) {
  std::vector<int> members;
  for (const RungVerdict& verdict : rungs.verdicts())
    if (verdict.stops) members.push_back(verdict.member);
  return members;
}

// Returns losses of images that are unequally hard for all members, plus noise of this member.
Losses drawn_losses(int number, int member, float mean, int images = 256) {
  Losses losses;
  Draws hard(Philox(1, RandomStream::synthetic), number);
  Draws own(Philox(2, RandomStream::synthetic), (std::uint64_t(number) << 32) + member);
  for (int i = 0; i < images; ++i) losses.push_back(mean + hard.normal() + 0.5f * own.normal());
  return losses;
}

// Returns losses with this mean. The difference of two such lists with opposite `turn` has the
// standard error 0.2.
Losses by_hand(float mean, float turn = 1) {
  Losses losses;
  for (int i = 0; i < 100; ++i) losses.push_back(mean + (i % 2 == 0 ? turn : -turn));
  return losses;
}

TEST(LossExcess, is_the_mean_difference_on_the_same_images_with_its_error) {
  const LossExcess of = loss_excess(Losses{1, 4, 4, 7}, Losses{1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(of.mean, 1.5);
  EXPECT_DOUBLE_EQ(of.error, std::sqrt(5.0 / 3 / 4));
  const LossExcess hard = loss_excess(by_hand(5.0f, 100), by_hand(4.5f, 100));
  EXPECT_NEAR(hard.error, 0, 1e-5) << "images that are hard for both do not count";
}

TEST(LossExcess, more_comparisons_and_fewer_images_ask_for_more) {
  EXPECT_TRUE((LossExcess{2.1, 1, 1'000'000}).is_sure(2, 1));
  EXPECT_FALSE((LossExcess{1.9, 1, 1'000'000}).is_sure(2, 1));
  EXPECT_FALSE((LossExcess{2.1, 1, 1'000'000}).is_sure(2, 10));
  EXPECT_TRUE((LossExcess{3.0, 1, 1'000'000}).is_sure(2, 10));
  EXPECT_FALSE((LossExcess{2.1, 1, 10}).is_sure(2, 1));
  EXPECT_FALSE((LossExcess{100, 0, 1}).is_sure(2, 1)) << "one image has no error";
  EXPECT_FALSE((LossExcess{0, 0, 100}).is_sure(2, 1));
}

TEST(LossExcess, losses_that_are_not_finite_are_surely_worse_than_others_alone) {
  const Losses good{1, 2}, bad{1, NAN}, worse{INFINITY, 1};
  EXPECT_TRUE(loss_excess(bad, good).is_sure(2, 9));
  EXPECT_FALSE(loss_excess(good, bad).is_sure(2, 9));
  EXPECT_FALSE(loss_excess(bad, worse).is_sure(2, 9));
}

TEST(Rungs, lie_at_powers_of_eta_or_in_even_steps) {
  const Rungs asha = rungs_of({.first = 100, .eta = 3});
  for (const auto& [from, to] : {std::pair(0, 100), {99, 100}, {100, 300}, {299, 300}, {300, 900}})
    EXPECT_EQ(asha.next(from), static_cast<std::uint64_t>(to));
  EXPECT_EQ(asha.next(UINT64_MAX - 1), UINT64_MAX);
  const Rungs median = rungs_of({.rule = StopRule::median, .first = 100});
  for (const auto& [from, to] : {std::pair(0, 100), {99, 100}, {100, 200}, {250, 300}})
    EXPECT_EQ(median.next(from), static_cast<std::uint64_t>(to));
  EXPECT_EQ(median.next(UINT64_MAX), UINT64_MAX);
}

TEST(Rungs, the_best_third_goes_on) {
  Rungs rungs = rungs_of({.first = 100, .eta = 3});
  reach(rungs, 7, 100, by_hand(3, 0.5f));
  reach(rungs, 5, 100, by_hand(1));
  EXPECT_TRUE(stopped(rungs).empty()) << "of two members nobody knows the best third";
  reach(rungs, 6, 100, by_hand(2, -1));
  const auto verdicts = rungs.verdicts();
  ASSERT_EQ(verdicts.size(), 3u);
  EXPECT_EQ(verdicts[0], (RungVerdict{.member = 5, .iteration = 100, .reached = 3}));
  EXPECT_EQ(verdicts[1], (RungVerdict{6, 100, 3, 1, 5, {}, true}));
  EXPECT_EQ(verdicts[2], (RungVerdict{7, 100, 3, 2, 5, {}, true}));
  EXPECT_NEAR(verdicts[1].worse.mean, 1, 1e-6);
  EXPECT_NEAR(verdicts[1].worse.error, 0.2, 0.002);
}

TEST(Rungs, a_member_that_is_not_surely_worse_goes_on) {
  Rungs rungs = rungs_of({.first = 100, .eta = 3});
  reach(rungs, 0, 100, by_hand(1));
  reach(rungs, 1, 100, by_hand(1.4f, -1));  // 2 errors above: not enough of 3 members
  reach(rungs, 2, 100, by_hand(1.6f, -1));  // 3 errors
  EXPECT_EQ(stopped(rungs), std::vector<int>{2});
}

TEST(Rungs, equal_members_all_go_on) {
  for (const StopRule rule : {StopRule::asha, StopRule::median}) {
    Rungs rungs = rungs_of({.rule = rule});
    for (int member = 0; member < 9; ++member) reach(rungs, member, 100, by_hand(1));
    EXPECT_TRUE(stopped(rungs).empty());
  }
}

TEST(Rungs, noise_seldom_stops_a_member) {
  for (const StopRule rule : {StopRule::asha, StopRule::median}) {
    constexpr int kCases = 200, kAlike = 9;
    int wrong = 0;
    for (int number = 0; number < kCases; ++number) {
      Rungs rungs = rungs_of({.rule = rule});
      for (int member = 0; member < kAlike; ++member)
        reach(rungs, member, 100, drawn_losses(number, member, 2));
      wrong += static_cast<int>(stopped(rungs).size());
    }
    RecordProperty(rule == StopRule::asha ? "asha" : "median", wrong);
    EXPECT_LE(wrong, kCases * kAlike / 100);
  }
}

TEST(Rungs, members_that_are_clearly_worse_are_stopped) {
  for (int number = 0; number < 50; ++number) {
    Rungs rungs = rungs_of({.eta = 3});
    for (int member = 0; member < 9; ++member)
      reach(rungs, member, 100, drawn_losses(number, member, member < 3 ? 2.0f : 2.3f));
    EXPECT_EQ(stopped(rungs), (std::vector<int>{3, 4, 5, 6, 7, 8}));
  }
}

TEST(Rungs, a_member_that_ran_ahead_is_stopped_when_others_arrive) {
  Rungs rungs = rungs_of({.first = 100, .eta = 2});
  reach(rungs, 0, 100, by_hand(3));
  reach(rungs, 0, 200, by_hand(2));
  EXPECT_TRUE(stopped(rungs).empty());
  reach(rungs, 1, 100, by_hand(1, -1));
  EXPECT_EQ(stopped(rungs), std::vector<int>{0});
  EXPECT_EQ(rungs.verdicts()[0].iteration, 100u);
  reach(rungs, 1, 200, by_hand(4, -1));  // at the higher rung it is the other way round
  EXPECT_EQ(stopped(rungs), std::vector<int>{1});
  EXPECT_EQ(rungs.verdicts()[1].iteration, 200u);
}

TEST(Rungs, who_has_left_is_not_judged_but_counts) {
  Rungs rungs = rungs_of({.first = 100, .eta = 2});
  reach(rungs, 0, 100, by_hand(1));
  rungs.leave(0);
  reach(rungs, 1, 100, by_hand(3, -1));
  ASSERT_EQ(rungs.verdicts().size(), 1u);
  EXPECT_EQ(rungs.verdicts()[0].rival, 0);
  EXPECT_EQ(stopped(rungs), std::vector<int>{1});
}

TEST(Rungs, diverged_members_stop_and_are_no_rivals_of_others) {
  Rungs rungs = rungs_of({.first = 100, .eta = 2});
  reach(rungs, 0, 100, Losses(10, NAN));
  reach(rungs, 1, 100, Losses(10, 1));
  reach(rungs, 2, 100, Losses(10, INFINITY));
  EXPECT_EQ(stopped(rungs), (std::vector<int>{0, 2}));
}

TEST(Rungs, verdicts_do_not_depend_on_the_order_of_arrival) {
  for (const StopRule rule : {StopRule::asha, StopRule::median})
    for (int number = 0; number < 50; ++number) {
      std::vector<int> order(8);
      for (int i = 0; i < 8; ++i) order[i] = i;
      std::optional<std::vector<RungVerdict>> expected;
      Draws draws(Philox(3, RandomStream::shuffle), number);
      for (int turn = 0; turn < 4; ++turn) {
        Rungs rungs = rungs_of({.rule = rule, .first = 100, .eta = 2});
        for (const int member : order)
          for (const std::uint64_t iteration : {100, 200})
            if (iteration == 100 || member % 2 == 0)
              reach(rungs, member, iteration,
                    drawn_losses(number, member, static_cast<float>(member % 3) / 10, 64));
        if (!expected) expected = rungs.verdicts();
        EXPECT_EQ(rungs.verdicts(), *expected);
        for (std::uint32_t i = 8; i > 1; --i) std::swap(order[i - 1], order[draws.below(i)]);
      }
    }
}

TEST(Rungs, median_compares_the_best_report_with_running_means_of_others) {
  Rungs rungs = rungs_of({.rule = StopRule::median, .first = 100});
  for (int member = 0; member < 4; ++member) {
    reach(rungs, member, 100, by_hand(5));
    reach(rungs, member, 200, by_hand(static_cast<float>(member), -1));
  }
  reach(rungs, 4, 100, by_hand(4.5f));
  EXPECT_TRUE(stopped(rungs).empty());
  reach(rungs, 4, 200, by_hand(9));
  // The running means of members 0 to 3 are 2.5, 3, 3.5 and 4. The best report of member 4 is 4.5.
  const auto verdicts = rungs.verdicts();
  ASSERT_EQ(verdicts.size(), 5u);
  for (int member = 0; member < 4; ++member) EXPECT_EQ(verdicts[member].rival, -1) << member;
  EXPECT_EQ(verdicts[4].rival, 2);
  EXPECT_NEAR(verdicts[4].worse.mean, 1, 1e-5);
  EXPECT_EQ(stopped(rungs), std::vector<int>{4});
}

TEST(Rungs, median_needs_three_others) {
  Rungs rungs = rungs_of({.rule = StopRule::median, .first = 100});
  for (int member = 0; member < 3; ++member)
    reach(rungs, member, 100, by_hand(static_cast<float>(9 * member), member % 2 == 0 ? 1 : -1));
  EXPECT_TRUE(stopped(rungs).empty());
  reach(rungs, 3, 100, by_hand(9));
  EXPECT_EQ(stopped(rungs), std::vector<int>{2});
  EXPECT_EQ(rungs.verdicts()[2].rival, 1) << "of 0, 9 and 9";
}

TEST(Rungs, a_checkpoint_keeps_all_that_verdicts_need) {
  for (const StopRule rule : {StopRule::asha, StopRule::median}) {
    const RungOptions options{.rule = rule, .first = 100, .eta = 2};
    Rungs rungs = rungs_of(options);
    for (int member = 0; member < 6; ++member)
      reach(rungs, member, 100, drawn_losses(0, member, static_cast<float>(member)));
    reach(rungs, 6, 100, Losses(256, NAN));
    rungs.leave(5);
    auto read = Rungs::from_json(nlohmann::json::parse(rungs.to_json().dump()), options);
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_TRUE(read->to_json() == rungs.to_json());
    for (Rungs* each : {&rungs, &*read}) reach(*each, 0, 200, drawn_losses(1, 0, 9));
    EXPECT_EQ(read->verdicts(), rungs.verdicts());
    EXPECT_FALSE(stopped(rungs).empty());
  }
}

// The length of a training, from which the first rung follows, may be another in a later wave.
TEST(Rungs, a_first_rung_that_nobody_gave_is_that_of_the_checkpoint) {
  Rungs rungs = rungs_of({.first = 100, .eta = 2});
  reach(rungs, 0, 100, by_hand(1));
  const auto read = Rungs::from_json(rungs.to_json(), {.first = 30, .keeps_first = true, .eta = 2});
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->next(0), 100u);
  EXPECT_EQ(read->next(100), 200u);
  EXPECT_TRUE(read->to_json() == rungs.to_json());
}

TEST(Rungs, checkpoints_that_cannot_be_are_refused) {
  const RungOptions options{.first = 100, .eta = 2};
  Rungs rungs = rungs_of(options);
  for (int member = 0; member < 2; ++member) reach(rungs, member, 100, by_hand(1));
  const nlohmann::json sound = rungs.to_json();
  const auto refusal = [&](const nlohmann::json& json, const RungOptions& now) {
    const auto read = Rungs::from_json(json, now);
    return read ? "" : read.error().message();
  };
  const std::string impossible =
      "--resume: the checkpoint has impossible numbers of the sweep (use another checkpoint)";
  EXPECT_EQ(refusal(sound, options), "");
  EXPECT_EQ(refusal(sound, {.first = 100, .eta = 3}),
            "--resume: the checkpoint is of a sweep with another --stop (give the same one, or "
            "begin anew)");
  EXPECT_EQ(refusal(sound, {.first = 50, .eta = 2}), refusal(sound, {.first = 100, .eta = 3}));
  for (const char* json : {"null", "[]", "{}", "3"})
    EXPECT_EQ(refusal(nlohmann::json::parse(json), options), impossible);
  nlohmann::json without_first = sound;
  without_first["first"] = 0;
  EXPECT_EQ(refusal(without_first, {.first = 100, .keeps_first = true, .eta = 2}), impossible);
  for (const char* key : {"iteration", "member", "reports", "losses", "running"})
    for (const char* value : {"null", "-1", "1e99", "\"a\"", "[\"a\"]", "[]", "101", "1"}) {
      nlohmann::json damaged = sound;
      damaged["reached"][0][key] = nlohmann::json::parse(value);
      if (damaged == sound || (key == std::string("member") && value == std::string("101")) ||
          (key == std::string("reports") && value == std::string("101")))
        continue;
      EXPECT_EQ(refusal(damaged, options), impossible) << key << " " << value;
    }
}

TEST(Rungs, arrivals_and_options_that_cannot_be_are_refused) {
  Rungs rungs = rungs_of({.first = 100, .eta = 2});
  const auto refusal = [](const auto& result) { return result ? "" : result.error().message(); };
  EXPECT_EQ(refusal(rungs.reach(0, 150, {1})),
            "member 0: iteration 150 is no rung (compare members on the same images)");
  EXPECT_EQ(refusal(rungs.reach(0, 0, {1})),
            "member 0: iteration 0 is no rung (compare members on the same images)");
  EXPECT_EQ(refusal(rungs.reach(0, 100, {})),
            "member 0: has no losses (compare members on the same images)");
  EXPECT_EQ(refusal(rungs.reach(0, 200, {1, 2})), "");
  EXPECT_EQ(refusal(rungs.reach(0, 100, {1, 2})),
            "member 0: has been at iteration 200 before (compare members on the same images)");
  EXPECT_EQ(refusal(rungs.reach(1, 200, {1})),
            "member 1: has 1 losses at iteration 200, others have 2 (compare members on the same "
            "images)");
  EXPECT_EQ(refusal(Rungs::make({.first = 0})),
            "--stop: the first rung is at iteration 0 (1 or later)");
  EXPECT_EQ(refusal(Rungs::make({.eta = 1})),
            "--stop: the best 1 / 1 of all members are to go on (1 / 2 or less)");
  EXPECT_EQ(refusal(Rungs::make({.errors = NAN})),
            "--stop: nan standard errors are no measure (2, say)");
}

std::vector<Takeover> takeovers_of(std::vector<Contestant> members, std::uint64_t seed,
                                   std::uint64_t round) {
  const auto result = tournament(std::move(members), seed, round);
  EXPECT_TRUE(result);
  return result ? *result : std::vector<Takeover>{};
}

TEST(Tournament, sure_losers_continue_from_their_winners) {
  const auto both = takeovers_of({{4, by_hand(1)}, {9, by_hand(3, -1)}}, 1, 0);
  ASSERT_EQ(both.size(), 1u);
  EXPECT_EQ(both[0].winner, 4);
  EXPECT_EQ(both[0].loser, 9);
  EXPECT_NEAR(both[0].worse.mean, 2, 1e-6);
  EXPECT_TRUE(takeovers_of({{4, by_hand(1)}, {9, by_hand(1.2f, -1)}}, 1, 0).empty());
  EXPECT_TRUE(takeovers_of({{4, by_hand(1)}}, 1, 0).empty());
  EXPECT_TRUE(takeovers_of({}, 1, 0).empty());
}

TEST(Tournament, the_seed_and_the_round_decide_pairs_and_factors) {
  std::vector<Contestant> members;
  for (int i = 0; i < 9; ++i)
    members.push_back({i, by_hand(static_cast<float>(i), i % 2 ? 1 : -1)});
  const auto told = [&](std::uint64_t seed, std::uint64_t round) {
    std::vector<std::tuple<int, int, double>> all;
    for (const Takeover& each : takeovers_of(members, seed, round)) {
      EXPECT_LT(each.winner, each.loser);
      EXPECT_TRUE(each.rate_factor == 0.8 || each.rate_factor == 1.25);
      all.emplace_back(each.winner, each.loser, each.rate_factor);
    }
    return all;
  };
  const auto first = told(1, 0);
  EXPECT_EQ(first.size(), 4u);
  EXPECT_NE(told(1, 1), first);
  EXPECT_NE(told(2, 0), first);
  std::ranges::reverse(members);
  EXPECT_EQ(told(1, 0), first) << "the order of members does not matter";
}

TEST(Tournament, noise_seldom_moves_weights) {
  int wrong = 0, slower = 0, all = 0;
  for (int number = 0; number < 200; ++number) {
    std::vector<Contestant> equal, other;
    for (int i = 0; i < 8; ++i) {
      equal.push_back({i, drawn_losses(number, i, 2)});
      other.push_back({i, drawn_losses(number, i, 2 + static_cast<float>(i))});
    }
    wrong += static_cast<int>(takeovers_of(equal, 1, number).size());
    for (const Takeover& each : takeovers_of(other, 1, number)) {
      ++all;
      slower += each.rate_factor < 1;
    }
  }
  EXPECT_LE(wrong, 200 * 4 / 50);
  EXPECT_EQ(all, 800);
  EXPECT_GT(slower, 300);
  EXPECT_LT(slower, 500);
}

}  // namespace
}  // namespace omni
