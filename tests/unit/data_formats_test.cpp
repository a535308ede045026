// These tests check the registry of data formats. It decides what --data accepts, what messages and
// the manual list, and which format opens a source.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/data/formats.hpp"
#include "runtime/data/memory_dataset.hpp"
#include "runtime/data/synthetic.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

using test::TemporaryDirectory;
using testing::HasSubstr;

// Only this test registers the format "made-up".
const DataFormatRegistration made_up(
    {.order = 100,
     .name = "made-up",
     .form = "a folder with a file called made-up",
     .is =
         [](const DatasetRequest& request) {
           return std::filesystem::exists(std::filesystem::path(request.source) / "made-up");
         },
     .open = [](const DatasetRequest&) -> Result<DatasetPair> {
       return DatasetPair{std::make_unique<SyntheticDataset>(SyntheticOptions{.size = 7}), nullptr};
     }});

std::string opener_of(const std::string& source) {
  DatasetRequest request;
  request.source = source;
  const DataFormat* const format = format_of(request);
  return format == nullptr ? "" : std::string(format->name);
}

TEST(DataFormats, a_registered_one_opens_and_is_named_in_messages) {
  const TemporaryDirectory folder;
  std::ofstream(folder / "made-up") << '\n';
  DatasetRequest request;
  request.source = folder.path().string();
  request.test = false;
  const auto pair = open_dataset(request);
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_EQ(pair->train->size(), 7u);
  EXPECT_EQ(pair->name, std::filesystem::canonical(folder.path()));
  request.source = "no-such-data";
  EXPECT_THAT(open_dataset(request).error().message(), HasSubstr("a file called made-up"));
}

TEST(DataFormats, are_told_apart) {
  const TemporaryDirectory folder;
  for (const char* const file : {"a.data", "a.txt", "a,b"}) std::ofstream(folder / file) << "x 1\n";
  std::ofstream(folder / "vectors") << "1 2:3\n";
  const auto at = [&](const char* name) { return (folder / name).string(); };
  EXPECT_EQ(opener_of("synthetic:64"), "synthetic");
  EXPECT_EQ(opener_of("synthetic-vectors"), "synthetic-vectors");
  EXPECT_EQ(opener_of("fashion-mnist:3"), "") << "takes no numbers";
  EXPECT_EQ(opener_of(at("a.data")), ".data");
  EXPECT_EQ(opener_of(at("a.data") + "," + at("a.data")), "lists");
  EXPECT_EQ(opener_of(at("vectors") + "," + at("a.txt")), "LIBSVM");
  EXPECT_EQ(opener_of(at("a.txt")), "") << "one list has no test images";
  EXPECT_EQ(opener_of(at("a,b")), "") << "is one file";
  EXPECT_EQ(opener_of(at("nowhere")), "");
}

TEST(DataFormats, are_in_the_manual) {
  std::ifstream manual(OMNI_SOURCE_DIR "/docs/user/data.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(manual, line);)
    if (line.starts_with("| ")) rows.push_back(line);
  for (const DataFormat& format : data_formats())
    EXPECT_TRUE(format.name == "made-up" ||
                std::ranges::any_of(
                    rows, [&](const auto& row) { return row.find(format.name) != row.npos; }))
        << "no table of docs/user/data.md has " << format.name;
}

}  // namespace
}  // namespace omni
