// These tests check the file of measured algorithms. Its valid entries are used; each invalid one
// is reported once and measured again.
#include "codelets/cuda/choice_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

using test::get;
using test::put;
using test::TemporaryDirectory;
using testing::HasSubstr;

using Numbers = ChoiceTable::Numbers;
using Trials = ChoiceTable::Trials;

const Numbers kFast{6, 3}, kOther{1, 0};
const ChoiceTable::Library kLibrary{"cuDNN", 91900, 2};

// ask() returns the algorithm that the table chooses for `key`, and how many measurements this
// took. All algorithms but `broken` work.
struct Asked {
  std::optional<Numbers> choice;
  int measured = 0;
  Trials trials{};
};
Asked ask(ChoiceTable& table, const std::string& key, std::optional<Numbers> found = kFast,
          std::optional<Numbers> broken = std::nullopt, Trials trials = Trials::finished) {
  Asked asked;
  const auto chosen = table.choose(
      key, [&](const Numbers& choice) { return choice != broken; },
      [&]() -> std::optional<ChoiceTable::Choice> {
        ++asked.measured;
        if (!found) return std::nullopt;
        return ChoiceTable::Choice{*found, trials};
      });
  if (!chosen) return asked;
  asked.choice = chosen->numbers;
  asked.trials = chosen->trials;
  return asked;
}

TEST(ChoiceTable, a_shape_is_measured_once) {
  const TemporaryDirectory folder;
  {
    ChoiceTable table(folder.path(), "NVIDIA H200", kLibrary);
    EXPECT_EQ(table.path().filename(), "cudnn-NVIDIA-H200-91900.json");
    EXPECT_EQ(ask(table, "a").measured, 1);
    EXPECT_EQ(ask(table, "a", kOther).choice, kFast);
    EXPECT_EQ(ask(table, "b", kOther).measured, 1);
  }
  ChoiceTable table(folder.path(), "NVIDIA H200", kLibrary);
  for (const auto& [key, choice] : {std::pair("a", kFast), std::pair("b", kOther)}) {
    const Asked asked = ask(table, key, std::nullopt);
    EXPECT_EQ(asked.measured, 0);
    EXPECT_EQ(asked.choice, choice);
  }
}

TEST(ChoiceTable, numbers_of_64_bits_are_kept) {
  const TemporaryDirectory folder;
  const ChoiceTable::Library library{"cuBLASLt", 130100, 8};
  const Numbers numbers{~std::uint64_t{0}, 0, 1ull << 63, 3, 4, 5, 6, 7};
  {
    ChoiceTable table(folder.path(), "GPU", library);
    EXPECT_EQ(table.path().filename(), "cublaslt-GPU-130100.json");
    ask(table, "a", numbers);
  }
  const log::Capture captured;
  ChoiceTable table(folder.path(), "GPU", library);
  EXPECT_EQ(ask(table, "a").choice, numbers);
  EXPECT_EQ(captured.text(), "");
}

TEST(ChoiceTable, a_library_may_say_how_many_numbers_it_takes) {
  const TemporaryDirectory folder;
  const ChoiceTable::Library library{"cuDNN", 91900, 0};
  {
    ChoiceTable table(folder.path(), "GPU", library);
    ask(table, "a", Numbers{1, 2, 3});
    ask(table, "b", Numbers{4});
  }
  ChoiceTable table(folder.path(), "GPU", library);
  EXPECT_EQ(ask(table, "a").choice, (Numbers{1, 2, 3}));
  EXPECT_EQ(ask(table, "b").choice, Numbers{4});
  const auto path = table.path();
  std::string text = get(path);
  put(path, text.replace(text.find('4'), 1, "\"4\""));
  const log::Capture captured;
  ChoiceTable spoilt(folder.path(), "GPU", library);
  EXPECT_THAT(captured.text(), HasSubstr("'b' is not followed by numbers"));
}

TEST(ChoiceTable, what_no_longer_works_is_measured_anew) {
  const TemporaryDirectory folder;
  {
    ChoiceTable table(folder.path(), "GPU", kLibrary);
    ask(table, "a");
    EXPECT_EQ(ask(table, "a", kOther, kFast).choice, kOther);
  }
  ChoiceTable table(folder.path(), "GPU", kLibrary);
  EXPECT_EQ(ask(table, "a").choice, kOther);
}

// If algorithms were prepared one at a time, the devices would wait for each other when a run
// begins.
TEST(ChoiceTable, what_is_known_is_prepared_by_several_at_once) {
  const TemporaryDirectory folder;
  ChoiceTable table(folder.path(), "GPU", kLibrary);
  ask(table, "a");
  std::barrier both(2);
  const auto prepare = [&] {
    const auto chosen = table.choose(
        "a",
        [&](const Numbers&) {
          both.arrive_and_wait();
          return true;
        },
        [] { return ChoiceTable::Choice{kOther}; });
    EXPECT_EQ(chosen->numbers, kFast);
  };
  std::jthread other(prepare);
  prepare();
}

