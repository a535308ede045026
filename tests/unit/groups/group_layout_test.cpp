#include "scheduling/groups/group_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace omni {
namespace {

using testing::HasSubstr;

TEST(GroupLayout, spreads_neighbours_together) {
  EXPECT_EQ(describe(spread_groups(1, 4)), "0-3");
  EXPECT_EQ(describe(spread_groups(2, 4)), "0-1;2-3");
  EXPECT_EQ(describe(spread_groups(3, 8)), "0-1;2-4;5-7");
  EXPECT_EQ(describe(spread_groups(4, 4)), "0;1;2;3");
}

TEST(GroupLayout, gpus_and_cores_are_spread_each_for_themselves) {
  EXPECT_EQ(spread_groups(2, {6, 2}), (GroupLayout{{0, 2, 3}, {1, 4, 5}}));
  EXPECT_EQ(spread_groups(3, {5, 1}), (GroupLayout{{0, 1}, {0, 2}, {0, 3, 4}}));
  EXPECT_EQ(spread_groups(1, {3, 3}), (GroupLayout{{0, 1, 2}}));
}

TEST(GroupLayout, more_groups_than_workers_share_them) {
  EXPECT_EQ(describe(spread_groups(5, 2)), "0;1;0;1;0");
  EXPECT_EQ(describe(spread_groups(3, 1)), "0;0;0");
}

TEST(GroupLayout, reads_what_it_prints) {
  for (const char* text : {"0-3", "0-1;2-3", "0,2;1,3", "0-1,3;2", "0;0"}) {
    const auto layout = parse_group_layout(text, 4);
    ASSERT_TRUE(layout) << text << ": " << layout.error().message();
    EXPECT_EQ(describe(*layout), text);
  }
}

// Groups of several ranks, then several groups on ranks. Even layouts stay if unequal ones gain
// little.
TEST(GroupLayout, makes_groups_of_about_equal_speed) {
  const auto layout = [](int groups, const std::vector<int>& weights) {
    return describe(spread_over_ranks(groups, 2, static_cast<int>(weights.size()), weights));
  };
  EXPECT_EQ(layout(2, {3, 2, 1}), "0:0-1;1-2:0-1");
  EXPECT_EQ(layout(2, {1, 1, 2}), "0-1:0-1;2:0-1");
  EXPECT_EQ(layout(2, {1, 1, 1, 1, 4}), "0-3:0-1;4:0-1");
  EXPECT_EQ(layout(3, {5, 2, 2, 1, 3, 1}), "0:0-1;1-3:0-1;4-5:0-1");
  EXPECT_EQ(layout(2, {50, 51, 51, 50}), "0-1:0-1;2-3:0-1");
  EXPECT_EQ(layout(3, {2, 1}), "0:0;0:1;1:0-1");
  EXPECT_EQ(layout(3, {1, 2}), "0:0-1;1:0;1:1");
  EXPECT_EQ(layout(2, {1, 9}), "0:0-1;1:0-1");
}

TEST(GroupLayout, names_ranks_where_there_are_several) {
  EXPECT_EQ(describe(spread_over_ranks(4, 2, 2)), "0:0;0:1;1:0;1:1");
  EXPECT_EQ(describe(spread_over_ranks(3, 4, 2)), "0:0-3;1:0-1;1:2-3");
  EXPECT_EQ(describe(spread_over_ranks(2, 2, 4)), "0-1:0-1;2-3:0-1");
  EXPECT_EQ(describe(spread_over_ranks(2, 1, 3)), "0:0;1-2:0");
  for (const char* text : {"0:0-3;1:0-3", "0:0;0:1-3;1:2", "0-1:0-3"}) {
    const auto places = parse_group_layout(text, 4, 2);
    ASSERT_TRUE(places) << text << ": " << places.error().message();
    EXPECT_EQ(describe(*places), text);
  }
  const auto refusal = [](const char* text) {
    const auto places = parse_group_layout(text, 4, 2);
    return places ? std::string() : places.error().message();
  };
  EXPECT_THAT(refusal("0-3;4-7"), HasSubstr("'0-3' does not begin with rank 0"));
  EXPECT_THAT(refusal("0-3"), HasSubstr("for example '0:0-3;1:0-3'"));
  EXPECT_THAT(refusal("1:0;0:0"), HasSubstr("'1:0' does not begin with rank 0"));
  EXPECT_THAT(refusal("0:0;2:0"), HasSubstr("'2:0' does not begin with rank 0, or 1"));
  EXPECT_THAT(refusal("0:0;0:1"), HasSubstr("there are 2 ranks; it names 1"));
  EXPECT_THAT(refusal("0-1:0;0-1:1"), HasSubstr("'0-1:1' does not begin with rank 2"));
  EXPECT_THAT(refusal("0:0;0-1:1"), HasSubstr("'0-1:1' does not begin with rank 0, or 1"));
  EXPECT_THAT(refusal("0-2:0"), HasSubstr("there are 2 ranks; it names 3"));
  EXPECT_THAT(refusal("0:0;1:"), HasSubstr("'' names no workers"));
}

TEST(GroupLayout, refuses_what_names_no_workers) {
  const auto refusal = [](const char* text) {
    const auto layout = parse_group_layout(text, 4);
    EXPECT_FALSE(layout) << text;
    if (layout) return std::string();
    EXPECT_EQ(layout.error().kind, ErrorKind::usage);
    return layout.error().message();
  };
  EXPECT_THAT(refusal("0-4"), HasSubstr("there is no worker 4"));
  EXPECT_THAT(refusal("0-4"), HasSubstr("workers 0 to 3, for example '0-1;2-3'"));
  EXPECT_THAT(refusal(""), HasSubstr("'' names no workers"));
  EXPECT_THAT(refusal("0;"), HasSubstr("'' names no workers"));
  EXPECT_THAT(refusal("2-1"), HasSubstr("'2-1' names no workers"));
  EXPECT_THAT(refusal("a"), HasSubstr("'a' names no workers"));
  EXPECT_THAT(refusal("-1"), HasSubstr("'-1' names no workers"));
  EXPECT_THAT(refusal("0-1-2"), HasSubstr("'0-1-2' names no workers"));
  EXPECT_THAT(refusal("0-2,1"), HasSubstr("names worker 1 twice"));
  EXPECT_THAT(refusal("99999999999"), HasSubstr("names no workers"));
}

}  // namespace
}  // namespace omni
