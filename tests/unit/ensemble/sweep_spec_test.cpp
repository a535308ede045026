// These tests check which members the words of --sweep make, and which words are refused with which
// text.
#include "apps/omni-run/ensemble/sweep/sweep_spec.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "apps/omni-run/training_arguments.hpp"
#include "runtime/number_in.hpp"

namespace omni {
namespace {

using Words = std::vector<std::string>;

class Sweep : public testing::Test {
 protected:
  Result<std::vector<SweepMember>> read(const Words& words, std::uint64_t seed = 1) {
    OMNI_TRY(const SweepSpec sweep, parse_sweep(words, table_));
    return sweep_members(sweep, seed);
  }

  std::vector<SweepMember> members(const Words& words, std::uint64_t seed = 1) {
    const auto read_members = read(words, seed);
    EXPECT_TRUE(read_members) << read_members.error().message();
    return read_members ? *read_members : std::vector<SweepMember>{};
  }

  Words names(const Words& words, std::uint64_t seed = 1) {
    Words names;
    for (const SweepMember& member : members(words, seed)) names.push_back(member.name);
    return names;
  }

  std::string refusal(const Words& words) {
    const auto read_members = read(words);
    EXPECT_EQ(read_members ? ErrorKind::usage : read_members.error().kind, ErrorKind::usage);
    return read_members ? "" : read_members.error().message();
  }

 private:
  TrainArguments arguments_;
  OptionTable table_ = table_of(arguments_);
};

TEST_F(Sweep, a_grid_has_every_combination) {
  EXPECT_EQ(names({"momentum=0.5,0.9", "batch=32,64", "grid"}),
            (Words{"momentum=0.5 batch=32", "momentum=0.5 batch=64", "momentum=0.9 batch=32",
                   "momentum=0.9 batch=64"}));
}

TEST_F(Sweep, options_are_given_by_name_and_other_keys_of_net_by_set) {
  const auto all = members({"learning_rate=0.01", "gamma=-0.5", "strategy=sync"});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].words,
            (Words{"--learning-rate=0.01", "--set", "gamma=-0.5", "--strategy=sync"}));
  EXPECT_EQ(members({"B1=0.5"})[0].words, (Words{"--set", "B1=0.5"}));
}

TEST_F(Sweep, numbers_are_written_in_one_way) {
  EXPECT_EQ(names({"learning_rate=log:1e-4..1e-1:4"}),
            (Words{"learning_rate=0.0001", "learning_rate=0.001", "learning_rate=0.01",
                   "learning_rate=0.1"}));
  EXPECT_EQ(names({"learning_rate=lin:0.01..0.1:4"}),
            (Words{"learning_rate=0.01", "learning_rate=0.04", "learning_rate=0.07",
                   "learning_rate=0.1"}));
  EXPECT_EQ(names({"learning_rate=1e-3,.01,1E-6", "seed=18446744073709551615"}),
            (Words{"learning_rate=0.001 seed=18446744073709551615",
                   "learning_rate=0.01 seed=18446744073709551615",
                   "learning_rate=1e-06 seed=18446744073709551615"}));
  EXPECT_EQ(names({"hue=lin:-1.0..1.0:3"}), (Words{"hue=-1", "hue=0", "hue=1"}));
}

TEST_F(Sweep, ends_that_are_whole_make_whole_values) {
  EXPECT_EQ(names({"seed=1..4"}), (Words{"seed=1", "seed=2", "seed=3", "seed=4"}));
  EXPECT_EQ(names({"batch=log:16..128:4"}),
            (Words{"batch=16", "batch=32", "batch=64", "batch=128"}));
  EXPECT_EQ(names({"power=lin:1..4:3"}), (Words{"power=1", "power=3", "power=4"}));
  EXPECT_EQ(names({"power=lin:1.0..4.0:3"}), (Words{"power=1", "power=2.5", "power=4"}));
}

TEST_F(Sweep, a_value_with_dots_that_is_no_range_is_a_word) {
  EXPECT_EQ(names({"weights=../a.weights,../b.weights"}),
            (Words{"weights=../a.weights", "weights=../b.weights"}));
}

