// The file of measured convolution algorithms: what is in it is used, what cannot be used is said
// once and measured anew.
#include "codelets/convolution/cudnn/algorithm_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/log.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

using test::get;
using test::put;
using test::TemporaryDirectory;
using testing::HasSubstr;

constexpr AlgorithmChoice kFast{6, 3}, kOther{1, 0};
constexpr std::size_t kVersion = 91900;

// Chooses for `key` where every algorithm works, and says how often it was measured.
struct Asked {
  std::optional<AlgorithmChoice> choice;
  int measured = 0;
};
Asked ask(AlgorithmTable& table, const std::string& key,
          std::optional<AlgorithmChoice> found = kFast,
          std::optional<AlgorithmChoice> broken = std::nullopt) {
  Asked asked;
  asked.choice = table.choose(
      key, [&](const AlgorithmChoice& choice) { return choice != broken; },
      [&] {
        ++asked.measured;
        return found;
      });
  return asked;
}

TEST(AlgorithmTable, a_shape_is_measured_once) {
  const TemporaryDirectory folder;
  {
    AlgorithmTable table(folder.path(), "NVIDIA H200", kVersion);
    EXPECT_EQ(table.path().filename(), "cudnn-NVIDIA-H200-91900.json");
    EXPECT_EQ(ask(table, "a").measured, 1);
    EXPECT_EQ(ask(table, "a", kOther).choice, kFast);
    EXPECT_EQ(ask(table, "b", kOther).measured, 1);
  }
  AlgorithmTable table(folder.path(), "NVIDIA H200", kVersion);
  for (const auto& [key, choice] : {std::pair("a", kFast), std::pair("b", kOther)}) {
    const Asked asked = ask(table, key, std::nullopt);
    EXPECT_EQ(asked.measured, 0);
    EXPECT_EQ(asked.choice, choice);
  }
}

TEST(AlgorithmTable, what_no_longer_works_is_measured_anew) {
  const TemporaryDirectory folder;
  {
    AlgorithmTable table(folder.path(), "GPU", kVersion);
    ask(table, "a");
    EXPECT_EQ(ask(table, "a", kOther, kFast).choice, kOther);
  }
  AlgorithmTable table(folder.path(), "GPU", kVersion);
  EXPECT_EQ(ask(table, "a").choice, kOther);
}

TEST(AlgorithmTable, that_nothing_works_is_not_remembered) {
  const TemporaryDirectory folder;
  AlgorithmTable table(folder.path(), "GPU", kVersion);
  EXPECT_EQ(ask(table, "a", std::nullopt).choice, std::nullopt);
  EXPECT_EQ(ask(table, "a").choice, kFast);
}

TEST(AlgorithmTable, other_devices_and_versions_have_files_of_their_own) {
  const TemporaryDirectory folder;
  AlgorithmTable one(folder.path(), "GPU", kVersion), other(folder.path(), "GPU", kVersion + 1),
      third(folder.path(), "GPU 2", kVersion);
  ask(one, "a");
  EXPECT_EQ(ask(other, "a").measured, 1);
  EXPECT_EQ(ask(third, "a").measured, 1);
}

TEST(AlgorithmTable, a_file_that_cannot_be_used_is_replaced) {
  const std::string good =
      R"({"format": 1, "device": "GPU", "cudnn": 91900, "algorithms": {"a": [6, 3]}})";
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const auto& [contents, said] :
       {std::pair(std::string("nonsense"), "not a JSON object"),
        std::pair(std::string(), "not a JSON object"), std::pair(std::string("[1]"), "not a JSON"),
        std::pair(with("\"format\": 1", "\"format\": 2"), "not for format 1, GPU, cuDNN 91900"),
        std::pair(with("GPU", "Other"), "not for format 1, GPU, cuDNN 91900"),
        std::pair(with("91900", "91800"), "not for format 1, GPU, cuDNN 91900"),
        std::pair(with("{\"a\": [6, 3]}", "3"), "lists no algorithms"),
        std::pair(with("[6, 3]", "[6]"), "'a' is not followed by two numbers"),
        std::pair(with("[6, 3]", "[6, 0.5]"), "'a' is not followed by two numbers")}) {
    SCOPED_TRACE(contents);
    const TemporaryDirectory folder;
    const auto path = folder.path() / "cudnn-GPU-91900.json";
    put(path, contents);
    {
      const log::Capture captured;
      AlgorithmTable table(folder.path(), "GPU", kVersion);
      EXPECT_THAT(captured.text(), HasSubstr(path.string() + ": " + said));
      EXPECT_THAT(captured.text(), HasSubstr("; convolution algorithms are measured anew"));
      EXPECT_EQ(ask(table, "a", kOther).measured, 1);
    }
    const log::Capture captured;
    AlgorithmTable table(folder.path(), "GPU", kVersion);
    EXPECT_EQ(ask(table, "a").choice, kOther);
    EXPECT_EQ(captured.text(), "");
  }
}

TEST(AlgorithmTable, what_cannot_be_written_is_said_once) {
  const TemporaryDirectory folder;
  put(folder.path() / "file", "");
  const log::Capture captured;
  AlgorithmTable table(folder.path() / "file", "GPU", kVersion);
  EXPECT_EQ(ask(table, "a").choice, kFast);
  const std::string said = captured.text();
  EXPECT_THAT(said, HasSubstr("; the next run measures convolution algorithms again"));
  EXPECT_EQ(ask(table, "b").choice, kFast);
  EXPECT_EQ(captured.text(), said);
  EXPECT_EQ(ask(table, "a").measured, 0);
}

}  // namespace
}  // namespace omni
