// These tests check "did you mean": a word with a typing error is suggested, other words are not.

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "runtime/nearest.hpp"

namespace omni {
namespace {

TEST(Nearest, FindsSlipsOnly) {
  constexpr std::array<std::string_view, 6> words{"filters", "size",  "stride",
                                                  "pad",     "decay", "learning_rate"};
  EXPECT_EQ(nearest("filter", words), "filters");
  EXPECT_EQ(nearest("flitres", words), "filters");
  EXPECT_EQ(nearest("Size", words), "size");
  EXPECT_EQ(nearest("SIEZ", words), "size");
  EXPECT_EQ(nearest("pads", words), "pad");
  EXPECT_EQ(nearest("learningrate", words), "learning_rate");
  EXPECT_EQ(nearest("momentum", words), "");
  EXPECT_EQ(nearest("x", words), "");
  EXPECT_EQ(nearest("", words), "");
  EXPECT_EQ(nearest(std::string(10'000, 's'), words), "");
  EXPECT_EQ(nearest("size", {}), "");
}

}  // namespace
}  // namespace omni
