// A command line that is shown can be pasted.
#include "runtime/own_command.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace omni
