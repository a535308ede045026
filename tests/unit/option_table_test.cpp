// These tests check the options of every command: --help shows each option, and missing or excluded
// options are refused with exit code 2.
#include <gmock/gmock.h>

#include <algorithm>

#include "apps/omni-run/command_arguments.hpp"
#include "runtime/log.hpp"

namespace omni {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

// An Answer holds what read_options() printed, and its exit code, or 0 if the command line was
// accepted.
struct Answer {
  int code = 0;
  std::string said;
};

template <class Arguments>
class OptionTableOf : public testing::Test {
 protected:
  const std::vector<OptionRow>& rows() const { return table_.rows(); }

  Answer read(const Words& words) {
    Arguments arguments;
    GivenOptions given;
    const log::Capture said;
    const int code = read_options(table_of(arguments), words, given).value_or(0);
    return {code, said.text()};
  }

  // Returns an option as words, such as "--groups" and "auto". If the text has no value, a value
  // that the option accepts is added.
  Words given(const std::string& text) const {
    const std::size_t blank = text.find(' ');
    const std::string name = text.substr(0, blank);
    if (blank != text.npos) return {name, text.substr(blank + 1)};
    const auto row = std::ranges::find(rows(), name, &OptionRow::name);
    if (row == rows().end()) {
      ADD_FAILURE() << "there is no row " << name;
      return {};
    }
    if (row->value.empty()) return {name};
    if (!row->rules.words.empty()) return {name, row->rules.words.front()};
    for (std::string value : {"1", "64", "0.5", "bf16", "word"})
      if (!row->rules.check || row->rules.check(value).empty()) return {name, value};
    ADD_FAILURE() << "no value for " << name;
    return {};
  }

  // Returns these options and all options that the command requires.
  Words with(const Words& texts) const {
    Words words;
    for (const OptionRow& row : rows())
      if (row.rules.required && std::ranges::find(texts, row.name) == texts.end() &&
          std::ranges::find(texts, row.rules.unless) == texts.end())
        for (const std::string& word : given(row.name)) words.push_back(word);
    for (const std::string& text : texts)
      for (const std::string& word : given(text)) words.push_back(word);
    return words;
  }

 private:
  Arguments arguments_;
  OptionTable table_ = table_of(arguments_);
};

using AllArguments =
    testing::Types<TrainArguments, ValidArguments, PredictArguments, TimeArguments, PlanArguments,
                   CompareArguments, DataCheckArguments, ShippedNetArguments, ExplainArguments,
                   DevicesArguments, MachineFileArguments, SlurmArguments, CommonArguments>;
TYPED_TEST_SUITE(OptionTableOf, AllArguments);

TYPED_TEST(OptionTableOf, every_row_is_in_the_help) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(this->read({"--help"}).code, 0);
  const std::string help = testing::internal::GetCapturedStdout();
  for (const OptionRow& row : this->rows()) {
    EXPECT_FALSE(row.group.empty() && row.name.starts_with('-')) << row.name << " is of no group";
    EXPECT_FALSE(row.help.empty()) << row.name;
    const std::string name = row.name.substr(row.name.rfind(',') + 1);  // the long one
    EXPECT_THAT(help, testing::ContainsRegex(name + "[ \n]"));
  }
}

TYPED_TEST(OptionTableOf, what_a_row_needs_is_missed) {
  for (const OptionRow& row : this->rows())
    for (const OtherOption& other : row.rules.needs) {
      const Answer without = this->read(this->with({row.name}));
      EXPECT_EQ(without.code, 2) << row.name << " without " << other.option;
      EXPECT_THAT(without.said, HasSubstr("error: " + row.name));
      EXPECT_THAT(without.said,
                  HasSubstr(other.why.empty() ? "requires " + other.option
                                              : fmt::format("{} ({})", other.why, other.todo)));
      const Answer both = this->read(this->with({row.name, other.option}));
      EXPECT_EQ(both.code, 0) << both.said;
    }
}

TYPED_TEST(OptionTableOf, what_a_row_requires_may_be_another_row) {
  for (const OptionRow& row : this->rows()) {
    if (row.rules.unless.empty()) continue;
    const Answer none = this->read({});
    EXPECT_EQ(none.code, 2) << row.name;
    EXPECT_THAT(none.said, HasSubstr(row.name + " or " + row.rules.unless + " is required"));
    EXPECT_EQ(this->read(this->given(row.rules.unless)).code, 0) << row.rules.unless;
  }
}

TYPED_TEST(OptionTableOf, what_a_row_excludes_is_refused) {
  for (const OptionRow& row : this->rows())
    for (const OtherOption& other : row.rules.excludes) {
      const Answer both = this->read(this->with({other.option, row.name}));
      EXPECT_EQ(both.code, 2) << row.name << " with " << other.option;
      EXPECT_THAT(both.said, HasSubstr("error: " + row.name));
      EXPECT_THAT(both.said,
                  HasSubstr(other.why.empty() ? "excludes " + other.option
                                              : fmt::format("{} ({})", other.why, other.todo)));
      for (const std::string& alone : {row.name, other.option}) {
        const Answer one = this->read(this->with({alone}));
        EXPECT_EQ(one.code, 0) << alone << one.said;
      }
    }
}

TEST(OptionTable, a_need_may_be_of_one_value) {
  const std::vector<std::pair<Words, int>> cases{
      {{"--arrivals", "virtual"}, 0}, {{"--arrivals", "real"}, 2}, {{}, 2}};
  for (auto [words, code] : cases) {
    TrainArguments train;
    GivenOptions given;
    words.insert(words.begin(), {"--machine", "8-gpus"});
    const log::Capture said;
    EXPECT_EQ(read_options(table_of(train), words, given).value_or(0), code);
    EXPECT_EQ(train.arrivals.simulated, code == 0);
  }
}

}  // namespace
}  // namespace omni
