// These tests check how omni-run slurm parses sbatch's options, by the grammar in sbatch's manual
// page.
#include "apps/omni-run/slurm/sbatch_options.hpp"

#include <gtest/gtest.h>

namespace omni {
namespace {

TEST(SbatchTime, IsRoundedUpToMinutes) {
  const std::pair<const char*, std::int64_t> times[] = {
      {"90", 5400},      {"0:30", 60},     {"1:30", 120},     {"2:00:00", 7200},
      {"1:00:01", 3660}, {"1-12", 129600}, {"1-0:30", 88200}, {"2-1:01:00", 176460},
      {"0", 0},          {"UNLIMITED", 0}, {"infinite", 0},   {"100:00:00", 360000},
      {"0-0:0:5", 60}};
  for (const auto& [text, seconds] : times) EXPECT_EQ(seconds_of_limit(text), seconds) << text;
  for (const char* text : {"", "2hours", "1h", "-5", "1:2:3:4", "1-", "-1:00", "1-2-3", "1:", ":30",
                           "1.5", "1-1:1:1:1", "+5", "1 0", "99999999999", "never"})
    EXPECT_EQ(seconds_of_limit(text), std::nullopt) << text;
}

TEST(SbatchNodes, AreANumberOrARange) {
  const auto is = [](const char* text, int least, int most) {
    const auto range = node_range(text);
    ASSERT_TRUE(range) << text;
    EXPECT_EQ(range->least, least) << text;
    EXPECT_EQ(range->most, most) << text;
  };
  is("1", 1, 1);
  is("2-4", 2, 4);
  is("3-3", 3, 3);
  is("1k", 1024, 1024);
  for (const char* text :
       {"", "0", "abc", "4-2", "2-", "-2", "0-2", "1.5", "2,3", "4x", "k", "99999999999", "1-2-3"})
    EXPECT_FALSE(node_range(text)) << text;
}

TEST(SbatchArray, HasALastTask) {
  for (const auto& [text, last] :
       {std::pair("0-7", 7u), {"5", 5u}, {"9,1-3", 9u}, {"0-15:4%2", 15u}})
    EXPECT_EQ(last_task(text), last) << text;
}

TEST(SbatchComponents, AreTakenOutOfTheCommandLine) {
  const SbatchOptions known{{"--nodes", ""}, {"--mem", ""}};
  using Words = std::vector<std::string>;
  Words words{"slurm", "--nodes", "1", ":",     "--nodes=4", "--mem", "2G",
              "--net", "lenet",   ":", "--mem", "1G",        "--",    ":"};
  const auto components = take_components(words, known);
  ASSERT_TRUE(components);
  EXPECT_EQ(*components,
            (std::vector<SbatchOptions>{{{"--nodes", "4"}, {"--mem", "2G"}}, {{"--mem", "1G"}}}));
  EXPECT_EQ(words, (Words{"slurm", "--nodes", "1", "--net", "lenet", "--", ":"}));
  for (Words wrong : {Words{":"}, Words{":", "--net", "lenet"}, Words{":", "--nodes"}})
    EXPECT_FALSE(take_components(wrong, known));
}

TEST(SbatchArray, CountsItsTasks) {
  const std::pair<const char*, std::uint64_t> arrays[] = {
      {"0-7", 8},    {"1-8", 8},     {"5", 1},      {"1,3,5-7", 5},
      {"0-15:4", 4}, {"0-15%4", 16}, {"0-6:4%1", 2}};
  for (const auto& [text, tasks] : arrays) EXPECT_EQ(tasks_of_array(text), tasks) << text;
  for (const char* text : {"", "8-1", "a", "1-", "-1", "1-8:0", "1,,2", "1-8%", "1-8%x", "3:2",
                           "1-2-3", "1-99999999", "1-8:2:2", "%4"})
    EXPECT_EQ(tasks_of_array(text), std::nullopt) << text;
}

TEST(SbatchGpus, AreCountedAndDivided) {
  EXPECT_EQ(numbers_of_gpus("4"), std::vector<int>({4}));
  EXPECT_EQ(numbers_of_gpus("h100:2,a100:1"), std::vector<int>({2, 1}));
  for (const char* text :
       {"", "0", "0,", "all", "none", "h100", ":2", "h100:", "h100:0", "-1", "2x"})
    EXPECT_EQ(numbers_of_gpus(text), std::nullopt) << text;
  EXPECT_EQ(gpus_divided("4", 2), "2");
  EXPECT_EQ(gpus_divided("h100:4,a100:2", 2), "h100:2,a100:1");
  EXPECT_EQ(gpus_divided("3", 2), std::nullopt);
  EXPECT_EQ(gpus_of_gres("gpu"), 1);
  EXPECT_EQ(gpus_of_gres("gpu:2"), 2);
  EXPECT_EQ(gpus_of_gres("shard:3,gpu:h100:2"), 2);
  EXPECT_EQ(gpus_of_gres("gpu:h100"), 1);
  EXPECT_EQ(gpus_of_gres("shard:3"), 0);
}

TEST(SbatchGrammar, TakesWhatSlurmTakes) {
  const SbatchOptions good[] = {{{"--mem", "0"}},
                                {{"--mem", "16G"}},
                                {{"--mem", "4000"}},
                                {{"--mem", "2T"}},
                                {{"--gres", "none"}},
                                {{"--gres", "gpu:h100:2,shard:1"}},
                                {{"--gres", "lustre:disk:100G"}},
                                {{"--partition", "short,long"}},
                                {{"--constraint", "[rack1|rack2]&(intel*2)"}},
                                {{"--job-name", "lenet-größer"}},
                                {{"--cpus-per-task", "8"}}};
  for (const SbatchOptions& each : good) EXPECT_TRUE(check_grammar(each)) << each.begin()->second;
  const SbatchOptions bad[] = {
      {{"--mem", "much"}},        {{"--mem", "1.5G"}},           {{"--mem", "G"}},
      {{"--gres", "gpu:h100:x"}}, {{"--gres", "gpu:,"}},         {{"--gres", "gpu:a:1:2"}},
      {{"--cpus-per-task", "0"}}, {{"--cpus-per-task", "many"}}, {{"--account", "a'b"}},
      {{"--qos", "a\x01"}},       {{"--job-name", "a#b"}},       {{"--partition", "a\\b"}},
      {{"--job-name", "\xff"}}};
  for (const SbatchOptions& each : bad) {
    const Status refused = check_grammar(each);
    ASSERT_FALSE(refused) << each.begin()->second;
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
    EXPECT_TRUE(refused.error().where.starts_with(each.begin()->first)) << refused.error().where;
  }
}

}  // namespace
}  // namespace omni