// Other work on the GPU may have made the best algorithm look slow.
TEST(ChoiceTable, what_other_work_has_disturbed_is_not_kept) {
  const TemporaryDirectory folder;
  {
    ChoiceTable table(folder.path(), "GPU", kLibrary);
    EXPECT_EQ(ask(table, "a", kFast, std::nullopt, Trials::disturbed).choice, kFast);
    EXPECT_FALSE(std::filesystem::exists(table.path()));
    EXPECT_EQ(ask(table, "a", kOther).choice, kOther);
  }
  ChoiceTable table(folder.path(), "GPU", kLibrary);
  EXPECT_EQ(ask(table, "a").choice, kOther);
}

TEST(ChoiceTable, unfinished_trials_are_known_as_such_until_they_are_finished) {
  const TemporaryDirectory folder;
  {
    ChoiceTable table(folder.path(), "GPU", kLibrary);
    ask(table, "a", kFast, std::nullopt, Trials::unfinished);
    ask(table, "b", kFast, std::nullopt, Trials::unfinished);
  }
  {
    ChoiceTable table(folder.path(), "GPU", kLibrary);
    for (const char* key : {"a", "b"}) {
      const Asked asked = ask(table, key, kOther);
      EXPECT_EQ(asked.measured, 0);
      EXPECT_EQ(asked.choice, kFast);
      EXPECT_EQ(asked.trials, Trials::unfinished);
    }
    table.keep("a", {kOther});
  }
  ChoiceTable table(folder.path(), "GPU", kLibrary);
  EXPECT_EQ(ask(table, "a").choice, kOther);
  EXPECT_EQ(ask(table, "a").trials, Trials::finished);
  EXPECT_EQ(ask(table, "b").trials, Trials::unfinished);
}

TEST(ChoiceTable, the_number_of_tried_algorithms_is_kept) {
  const TemporaryDirectory folder;
  {
    ChoiceTable table(folder.path(), "GPU", kLibrary);
    table.keep("a", {kFast, Trials::unfinished, 5});
  }
  ChoiceTable table(folder.path(), "GPU", kLibrary);
  const auto chosen = table.choose(
      "a", [](const Numbers&) { return true; }, [] { return ChoiceTable::Choice{kOther}; });
  EXPECT_EQ(chosen->trials, Trials::unfinished);
  EXPECT_EQ(chosen->tried, 5u);
}

// Two processes may train on equal GPUs at once.
TEST(ChoiceTable, what_another_process_has_stored_remains) {
  const TemporaryDirectory folder;
  {
    ChoiceTable one(folder.path(), "GPU", kLibrary), other(folder.path(), "GPU", kLibrary);
    ask(one, "a");
    ask(other, "b");
    ask(one, "c");
    ask(other, "c", kOther, std::nullopt, Trials::unfinished);
    other.keep("d", {kFast, Trials::unfinished, 3});
    one.keep("d", {kOther, Trials::unfinished, 2});
    other.keep("e", {kFast, Trials::unfinished, 3});
    one.keep("e", {kOther});
  }
  ChoiceTable table(folder.path(), "GPU", kLibrary);
  for (const char* key : {"a", "b", "c", "d"}) EXPECT_EQ(ask(table, key, kOther).choice, kFast);
  EXPECT_EQ(ask(table, "c").trials, Trials::finished);
  EXPECT_EQ(ask(table, "e").choice, kOther);
  EXPECT_EQ(ask(table, "e").trials, Trials::finished);
}

TEST(ChoiceTable, what_ships_finished_replaces_the_users_unfinished_choice) {
  const TemporaryDirectory folder, shipped;
  {
    ChoiceTable recorded(shipped.path(), "GPU", kLibrary);
    ask(recorded, "a");
    ChoiceTable own(folder.path(), "GPU", kLibrary);
    ask(own, "a", kOther, std::nullopt, Trials::unfinished);
  }
  ChoiceTable table(folder.path(), "GPU", kLibrary, shipped.path());
  const Asked asked = ask(table, "a");
  EXPECT_EQ(asked.choice, kFast);
  EXPECT_EQ(asked.trials, Trials::finished);
}

TEST(ChoiceTable, that_nothing_works_is_not_remembered) {
  const TemporaryDirectory folder;
  ChoiceTable table(folder.path(), "GPU", kLibrary);
  EXPECT_EQ(ask(table, "a", std::nullopt).choice, std::nullopt);
  EXPECT_EQ(ask(table, "a").choice, kFast);
}

TEST(ChoiceTable, other_devices_versions_and_libraries_have_files_of_their_own) {
  const TemporaryDirectory folder;
  ChoiceTable one(folder.path(), "GPU", kLibrary), other(folder.path(), "GPU", {"cuDNN", 91901, 2}),
      third(folder.path(), "GPU 2", kLibrary), fourth(folder.path(), "GPU", {"cuBLASLt", 91900, 2});
  ask(one, "a");
  EXPECT_EQ(ask(other, "a").measured, 1);
  EXPECT_EQ(ask(third, "a").measured, 1);
  EXPECT_EQ(ask(fourth, "a").measured, 1);
}

