// These tests check waves of a sweep with tpe:COUNT: which members begin, from which results, and
// after a resume.
#include "apps/omni-run/ensemble/sweep/waves.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "apps/omni-run/training_arguments.hpp"
#include "runtime/number_in.hpp"

namespace omni {
namespace {

using Words = std::vector<std::string>;

class Waves : public testing::Test {
 protected:
  SweepSpec spec(const Words& words) {
    const auto read = parse_sweep(words, table_);
    EXPECT_TRUE(read) << read.error().message();
    return read ? *read : SweepSpec{};
  }
  static double rate_of(const std::string& name) {
    const std::size_t at = name.find("rate=") + 5;
    return *number_in<double>(name.substr(at, name.find_first_of(", ", at) - at));
  }
  // Returns the members of all waves. A member's loss grows with the distance of its rate from
  // 10^`best`, in powers of ten.
  static std::vector<EnsembleMember> all_of(const SweepSpec& sweep, std::uint64_t seed,
                                            double best = -3) {
    std::vector<EnsembleMember> begun;
    for (;;) {
      const auto wave = next_wave(sweep, "net", begun, seed);
      EXPECT_TRUE(wave) << wave.error().message();
      if (!wave) return begun;
      EXPECT_EQ(wave->first, begun.size());
      for (const SweepMember& each : wave->members) {
        std::string name = "net," + each.name;
        std::ranges::replace(name, ' ', ',');
        begun.push_back({.name = name,
                         .net = "net",
                         .state = MemberState::finished,
                         .iteration = 100,
                         .loss = std::abs(std::log10(rate_of(name)) - best)});
      }
      if (wave->is_last) return begun;
    }
  }
  static Words names(const std::vector<EnsembleMember>& members) {
    Words all;
    for (const EnsembleMember& each : members) all.push_back(each.name);
    return all;
  }

  TrainArguments arguments_;
  OptionTable table_ = table_of(arguments_);
  const Words words_{"learning_rate=log:1e-6..1", "momentum=0,0.5,0.9", "tpe:24:4"};
};

TEST_F(Waves, LaterOnesFollowTheResults) {
  const SweepSpec sweep = spec(words_);
  EXPECT_EQ(sweep.first_wave, 10u);
  EXPECT_EQ(sweep.wave, 4u);
  const auto all = all_of(sweep, 1);
  ASSERT_EQ(all.size(), 24u);
  EXPECT_EQ(
      std::set(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; })
          .size(),
      24u);
  EXPECT_EQ(names(all_of(sweep, 1)), names(all)) << "the same results, the same settings";
  EXPECT_NE(names(all_of(sweep, 2)), names(all));
  // The first wave is that of random:24, whatever the results are; the others are not.
  const auto chance = sweep_members(spec({words_[0], words_[1], "random:24"}), 1);
  const auto elsewhere = all_of(sweep, 1, -1);
  double near = 0, far = 0;
  for (std::size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(rate_of(all[i].name) == rate_of((*chance)[i].name), i < 10) << i;
    EXPECT_EQ(all[i].name == elsewhere[i].name, i < 10) << i;
    if (i >= 10) near += *all[i].loss / 14;
    if (i >= 10) far += std::abs(std::log10(rate_of((*chance)[i].name)) + 3) / 14;
  }
  EXPECT_LT(near, 0.6 * far) << "later settings are where the loss is small";
  EXPECT_EQ(spec({"momentum=lin:0..0.9", "tpe:8"}).first_wave, 4u);
  EXPECT_EQ(spec({"momentum=lin:0..0.9", "tpe:80"}).wave, 10u);
}

TEST_F(Waves, AResumeGoesOnWithWhatHasBegun) {
  const SweepSpec sweep = spec(words_);
  auto begun = all_of(sweep, 1);
  begun.resize(14);
  const auto drawn = next_wave(sweep, "net", begun, 1);
  for (const MemberState state :
       {MemberState::running, MemberState::stopped, MemberState::failed}) {
    begun[12].state = state;
    const auto wave = next_wave(sweep, "net", begun, 7);  // another seed would draw others
    ASSERT_TRUE(wave) << wave.error().message();
    EXPECT_EQ(wave->first, 10u);
    ASSERT_EQ(wave->members.size(), 4u);
    EXPECT_FALSE(wave->is_last);
    std::string name = wave->members[2].name;
    std::ranges::replace(name, ' ', ',');
    EXPECT_EQ("net," + name, begun[12].name);
  }
  for (const MemberState state : {MemberState::dropped, MemberState::diverged}) {
    begun[12].state = state;
    EXPECT_EQ(next_wave(sweep, "net", begun, 1)->first, 14u);
  }
  begun[12].state = MemberState::finished;
  EXPECT_EQ(next_wave(sweep, "net", begun, 1)->members.front().name, drawn->members.front().name);
  const auto all = all_of(sweep, 1);
  const auto last = next_wave(sweep, "net", all, 1);
  EXPECT_EQ(last->first, 22u) << "nothing is left: the last wave";
  EXPECT_TRUE(last->is_last);
}

TEST_F(Waves, OfAnotherSweepAreRefused) {
  const auto begun = all_of(spec(words_), 1);
  const auto refusal = [&](const Words& words, std::vector<EnsembleMember> members) {
    const auto wave = next_wave(spec(words), "net", members, 1);
    EXPECT_EQ(wave ? ErrorKind::failed : wave.error().kind, ErrorKind::usage);
    return wave ? "" : wave.error().message();
  };
  const std::string other = "is of another sweep (resume with the words of before, or name another";
  EXPECT_THAT(refusal({"learning_rate=log:1e-6..1", "tpe:24:4"}, begun), testing::HasSubstr(other));
  EXPECT_THAT(refusal({"learning_rate=log:1e-6..1e-5", words_[1], "tpe:24:4"}, begun),
              testing::HasSubstr(other));
  EXPECT_THAT(refusal({words_[0], "momentum=0.1,0.2", "tpe:24:4"}, begun),
              testing::HasSubstr(other));
  EXPECT_THAT(refusal({words_[0], words_[1], "tpe:24:5"}, {begun.begin(), begun.begin() + 14}),
              testing::HasSubstr("the 14 members in the run folder have begun in other waves"));
}

// In the name of a member spaces are commas.
TEST_F(Waves, ValuesMayHaveSpaces) {
  const SweepSpec sweep = spec({"data=my photos,photos", "learning_rate=0.1,0.001", "tpe:4:2"});
  const auto all = all_of(sweep, 1);
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(
      std::ranges::count_if(all,
                            [](const EnsembleMember& each) {
                              return each.name.starts_with("net,data=my,photos,learning_rate=");
                            }),
      2);
}

// The sweep wants 12 members, and there are 12 settings.
TEST_F(Waves, FewSettingsAreAllDrawn) {
  const auto all = all_of(spec({"learning_rate=0.1,0.001,1e-5", "seed=1..4", "tpe:12:2"}), 1);
  EXPECT_EQ(all.size(), 12u);
  const auto more = next_wave(spec({"learning_rate=0.1,0.001", "tpe:3"}), "net", {}, 1);
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().message(),
              testing::HasSubstr("there are no 3 different settings (draw fewer)"));
}

