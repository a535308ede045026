// These tests check that a run ends if too many images are damaged. Damaged test images end it
// before the training.
#include <gtest/gtest.h>

#include "tests/support/images/image_folder.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

class TooManyDamaged : public testing::Test {
 protected:
  TooManyDamaged() {
    put(folder_ / "net.cfg", kImageNet);
    make_image_folder(folder_ / "set", 40, 10);
  }
  std::string damage(const std::string& name) const {
    const std::string path = folder_ / "set" / name;
    put(path, get(path).substr(0, 400));
    return path;
  }
  Finished train(Words more) const {
    more.insert(more.end(), {"--net", folder_ / "net.cfg", "--data", folder_ / "set"});
    return omni_run(more);
  }
  static bool has(const Finished& run, const std::string& text) {
    return run.errors.find(text) != std::string::npos;
  }
  static constexpr const char* kPremature = ": is a damaged JPEG: Premature end of JPEG file";

  TemporaryDirectory folder_;
};

TEST_F(TooManyDamaged, TrainingImages) {
  const std::string first = damage("train/blue/7.jpg"), second = damage("train/red/2.jpg");
  const Words short_run{"--epochs", "2", "--no-test", "-q"};
  const auto with = [&](const char* share) {
    Words words = short_run;
    words.insert(words.end(), {"--damaged-images", share});
    return train(words);
  };
  const Finished usual = train(short_run);  // 1 %: one of 120
  EXPECT_EQ(usual.exit_code, 3);
  EXPECT_TRUE(has(usual,
                  "error: 2 of 120 training images cannot be read, more than "
                  "--damaged-images 1% allows: " +
                      first + kPremature + "; " + second + kPremature + " (mend them,"))
      << usual.errors;
  EXPECT_EQ(with("2%").exit_code, 0);
  EXPECT_EQ(with("0.0167").exit_code, 0);
  EXPECT_EQ(with("0.016").exit_code, 3);
  const Finished none = with("0");
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_TRUE(has(none, kPremature + std::string(" (fetch it again, or leave it out)\n")));
  EXPECT_FALSE(has(none, "skipped") || has(none, "--damaged-images")) << none.errors;
}

// Damaged test images end the run before its first iteration, so no progress line is printed.
TEST_F(TooManyDamaged, TestImages) {
  const std::string path = damage("val/green/43.jpg");
  const Words run{"--epochs", "1", "--display", "1"};
  const auto with = [&](Words more) {
    more.insert(more.end(), run.begin(), run.end());
    return train(more);
  };
  const Finished usual = with({});
  EXPECT_EQ(usual.exit_code, 3);
  EXPECT_TRUE(has(usual,
                  "error: 1 of 30 test images cannot be read, more than --damaged-images 1% "
                  "allows: " +
                      path + kPremature))
      << usual.errors;
  EXPECT_FALSE(has(usual, " avg, ")) << usual.errors;
  const Finished none = with({"--damaged-images", "0"});
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_TRUE(has(none, "error: " + path + kPremature)) << none.errors;
  EXPECT_FALSE(has(none, " avg, ")) << none.errors;
  EXPECT_EQ(with({"--no-test"}).exit_code, 0);
}

TEST_F(TooManyDamaged, SharesThatAreNone) {
  for (const char* share :
       {"nan", "-0.1", "1.5", "101%", "-1%", "%", "", "x", "inf", "1 %", "nan%", "1%%", "0x1"}) {
    const Finished run = train({"--damaged-images", share, "--dry-run"});
    EXPECT_EQ(run.exit_code, 2) << share;
    EXPECT_TRUE(has(run, "is no share from 0 to 1 (0.1, or 10%)")) << run.errors;
  }
  for (const char* share : {"0", "1", "100%", "0.5%", "1e-3"})
    EXPECT_EQ(train({"--damaged-images", share, "--dry-run", "-q"}).exit_code, 0) << share;
}

}  // namespace
}  // namespace omni::test