TEST(ChoiceTable, what_comes_with_the_program_needs_no_measurement) {
  const TemporaryDirectory folder, shipped;
  {
    ChoiceTable recorded(shipped.path(), "GPU", kLibrary);
    EXPECT_EQ(ask(recorded, "a").measured, 1);
    EXPECT_EQ(ask(recorded, "b").measured, 1);
  }
  {
    ChoiceTable table(folder.path(), "GPU", kLibrary, shipped.path());
    EXPECT_EQ(ask(table, "a").measured, 0);
    EXPECT_EQ(ask(table, "a").choice, kFast);
    EXPECT_EQ(ask(table, "b", kOther, kFast).choice, kOther) << "one that fails is measured anew";
  }
  ChoiceTable table(folder.path(), "GPU", kLibrary, shipped.path());
  EXPECT_EQ(ask(table, "b").choice, kOther) << "the user's own are preferred";
  EXPECT_EQ(ask(table, "b").measured, 0);
  EXPECT_EQ(ask(table, "c").measured, 1);
}

// The files of perf/recorded come with the program. A file of an old format would be of no use.
TEST(ChoiceTable, recorded_files_are_used) {
  const TemporaryDirectory folder;
  std::size_t files = 0;
  for (const auto& each : std::filesystem::directory_iterator(shipped_folder() / "choices")) {
    const auto json = nlohmann::json::parse(get(each.path()));
    const std::string name = json.contains("cudnn") ? "cuDNN" : "cuBLASLt";
    const std::size_t version = json.at(name == "cuDNN" ? "cudnn" : "cublaslt");
    ChoiceTable table(folder.path(), json.at("device"), {name, version}, each.path().parent_path());
    EXPECT_EQ(table.path().filename(), each.path().filename());
    for (const auto& [key, numbers] : json.at("algorithms").items()) {
      const Asked asked = ask(table, key);
      ASSERT_EQ(asked.measured, 0) << each.path();
      EXPECT_EQ(asked.choice, numbers.get<Numbers>());
    }
    ++files;
  }
  EXPECT_GE(files, 2u);
}

TEST(ChoiceTable, a_file_that_cannot_be_used_is_replaced) {
  const std::string good =
      R"({"format": 3, "device": "GPU", "cudnn": 91900, "algorithms": {"a": [6, 3]}})";
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const auto& [contents, said] :
       {std::pair(std::string("nonsense"), "not a JSON object"),
        std::pair(std::string(), "not a JSON object"), std::pair(std::string("[1]"), "not a JSON"),
        std::pair(with("\"format\": 3", "\"format\": 1"),
                  "was not written for format 3, GPU, cuDNN 91900"),
        std::pair(with("GPU", "Other"), "was not written for format 3, GPU, cuDNN 91900"),
        std::pair(with("91900", "91800"), "was not written for format 3, GPU, cuDNN 91900"),
        std::pair(with("{\"a\": [6, 3]}", "3"), "lists no algorithms"),
        std::pair(with("[6, 3]", "[6]"), "'a' is not followed by 2 numbers"),
        std::pair(with("[6, 3]", "[6, -3]"), "'a' is not followed by 2 numbers"),
        std::pair(with("[6, 3]", "[6, 0.5]"), "'a' is not followed by 2 numbers"),
        std::pair(with("}}", "}, \"unfinished\": 3}"), "lists no unfinished"),
        std::pair(with("}}", "}, \"unfinished\": {\"b\": 3}}"),
                  "'b' is not followed by 2 numbers")}) {
    SCOPED_TRACE(contents);
    const TemporaryDirectory folder;
    const auto path = folder.path() / "cudnn-GPU-91900.json";
    put(path, contents);
    {
      const log::Capture captured;
      ChoiceTable table(folder.path(), "GPU", kLibrary);
      EXPECT_THAT(captured.text(), HasSubstr(path.string() + ": " + said));
      EXPECT_THAT(captured.text(), HasSubstr("; algorithms of cuDNN are measured anew"));
      EXPECT_EQ(ask(table, "a", kOther).measured, 1);
    }
    const log::Capture captured;
    ChoiceTable table(folder.path(), "GPU", kLibrary);
    EXPECT_EQ(ask(table, "a").choice, kOther);
    EXPECT_EQ(captured.text(), "");
  }
}

TEST(ChoiceTable, what_cannot_be_written_is_said_once) {
  const TemporaryDirectory folder;
  put(folder.path() / "file", "");
  const log::Capture captured;
  ChoiceTable table(folder.path() / "file", "GPU", kLibrary);
  EXPECT_EQ(ask(table, "a").choice, kFast);
  const std::string said = captured.text();
  EXPECT_THAT(said, HasSubstr("; the next run measures algorithms of cuDNN again"));
  EXPECT_EQ(ask(table, "b").choice, kFast);
  EXPECT_EQ(captured.text(), said);
  EXPECT_EQ(ask(table, "a").measured, 0);
}

}  // namespace
}  // namespace omni