TEST_F(Waves, HaveTheirSizes) {
  for (const auto& [word, least] :
       {std::pair("tpe:20", 2u), std::pair("tpe:24:5", 4u), std::pair("tpe:22:6", 6u),
        std::pair("tpe:1", 1u), std::pair("tpe:5:5", 2u), std::pair("tpe:7:2", 1u)}) {
    const SweepSpec sweep = spec({words_[0], word});
    const auto all = all_of(sweep, 1);
    std::size_t smallest = SIZE_MAX;
    for (std::size_t first = 0; first < all.size();) {
      const auto wave = next_wave(sweep, "net", {all.begin(), all.begin() + first}, 1);
      ASSERT_EQ(wave->first, first);
      smallest = std::min(smallest, wave->members.size());
      first += wave->members.size();
    }
    EXPECT_EQ(smallest, least) << word;
  }
}

TEST_F(Waves, WrongCountsAreRefused) {
  for (const auto& [word, text] :
       {std::pair("tpe:0", "tpe:0' does not name 1 to 1000 members (tpe:20)"),
        std::pair("tpe:x", "tpe:x' does not name 1 to 1000 members"),
        std::pair("tpe:5:6", "tpe:5:6' does not name waves of 1 to 5 members (tpe:20:4)"),
        std::pair("tpe:5:", "does not name waves"),
        std::pair("tpe:5:2:1", "does not name waves")}) {
    const auto read = parse_sweep({"learning_rate=0.1,0.2", word}, table_);
    ASSERT_FALSE(read) << word;
    EXPECT_EQ(read.error().kind, ErrorKind::usage);
    EXPECT_THAT(read.error().message(), testing::HasSubstr(text));
  }
  const auto two = parse_sweep({"learning_rate=0.1,0.2", "tpe:5", "random:5"}, table_);
  EXPECT_THAT(two.error().message(), testing::HasSubstr("is a second way to search"));
}

}  // namespace
}  // namespace omni
