// These tests read options of a cfg section: accepted values, the exact messages of refusals, and
// "did you mean".
#include "layers/formats/darknet/sections.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "runtime/log.hpp"

namespace omni {
namespace {

constexpr std::array kKeys{
    Key{"filters", "1", ""},
    Key{"size", "1", ""},
    Key{"batch_normalize", "0", ""},
    Key{"probability", ".5", ""},
    Key{"steps", "", ""},
    Key{"scales", "", ""},
    Key{"policy", "constant", ""},
    Key{"xnor", "0", "", Effect::none},
};
constexpr std::array<std::string_view, 3> kPolicies{"constant", "step", "steps"};

Section section(std::vector<Option> options) {
  return {"convolutional", "a.cfg", 10, std::move(options)};
}

// Returns the message that refuses `key=value` in line 11, or "".
template <class Read>
std::string refusal(std::string key, std::string value, Read read) {
  Section written = section({{std::move(key), std::move(value), 11}});
  OptionReader options(written, kKeys);
  read(options);
  Status status = options.status();
  EXPECT_EQ(status ? "" : "a.cfg:11", status ? "" : status.error().where);
  EXPECT_EQ(status ? ErrorKind::usage : status.error().kind, ErrorKind::usage);
  return status ? "" : status.error().message();
}

std::string integer(std::string value, int low = std::numeric_limits<int>::min(),
                    int high = std::numeric_limits<int>::max()) {
  return refusal("filters", std::move(value),
                 [&](OptionReader& options) { options.integer("filters", 1, low, high); });
}

std::string real(std::string value, float low = std::numeric_limits<float>::lowest(),
                 float high = std::numeric_limits<float>::max()) {
  return refusal("probability", std::move(value),
                 [&](OptionReader& options) { options.real("probability", 1, low, high); });
}

TEST(Options, AbsentKeysGiveTheirDefaults) {
  Section written = section({});
  OptionReader options(written, kKeys);
  EXPECT_FALSE(options.has("filters"));
  EXPECT_EQ(options.integer("filters", 7, 1), 7);
  EXPECT_EQ(options.real("probability", .5f), .5f);
  EXPECT_TRUE(options.flag("batch_normalize", true));
  EXPECT_TRUE(options.integers("steps").empty());
  EXPECT_TRUE(options.reals("scales").empty());
  EXPECT_EQ(options.choice("policy", "step", kPolicies), 1);
  EXPECT_TRUE(options.status());
}

TEST(Options, PresentKeysGiveTheirValues) {
  Section written = section({{"filters", "-3", 11},
                             {"filters", "64", 12},
                             {"probability", "-.5e-1", 13},
                             {"batch_normalize", "1", 14},
                             {"steps", "-1,8,2147483647", 16},
                             {"scales", ".1,1e-50,3", 17},
                             {"policy", "steps", 18}});
  OptionReader options(written, kKeys);
  EXPECT_TRUE(options.has("filters"));
  EXPECT_EQ(options.integer("filters", 7, 1), 64);  // the last one counts
  EXPECT_FLOAT_EQ(options.real("probability", 1), -.05f);
  EXPECT_TRUE(options.flag("batch_normalize", false));
  EXPECT_EQ(options.integers("steps"), (std::vector<int>{-1, 8, 2147483647}));
  EXPECT_EQ(options.reals("scales"), (std::vector<float>{.1f, 0, 3}));
  EXPECT_EQ(options.choice("policy", "constant", kPolicies), 2);
  EXPECT_TRUE(options.status());
}

TEST(Options, IntegersAreWholeNumbersInRange) {
  EXPECT_EQ(integer("0", 0), "");
  EXPECT_EQ(integer("-2147483648"), "");
  EXPECT_EQ(integer("2147483647"), "");
  EXPECT_EQ(integer("3", 1, 3), "");
  EXPECT_EQ(integer("0", 1),
            "a.cfg:11: 'filters=0' is out of range (expected a whole number of at least 1)");
  EXPECT_EQ(integer("4", 1, 3),
            "a.cfg:11: 'filters=4' is out of range (expected a whole number from 1 to 3)");
  EXPECT_EQ(integer("4", std::numeric_limits<int>::min(), 3),
            "a.cfg:11: 'filters=4' is out of range (expected a whole number of at most 3)");
  EXPECT_EQ(integer("2147483648"),
            "a.cfg:11: 'filters=2147483648' is out of range (expected a whole number)");
  for (const char* junk : {"", "3x", "x3", "3.0", "1e3", "0x10", "+3", "--3", "-", "nan", "3,4",
                           "99999999999999999999", "%s%n", "3;4"})
    EXPECT_EQ(integer(junk), "a.cfg:11: 'filters=" + std::string(junk) +
                                 "' is not a whole number (expected a whole number)");
}

TEST(Options, RealsAreFiniteAndInRange) {
  for (const char* good : {"0", "-0", "1.", ".1", "1e3", "1E-3", "3.4e38", "1e-300"})
    EXPECT_EQ(real(good), "") << good;
  EXPECT_EQ(real("1", 0, 1), "");
  EXPECT_EQ(real("1.5", 0, 1),
            "a.cfg:11: 'probability=1.5' is out of range (expected a number from 0 to 1)");
  EXPECT_EQ(real("-1", 0),
            "a.cfg:11: 'probability=-1' is out of range (expected a number of at least 0)");
  EXPECT_EQ(real("1e39"), "a.cfg:11: 'probability=1e39' is out of range (expected a number)");
  EXPECT_EQ(real("-1e308"), "a.cfg:11: 'probability=-1e308' is out of range (expected a number)");
  for (const char* junk : {"", "nan", "-nan", "inf", "-inf", "infinity", "1e999", "1e", "e5", ".",
                           "1.2.3", "0x1p3", "+1", "1,5", "half", "nan(1)"})
    EXPECT_EQ(real(junk), "a.cfg:11: 'probability=" + std::string(junk) +
                              "' is not a finite number (expected a number)");
}

TEST(Options, FlagsAreZeroOrOne) {
  for (const char* junk : {"", "2", "-1", "yes", "true", "01"})
    EXPECT_EQ(refusal("batch_normalize", junk,
                      [](OptionReader& options) { options.flag("batch_normalize", false); }),
              "a.cfg:11: 'batch_normalize=" + std::string(junk) +
                  "' is neither on nor off (expected 0 or 1)");
}

TEST(Options, ListsHaveNoHolesAndNoJunk) {
  for (const char* junk : {"", ",", "1,", ",1", "1,,2", "1,x", "1;2", "1.5", "2147483648"})
    EXPECT_EQ(refusal("steps", junk, [](OptionReader& options) { options.integers("steps"); }),
              "a.cfg:11: 'steps=" + std::string(junk) +
                  "' is not a list of whole numbers (expected whole numbers separated by commas)");
  for (const char* junk : {"", "1,", "1,nan", "1,1e39", "1,-1e39", "1:2"})
    EXPECT_EQ(refusal("scales", junk, [](OptionReader& options) { options.reals("scales"); }),
              "a.cfg:11: 'scales=" + std::string(junk) +
                  "' is not a list of numbers (expected numbers separated by commas)");
}

TEST(Options, UnknownChoicesSuggest) {
  auto choose = [](OptionReader& options) { options.choice("policy", "constant", kPolicies); };
  EXPECT_EQ(refusal("policy", "stpes", choose),
            "a.cfg:11: unknown policy 'stpes' (did you mean 'steps'?)");
  EXPECT_EQ(refusal("policy", "STEP", choose),
            "a.cfg:11: unknown policy 'STEP' (did you mean 'step'?)");
  EXPECT_EQ(refusal("policy", "zigzag", choose),
            "a.cfg:11: unknown policy 'zigzag' (known: constant step steps)");
  EXPECT_EQ(refusal("policy", "", choose),
            "a.cfg:11: unknown policy '' (known: constant step steps)");
}

TEST(Options, TheFirstProblemIsKept) {
  Section written = section({{"filters", "x", 11}, {"size", "5", 12}});
  OptionReader options(written, kKeys);
  EXPECT_EQ(options.integer("filters", 4, 1), 4);
  EXPECT_TRUE(options.failed());
  EXPECT_EQ(options.integer("size", 9, 1), 9);
  options.refuse("size", "too late");
  EXPECT_EQ(options.status().error().where, "a.cfg:11");
}

TEST(Options, ARefusalOfTheCallersNamesTheKeysLineOrTheSections) {
  Section written = section({{"size", "5", 12}});
  OptionReader present(written, kKeys), absent(written, kKeys);
  present.refuse("size", "larger than the input", "at most 3");
  absent.refuse("filters", "missing");
  EXPECT_EQ(present.status().error().message(), "a.cfg:12: larger than the input (at most 3)");
  EXPECT_EQ(absent.status().error().message(), "a.cfg:10: missing");
}

TEST(Options, LongValuesAreShortenedInMessages) {
  EXPECT_EQ(integer(std::string(10'000, '7')),
            "a.cfg:11: 'filters=" + std::string(92, '7') +
                "'... is not a whole number (expected a whole number)");
}

TEST(CheckKeys, UnknownKeysWarnOrFailWhenStrict) {
  Section written = section({{"size", "3", 11}, {"filtres", "1", 12}, {"colour", "red", 13}});
  log::Capture said;
  EXPECT_TRUE(check_keys(written, kKeys, false));
  EXPECT_NE(said.text().find("a.cfg:12: unknown key 'filtres' (did you mean 'filters'?)"),
            std::string::npos);
  EXPECT_NE(said.text().find("a.cfg:13: unknown key 'colour' (`omni-run layers` lists the keys of "
                             "[convolutional])"),
            std::string::npos);
  Status status = check_keys(written, kKeys, true);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::usage);
  EXPECT_EQ(status.error().message(), "a.cfg:12: unknown key 'filtres' (did you mean 'filters'?)");
}

TEST(CheckKeys, IgnoredKeysWarnEvenWhenStrict) {
  Section written = section({{"xnor", "1", 11}});
  log::Capture said;
  EXPECT_TRUE(check_keys(written, kKeys, true));
  EXPECT_NE(said.text().find("a.cfg:11: 'xnor' has no effect"), std::string::npos) << said.text();
}

TEST(CheckKeys, KnownKeysAreSilent) {
  Section written = section({{"filters", "x", 11}});
  log::Capture said;
  EXPECT_TRUE(check_keys(written, kKeys, true));
  EXPECT_EQ(said.text(), "");
}

}  // namespace
}  // namespace omni
