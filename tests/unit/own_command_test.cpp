// These tests check that a printed command line can be pasted into a shell.
#include "runtime/own_command.hpp"

#include <gtest/gtest.h>

#include "runtime/shown_name.hpp"
#include "tests/support/run_program.hpp"

namespace omni {
namespace {

TEST(OwnCommand, IsWhatWasTyped) {
  const auto words = own_words();
  ASSERT_FALSE(words.empty());
  EXPECT_TRUE(words.front().ends_with("unit_tests")) << words.front();
}

TEST(OwnCommand, IsRepeatedWithoutSomeOptions) {
  const std::vector<std::string> words{"--out", "--resume", "a", "--resume=b", "--outer", "c"};
  EXPECT_EQ(for_shell(words_without({"--out", "--resume"}, words)), "a --outer c");
  EXPECT_EQ(for_shell(words_without({"--out"}, {"x", "--out"})), "x");
}

TEST(ForShell, QuotesWhatAShellWouldRead) {
  EXPECT_EQ(for_shell({}), "");
  EXPECT_EQ(for_shell({"omni-run", "--set=momentum=0.9", "./a/b_c.cfg", "50%"}),
            "omni-run --set=momentum=0.9 ./a/b_c.cfg 50%");
  EXPECT_EQ(for_shell({"two words", "", "it's", "$HOME", "a*", "~"}),
            R"('two words' '' 'it'\''s' '$HOME' 'a*' '~')");
}

// Control characters are printed as escape sequences that bash reads, so that the terminal does not
// obey them.
TEST(ForShell, WritesControlCharactersSoThatBashReadsThem) {
  EXPECT_EQ(for_shell({"a\nb"}), R"($'a\x0ab')");
  for (const std::string word :
       {"line\nend", "\x1b[31mred", "tab\there", "it's\x01'fed'", "\\x41\x02", "$(id)\x7f`id`",
        "bytes \xff\xfe", "turned \xe2\x80\xae", "\xc3\xa4\x01\x09", "plain $(id) \\ '"}) {
    const std::string quoted = for_shell({word});
    EXPECT_EQ(printable(quoted), quoted);
    EXPECT_EQ(test::run_program({"/bin/bash", "-c", "printf %s " + quoted}).output, word);
    const std::vector<std::string> words{word, "it's a word", word};
    EXPECT_EQ(from_shell(for_shell(words)), words);
  }
}

}  // namespace
}  // namespace omni
