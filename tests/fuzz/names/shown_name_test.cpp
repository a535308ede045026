// These tests check which characters of a name are not shown on a terminal. Letters of all
// languages are shown.
#include "runtime/shown_name.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/json_text.hpp"
#include "runtime/log.hpp"

namespace omni {
namespace {

TEST(Printable, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(printable("\x1b[2Ja\rb\x7f"), "\\x1b[2Ja\\x0db\\x7f");
  EXPECT_EQ(printable("c\xc2\x9b\x33m\xc2\x80"), "c\\xc2\\x9b3m\\xc2\\x80") << "C1 in UTF-8";
  EXPECT_EQ(printable("c\x9b\x33m\x80"), "c\\x9b3m\\x80") << "C1 in Latin 1";
  EXPECT_EQ(printable("\xe2\x80\xaegpj.exe"), "\\xe2\\x80\\xaegpj.exe") << "from right to left";
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, KeepsLetters) {
  const std::string text = "B\xc3\xa4ume \xe6\x9c\xa8 \xf0\x9f\x8c\xb3 \\ ' \"";
  EXPECT_EQ(printable(text + "\n\t"), text + "\n\t");
  EXPECT_EQ(one_line(text + "\n\t"), text + "\\x0a\\x09");
}

TEST(Printable, TakesNoHalfLetters) {
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xe6\x9c"), "\\xe6\\x9c");
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b") << "a longer form of a control character";
  EXPECT_EQ(printable("\xed\xa0\x80\xf5\x80"), "\\xed\\xa0\\x80\\xf5\\x80");
}

TEST(Printable, JsonStaysJson) {
  const std::string name = "\x1b[2J \xc2\x9b \x7f \xc3\xb6\n";
  const nlohmann::json object{{"name", name}};
  const std::string text = json_text(object, 2);
  EXPECT_NE(text.find(R"("\u001b[2J \u009b \u007f )"
                      "\xc3\xb6"
                      R"(\n")"),
            text.npos)
      << text;
  EXPECT_EQ(nlohmann::json::parse(text), object);
  EXPECT_EQ(json_text(nlohmann::json("\x9b")), "\"\xef\xbf\xbd\"") << "no UTF-8, no exception";
}

TEST(ShownName, IsQuotedAndShort) {
  EXPECT_EQ(shown_name("it's\n\\"), "'it\\x27s\\x0a\\x5c'");
  EXPECT_EQ(shown_name(std::string(99, 'x') + "\xc3\xa4"), "'" + std::string(99, 'x') + "'...")
      << "not half a letter";
}

TEST(Log, EscapesAndKeepsToOneLine) {
  const log::Capture said;
  log::info("{}: {}", "a\nb", "\x1b]0;title\x07");
  log::warn("{}", "\xc2\x9b");
  EXPECT_EQ(said.text(), "a\\x0ab: \\x1b]0;title\\x07\nwarning: \\xc2\\x9b\n");
}

}  // namespace
}  // namespace omni
