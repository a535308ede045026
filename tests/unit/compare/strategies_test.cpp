// These tests check how omni-run compare reads the list of --strategies, and which lists it
// refuses.
#include "apps/omni-run/compare/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace omni {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Strategies, BecomeWordsOfATraining) {
  const auto found = parse_strategies("sync,async:4,async:08");
  ASSERT_TRUE(found) << found.error().message();
  ASSERT_EQ(found->size(), 3u);
  EXPECT_EQ((*found)[0].name, "sync");
  EXPECT_THAT((*found)[0].words, ElementsAre("--strategy", "sync"));
  EXPECT_EQ((*found)[1].name, "async:4");
  EXPECT_EQ((*found)[1].file_name(), "async-4");
  EXPECT_THAT((*found)[1].words, ElementsAre("--strategy", "async", "--groups", "4"));
  EXPECT_EQ((*found)[2].name, "async:8");
}

TEST(Strategies, WithModelsOfTheirOwnNeedNoNumber) {
  const auto found = parse_strategies("sma,hogbatch:3");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_THAT((*found)[0].words, ElementsAre("--strategy", "sma"));
  EXPECT_THAT((*found)[1].words, ElementsAre("--strategy", "hogbatch", "--groups", "3"));
}

TEST(Strategies, MayNameTheirMiniBatch) {
  const auto found = parse_strategies("sync@512,sync@64,sma:8@64");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_THAT((*found)[0].words, ElementsAre("--strategy", "sync", "--batch", "512"));
  EXPECT_EQ((*found)[1].name, "sync@64");
  EXPECT_EQ((*found)[2].file_name(), "sma-8-64");
  EXPECT_THAT((*found)[2].words,
              ElementsAre("--strategy", "sma", "--groups", "8", "--batch", "64"));
  EXPECT_FALSE(parse_strategies("sync@0"));
  EXPECT_FALSE(parse_strategies("sync@"));
}

TEST(Strategies, AreRefusedWithAHint) {
  for (const auto& [list, text] :
       {std::pair("snyc", "'snyc' is no strategy (did you mean sync?)"),
        std::pair("", "'' is no strategy (one of: adaptive"),
        std::pair("sync,", "'' is no strategy"),
        std::pair("sync:2", "'sync:2' has no groups to count (sync)"),
        std::pair("async", "'async' lacks its number of groups (async:4)"),
        std::pair("async:0", "'async:0' does not name 1 to 64 groups (async:4)"),
        std::pair("async:4x", "'async:4x' does not name 1 to 64 groups"),
        std::pair("async:4,sync,async:04", "'async:4' is there twice")}) {
    const auto found = parse_strategies(list);
    ASSERT_FALSE(found) << list;
    EXPECT_EQ(found.error().kind, ErrorKind::usage);
    EXPECT_THAT(found.error().message(), HasSubstr(text));
  }
}

}  // namespace
}  // namespace omni