TEST_F(Sweep, draws_lie_in_the_ranges_and_follow_from_the_seed) {
  const Words words{"random:40", "learning_rate=log:1e-4..1e-1", "momentum=lin:0.5..0.99:2",
                    "batch=log:16..256", "seed=1..3"};
  std::set<std::string> batches, seeds;
  int below = 0;
  for (const SweepMember& member : members(words, 7)) {
    const auto value = [&](std::size_t k, const std::string& option) {
      EXPECT_EQ(member.words[k].substr(0, option.size()), option);
      return member.words[k].substr(option.size());
    };
    const double rate = *number_in<double>(value(0, "--learning-rate="));
    EXPECT_GE(rate, 1e-4);
    EXPECT_LE(rate, 1e-1);
    below += rate < std::sqrt(1e-4 * 1e-1);
    const double momentum = *number_in<double>(value(1, "--momentum="));
    EXPECT_GE(momentum, 0.5);
    EXPECT_LE(momentum, 0.99);
    EXPECT_NE(momentum, 0.5) << "drawn from the grid";
    batches.insert(value(2, "--batch="));
    EXPECT_TRUE(number_in<int>(*batches.begin()));
    seeds.insert(value(3, "--seed="));
  }
  EXPECT_GT(below, 10);
  EXPECT_LT(below, 30);
  EXPECT_GT(batches.size(), 20u);
  EXPECT_EQ(seeds, (std::set<std::string>{"1", "2", "3"}));
  EXPECT_EQ(names(words, 7), names(words, 7));
  EXPECT_NE(names(words, 7), names(words, 8));
}

TEST_F(Sweep, drawn_members_differ_and_more_draws_begin_with_the_same) {
  const Words space{"momentum=0.5,0.9", "seed=1..4"};
  const auto drawn = [&](const std::string& search) {
    Words words = space;
    words.push_back(search);
    return names(words, 3);
  };
  const Words all = drawn("random:8"), some = drawn("random:5");
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 8u);
  EXPECT_EQ(Words(all.begin(), all.begin() + 5), some);
  EXPECT_EQ(refusal({"momentum=0.5,0.9", "random:3"}),
            "--sweep: there are no 3 different settings (draw fewer, or leave random out)");
}

TEST_F(Sweep, there_are_at_most_1000_members) {
  EXPECT_EQ(members({"seed=1..1000"}).size(), 1000u);
  EXPECT_EQ(members({"seed=0..18446744073709", "random:2"}).size(), 2u);
  EXPECT_EQ(refusal({"seed=1..1001"}),
            "--sweep seed: the range has more than 1000 values (add one, as in lin:0.1..0.9:5, or "
            "draw members by random:COUNT)");
  EXPECT_EQ(refusal({"seed=1..501", "batch=1,2"}),
            "--sweep: makes more than 1000 members (name fewer values, or draw some members by "
            "random:COUNT)");
  EXPECT_EQ(refusal({"random:1001", "seed=1..2000"}),
            "--sweep: 'random:1001' does not name 1 to 1000 members (random:20)");
}

TEST_F(Sweep, words_that_are_no_values_of_a_key_are_refused) {
  const auto no_word = [](const std::string& word) {
    return "--sweep: '" + word +
           "' is neither KEY=VALUES, random:COUNT nor tpe:COUNT (learning_rate=0.01,0.1, say)";
  };
  for (const std::string word : {"", "momentum", "=0.5", "randomly"})
    EXPECT_EQ(refusal({word}), no_word(word));
  EXPECT_EQ(refusal({}), "--sweep: names no values (learning_rate=log:1e-4..1e-1:8, say)");
  EXPECT_EQ(refusal({"grid"}), refusal({}));
  EXPECT_EQ(refusal({"random:0"}),
            "--sweep: 'random:0' does not name 1 to 1000 members (random:20)");
  EXPECT_EQ(refusal({"random:2", "grid"}),
            "--sweep: 'grid' is a second way to search (leave one out)");
  EXPECT_EQ(refusal({"lerning_rate=1"}),
            "--sweep: 'lerning_rate' is neither an option of a member nor a key of [net] (did you "
            "mean 'learning_rate'?)");
  EXPECT_EQ(refusal({"learning-rate=1"}),
            "--sweep: 'learning-rate' is neither an option of a member nor a key of [net] (did you "
            "mean 'learning_rate'?)");
  EXPECT_EQ(refusal({"zzzzzzzz=1"}),
            "--sweep: 'zzzzzzzz' is neither an option of a member nor a key of [net] "
            "(learning_rate=0.01,0.1, say)");
  EXPECT_EQ(refusal({"momentum=0.5", "momentum=0.9"}),
            "--sweep momentum: is there twice (name all its values in one word)");
  EXPECT_EQ(refusal({"deterministic=1"}),
            "--sweep deterministic: is an option without a value (give it to all members)");
}

