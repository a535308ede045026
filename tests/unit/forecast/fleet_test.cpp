// These tests check plans of ensembles: plans are valid, train every sample, and come near the
// optimum that exhaustive search finds.
#include "scheduling/forecast/fleet/fleet.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "runtime/rng.hpp"

namespace omni {
namespace {

FleetPlan planned(const Fleet& fleet) {
  Result<FleetPlan> plan = plan_fleet(fleet);
  EXPECT_TRUE(plan) << plan.error().message();
  return plan ? *plan : FleetPlan{};
}

std::string fleet_refusal(const auto& result) { return result ? "" : result.error().message(); }

// Draws members whose rates are powers of the number of devices, with up to 10 % noise. The rates
// of some members are known for few devices only.
Fleet drawn_fleet(int number, int most_members, int most_devices) {
  Draws draws(Philox(52, RandomStream::synthetic), number);
  Fleet fleet{.devices = 1 + static_cast<int>(draws.below(most_devices))};
  const bool same_length = draws.below(2) == 0;
  const int members = 1 + static_cast<int>(draws.below(most_members));
  for (int i = 0; i < members; ++i) {
    FleetMember member;
    const float one = 100 * std::exp(draws.uniform(0, 3)), power = draws.uniform();
    const int known =
        draws.below(4) == 0 ? 1 + static_cast<int>(draws.below(fleet.devices)) : fleet.devices;
    for (int m = 1; m <= known; ++m)
      member.rates.push_back(one * std::pow(m, power) * draws.uniform(0.9f, 1.1f));
    member.samples = same_length ? 60'000 : 1'000 + draws.below(100'000);
    fleet.members.push_back(std::move(member));
  }
  if (draws.below(3) == 0) fleet.pipeline = draws.uniform(100, 2000);
  return fleet;
}

// Tries all ways to train: whenever a member ends, any set of members goes on, on any numbers of
// devices.
class Exhaustive {
 public:
  explicit Exhaustive(const Fleet& fleet) : fleet_(fleet) {
    for (const FleetMember& member : fleet.members) left_.push_back(member.samples);
    for (unsigned set = 0; set < 1u << left_.size(); ++set)
      rates_.push_back(best_rate(set, fleet.devices));
  }

  // Returns the smallest makespan, or `known` if none is smaller.
  double least(double known) {
    least_ = known;
    go_on(0);
    return least_;
  }

 private:
  // Returns the rate of the slowest member of `set` when `devices` devices are divided among its
  // members in the best way.
  double best_rate(unsigned set, int devices) const {
    if (set == 0) return INFINITY;
    const FleetMember& member = fleet_.members[std::countr_zero(set)];
    double best = 0;
    for (int m = 1; m <= std::min(devices, static_cast<int>(member.rates.size())); ++m)
      best = std::max(best, std::min(member.rates[m - 1], best_rate(set & (set - 1), devices - m)));
    return best;
  }

  void go_on(double seconds) {
    unsigned all = 0;
    double longest = 0;
    for (std::size_t i = 0; i < left_.size(); ++i)
      if (left_[i] > 0) {
        all |= 1u << i;
        longest = std::max(longest, static_cast<double>(left_[i]) / alone(i));
      }
    if (seconds + longest >= least_) return;
    if (all == 0) least_ = seconds;
    for (unsigned set = all; set != 0; set = (set - 1) & all) {
      if (rates_[set] == 0) continue;
      const std::vector<std::uint64_t> before = left_;
      std::uint64_t samples = UINT64_MAX;
      std::map<std::uint64_t, int> positions;
      for_each_in(set, [&](std::size_t i) {
        samples = std::min(samples, left_[i]);
        ++positions[fleet_.members[i].samples - left_[i]];
      });
      for_each_in(set, [&](std::size_t i) { left_[i] -= samples; });
      go_on(seconds +
            static_cast<double>(samples) /
                std::min(rates_[set], fleet_.pipeline / static_cast<double>(positions.size())));
      left_ = before;
    }
  }

  static void for_each_in(unsigned set, const auto& work) {
    for (; set != 0; set &= set - 1) work(static_cast<std::size_t>(std::countr_zero(set)));
  }
  double alone(std::size_t i) const { return rates_[1u << i]; }

  const Fleet& fleet_;
  std::vector<std::uint64_t> left_;
  std::vector<double> rates_;  // by set of members: the best of the slowest
  double least_ = INFINITY;
};

TEST(Fleet, F1_every_flotilla_fits_and_every_member_is_trained_once) {
  for (int number = 0; number < 100; ++number) {
    const Fleet fleet = drawn_fleet(number, 12, 8);
    const FleetPlan plan = planned(fleet);
    std::vector<std::uint64_t> trained(fleet.members.size());
    std::vector<int> ended(fleet.members.size());
    for (const Flotilla& flotilla : plan.flotillas) {
      EXPECT_LE(flotilla.devices(), fleet.devices);
      for (const FleetShare& share : flotilla.shares) {
        EXPECT_GE(share.devices, 1);
        EXPECT_LE(flotilla.pace, fleet.members[share.member].rates[share.devices - 1]);
        trained[share.member] += flotilla.samples;
      }
      EXPECT_LE(flotilla.pace, fleet.pipeline / flotilla.streams * (1 + 1e-12));
      EXPECT_DOUBLE_EQ(flotilla.seconds, static_cast<double>(flotilla.samples) / flotilla.pace);
      for (const int member : flotilla.ended) ++ended[member];
    }
    for (std::size_t i = 0; i < trained.size(); ++i) {
      EXPECT_EQ(trained[i], fleet.members[i].samples);
      EXPECT_EQ(ended[i], 1);
    }
    const auto simulated = makespan(fleet, plan);
    ASSERT_TRUE(simulated) << simulated.error().message();
    EXPECT_DOUBLE_EQ(*simulated, plan.seconds());
  }
}

TEST(Fleet, F1_one_device_trains_one_member_after_another) {
  Fleet fleet = drawn_fleet(0, 6, 4);
  fleet.devices = 1;
  const FleetPlan plan = planned(fleet);
  EXPECT_EQ(plan.flotillas.size(), fleet.members.size());
  for (const Flotilla& flotilla : plan.flotillas) EXPECT_EQ(flotilla.shares.size(), 1u);
  EXPECT_DOUBLE_EQ(plan.seconds(), *makespan_one_by_one(fleet));
}

TEST(Fleet, F1_equal_members_get_one_device_each) {
  for (const int members : {1, 2, 4, 8}) {
    const FleetMember member{{100, 190, 270, 340, 400, 450, 490, 520}, 1000};
    Fleet fleet{std::vector<FleetMember>(members, member), members};
    const FleetPlan plan = planned(fleet);
    ASSERT_EQ(plan.flotillas.size(), 1u);
    EXPECT_EQ(plan.flotillas[0].shares.size(), static_cast<std::size_t>(members));
    for (const FleetShare& share : plan.flotillas[0].shares) EXPECT_EQ(share.devices, 1);
    EXPECT_EQ(plan.flotillas[0].ended.size(), static_cast<std::size_t>(members));
    EXPECT_DOUBLE_EQ(plan.seconds(), 10);
  }
}

TEST(Fleet, the_slower_member_gets_more_devices) {
  const Fleet fleet{{{{100, 150, 200}, 1000}, {{50, 100, 120}, 1000}}, 3};
  const FleetPlan plan = planned(fleet);
  ASSERT_EQ(plan.flotillas.size(), 1u);
  EXPECT_EQ(plan.flotillas[0].shares, (FleetShares{{0, 1}, {1, 2}}));
  EXPECT_DOUBLE_EQ(plan.seconds(), 10);
}

TEST(Fleet, a_member_that_ends_leaves_its_devices_to_the_others) {
  const Fleet fleet{{{{100, 180}, 1000}, {{100, 180}, 2800}}, 2};
  const FleetPlan plan = planned(fleet);
  ASSERT_EQ(plan.flotillas.size(), 2u);
  EXPECT_EQ(plan.flotillas[0].ended, std::vector<int>{0});
  EXPECT_EQ(plan.flotillas[1].shares, (FleetShares{{1, 2}}));
  EXPECT_DOUBLE_EQ(plan.seconds(), 10 + 10);
}

TEST(Fleet, a_number_of_devices_that_is_slower_than_fewer_is_not_used) {
  const FleetPlan plan = planned({{{{100, 90, 80}, 1000}}, 3});
  EXPECT_EQ(plan.flotillas[0].shares, (FleetShares{{0, 1}}));
}

TEST(Fleet, a_member_too_large_for_one_device_gets_more) {
  const Fleet fleet{{{{0, 100}, 1000}, {{100}, 1000}}, 2};
  const FleetPlan plan = planned(fleet);
  EXPECT_EQ(plan.flotillas.size(), 2u);
  EXPECT_DOUBLE_EQ(plan.seconds(), 20);
  EXPECT_TRUE(std::isinf(*makespan_all_at_once(fleet)));
}

TEST(Fleet, members_at_other_positions_cost_the_pipeline_another_stream) {
  Fleet fleet{{{{100}, 1000}, {{100}, 1000}}, 2, 100};
  EXPECT_DOUBLE_EQ(planned(fleet).seconds(), 10);
  fleet.members[1].position = 500;
  const FleetPlan plan = planned(fleet);
  EXPECT_DOUBLE_EQ(plan.seconds(), 20);
  EXPECT_EQ(plan.prepared(), 2000u);
}

TEST(Fleet, F2_planning_again_after_every_event_changes_no_members_work) {
  for (int number = 0; number < 50; ++number) {
    Fleet fleet = drawn_fleet(number, 8, 6);
    std::vector<std::uint64_t> trained(fleet.members.size()), wanted;
    for (const FleetMember& member : fleet.members) wanted.push_back(member.samples);
    for (FleetPlan plan = planned(fleet); !plan.flotillas.empty(); plan = planned(fleet))
      for (const FleetShare& share : plan.flotillas[0].shares) {
        FleetMember& member = fleet.members[share.member];
        trained[share.member] += plan.flotillas[0].samples;
        member.position += plan.flotillas[0].samples;
        member.samples -= plan.flotillas[0].samples;
      }
    EXPECT_EQ(trained, wanted);
  }
}

TEST(Fleet, F3_is_within_a_tenth_of_the_best_by_exhaustive_search) {
  constexpr int kCases = 200;
  double worst = 1, sum = 0;
  for (int number = 0; number < kCases; ++number) {
    const Fleet fleet = drawn_fleet(number, 6, 4);
    const double seconds = planned(fleet).seconds();
    const double ratio = seconds / Exhaustive(fleet).least(seconds * (1 + 1e-9));
    EXPECT_GE(ratio, 1 - 1e-8) << "the search is not exhaustive in case " << number;
    EXPECT_LE(ratio, 1.1) << "case " << number;
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  RecordProperty("worst", std::to_string(worst));
  RecordProperty("mean", std::to_string(sum / kCases));
  EXPECT_LE(sum / kCases, 1.01);
}

TEST(Fleet, more_devices_never_make_it_longer) {
  for (int number = 0; number < 40; ++number) {
    Fleet fleet = drawn_fleet(number, 12, 10);
    double before = INFINITY;
    for (fleet.devices = 1; fleet.devices <= 10; ++fleet.devices) {
      const double seconds = planned(fleet).seconds();
      EXPECT_LE(seconds, before * (1 + 1e-8)) << fleet.devices << " devices, case " << number;
      before = seconds;
    }
  }
}

TEST(Fleet, a_hundred_members_on_64_devices_beat_both_usual_ways) {
  Fleet fleet{.devices = 64};
  Draws draws(Philox(52, RandomStream::synthetic), 1'000'000);
  for (int i = 0; i < 100; ++i) {
    FleetMember member{{}, 50'000};
    const float one = 100 * std::exp(draws.uniform(0, 3)), power = draws.uniform(0.3f, 1);
    for (int m = 1; m <= 64; ++m) member.rates.push_back(one * std::pow(m, power));
    fleet.members.push_back(std::move(member));
  }
  const FleetPlan plan = planned(fleet);
  EXPECT_DOUBLE_EQ(*makespan(fleet, plan), plan.seconds());
  EXPECT_LT(1.2 * plan.seconds(), *makespan_all_at_once(fleet));
  EXPECT_LT(1.2 * plan.seconds(), *makespan_one_by_one(fleet));
}

TEST(Fleet, all_at_once_shares_devices_or_their_time_and_one_by_one_uses_the_best_number) {
  Fleet fleet{{{{100, 150}, 1000}, {{50, 40}, 500}}, 2};
  EXPECT_DOUBLE_EQ(*makespan_all_at_once(fleet), 500 / 50.0 + 500 / 150.0);
  EXPECT_DOUBLE_EQ(*makespan_one_by_one(fleet), 1000 / 150.0 + 500 / 50.0);
  fleet.devices = 1;
  EXPECT_DOUBLE_EQ(*makespan_all_at_once(fleet), 500 / 25.0 + 500 / 100.0);
  fleet.pipeline = 20;
  EXPECT_DOUBLE_EQ(*makespan_all_at_once(fleet), 1000 / 20.0);
  EXPECT_DOUBLE_EQ(*makespan_one_by_one(fleet), 1500 / 20.0);
}

TEST(Fleet, ranks_get_members_with_equal_work) {
  const auto shared = [](std::vector<double> work, int ranks) { return share_out(work, ranks); };
  using Ranks = std::vector<int>;
  EXPECT_EQ(shared({1, 1, 1, 1, 1}, 2), (Ranks{0, 1, 0, 1, 0})) << "equal ones in turn";
  EXPECT_EQ(shared({1, 2, 3, 6}, 2), (Ranks{1, 1, 1, 0}));
  EXPECT_EQ(shared({0, 0, 0}, 3), (Ranks{0, 1, 2})) << "each rank needs a member";
  EXPECT_EQ(shared({5, 1, 1}, 1), (Ranks{0, 0, 0}));
  EXPECT_EQ(shared({}, 2), Ranks{});
}

TEST(Fleet, what_cannot_be_planned_is_refused) {
  EXPECT_EQ(fleet_refusal(plan_fleet({.members = {}, .devices = 0})),
            "ensemble: there is no device (give it one or more)");
  EXPECT_EQ(fleet_refusal(plan_fleet({.members = {{{0, 0, 5}, 1}}, .devices = 2})),
            "ensemble: member 0 cannot train on 2 devices (leave it out, or give it more devices)");
  EXPECT_EQ(fleet_refusal(plan_fleet({.members = {{{NAN}, 1}}})),
            "ensemble: member 0 has the rate nan (measure it again)");
  EXPECT_EQ(fleet_refusal(plan_fleet({.members = {}, .pipeline = 0})),
            "ensemble: the pipeline prepares 0 samples per second (measure it again)");
  EXPECT_EQ(planned({.members = {{{}, 0}}}).seconds(), 0);
}

TEST(Fleet, plans_that_cannot_be_are_refused) {
  const Fleet fleet{{{{100, 150}, 1000}, {{50, 40}, 500}}, 2};
  const auto refused = [&](const std::vector<FleetShares>& shares) {
    return fleet_refusal(simulate_fleet(fleet, shares));
  };
  EXPECT_EQ(refused({{{0, 2}}, {{1, 1}}}), "");
  EXPECT_EQ(refused({{{0, 2}}}), "ensemble: not all members are trained to their end (plan again)");
  EXPECT_EQ(refused({{{0, 2}, {1, 1}}}), "ensemble: flotilla 0 uses 3 of 2 devices (plan again)");
  EXPECT_EQ(refused({{{0, 2}}, {{0, 1}}}),
            "ensemble: flotilla 1 has member 0, which cannot train (plan again)");
  EXPECT_EQ(refused({{{2, 1}}}),
            "ensemble: flotilla 0 has member 2, which cannot train (plan again)");
  EXPECT_EQ(refused({{{0, 0}}}), "ensemble: flotilla 0 has member 0 on 0 devices (plan again)");
  EXPECT_EQ(refused({{}}), "ensemble: flotilla 0 uses 0 of 2 devices (plan again)");
}

}  // namespace
}  // namespace omni