TEST_F(Sweep, values_that_cannot_be_are_refused) {
  EXPECT_EQ(refusal({"momentum="}), "--sweep momentum: a value is empty (momentum=A,B)");
  EXPECT_EQ(refusal({"momentum=0.5,,0.9"}), refusal({"momentum="}));
  EXPECT_EQ(refusal({"momentum=0.5,.5"}),
            "--sweep momentum: '0.5' is there twice (name each value once)");
  EXPECT_EQ(refusal({"async=free,fast"}),
            "--sweep async: 'fast' is none of: free reproducible (choose other values)");
  EXPECT_EQ(refusal({"seed=1,-2"}),
            "--sweep seed: '-2' is not a whole number from 0 to 18446744073709551615 (choose other "
            "values)");
  EXPECT_EQ(refusal({"epochs=1,nan"}).substr(0, 16), "--sweep epochs: ");
  EXPECT_EQ(refusal({"batch=32,many"}).substr(0, 15), "--sweep batch: ");
  EXPECT_EQ(refusal({"batch=lin:0.5..1.5", "random:2"}).substr(0, 15), "--sweep batch: ");
}

TEST_F(Sweep, ranges_that_cannot_be_are_refused) {
  const auto refused = [&](const std::string& values) {
    const std::string text = refusal({"gamma=" + values});
    EXPECT_TRUE(text.starts_with("--sweep gamma: ")) << text;
    return text.substr(std::min<std::size_t>(text.size(), 15));
  };
  EXPECT_EQ(refused("0.1..0.5"),
            "'0.1..0.5' lacks the spacing of its values (log:0.1..0.5:8 or lin:0.1..0.5:8)");
  EXPECT_EQ(refused("log:0..1:8"), "0 has no logarithm (begin above 0, or use lin:)");
  EXPECT_EQ(refused("lin:2..1:8"), "2 is not below 1 (the lower end first)");
  EXPECT_EQ(refused("1..1"), "1 is not below 1 (the lower end first)");
  EXPECT_EQ(refused("lin:"), "'' has no two ends (lin:0.1..0.9:5)");
  EXPECT_EQ(refused("log:1:8"), "'1:8' has no two ends (log:1e-4..1e-1:8)");
  EXPECT_EQ(refused("lin:8:1..2"), "'8:1..2' has no two ends (lin:0.1..0.9:5)");
  EXPECT_EQ(refused("lin:1..:3"), "'' is no number (lin:0.1..0.9:5)");
  EXPECT_EQ(refused("lin:1..2x:3"), "'2x' is no number (lin:0.1..0.9:5)");
  EXPECT_EQ(refused("lin:1..inf:3"), "'inf' is no number (lin:0.1..0.9:5)");
  EXPECT_EQ(refused("lin:-1e308..1e308:3"), "the range is too wide (lin:0.1..0.9:5)");
  EXPECT_EQ(refused("log:1e-308..1e308:3"), "the range is too wide (log:1e-4..1e-1:8)");
  for (const std::string count : {"", "1", "0", "-3", "1001", "3:4", "2.5"})
    EXPECT_EQ(refused("lin:1..9:" + count),
              "'" + count + "' is no number of values from 2 to 1000 (lin:0.1..0.9:5)");
  EXPECT_EQ(refused("log:1e-3..1"),
            "the range has no number of values (add one, as in lin:0.1..0.9:5, or draw members by "
            "random:COUNT)");
  EXPECT_EQ(refused("lin:1..4:8"),
            "'1' is there twice (ask for fewer values, or write an end as 1.0 to get fractions)");
}

}  // namespace
}  // namespace omni
