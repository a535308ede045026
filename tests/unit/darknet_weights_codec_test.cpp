// These tests check Darknet's .weights files: their exact bytes, the `seen` field, and that files
// that are too short are refused.
#include "layers/formats/darknet/darknet.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

using test::get;
using test::put;

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
std::string header_bytes(std::int32_t major, std::int32_t minor) {
  return raw(major) + raw(minor) + raw(std::int32_t{0});
}

TEST(DarknetWeights, WritesTheExactBytesAndReadsThemBack) {
  const test::TemporaryDirectory folder;
  const std::array first = {1.f, -2.f, 3.f};
  const std::array second = {0.5f};
  {
    auto writer = create_darknet_weights(folder / "w", {.seen = 12345678901234});
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(first))));
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(second))));
    EXPECT_FALSE(std::filesystem::exists(folder / "w")) << "before commit()";
    ASSERT_TRUE(writer->commit());
  }
  EXPECT_EQ(get(folder / "w"), header_bytes(0, 2) + raw(std::uint64_t{12345678901234}) + raw(1.f) +
                                   raw(-2.f) + raw(3.f) + raw(0.5f));

  auto reader = DarknetWeightsReader::open(folder / "w");
  ASSERT_TRUE(reader) << reader.error().message();
  EXPECT_EQ(reader->header().seen, 12345678901234u);
  EXPECT_FALSE(reader->header().transposed());
  EXPECT_EQ(reader->remaining(), 16u);
  ASSERT_TRUE(reader->expect(4, false));
  std::array<float, 3> block{};
  ASSERT_TRUE(reader->read(block, "layer 0 biases"));
  EXPECT_EQ(block, first);
  EXPECT_EQ(reader->remaining(), 4u);
  const Status status = reader->read(block, "layer 0 weights");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::data);
  EXPECT_EQ(status.error().what, "layer 0 weights needs 12 bytes, only 4 are left");
}

struct Version {
  std::int32_t major, minor;
  bool wide, transposed;
};

TEST(DarknetWeights, SeenAndTransposedFollowTheVersion) {
  const test::TemporaryDirectory folder;
  for (const Version& version :
       {Version{0, 1, false, false}, Version{0, 2, true, false}, Version{1, 0, true, false},
        Version{0, 0, false, false}, Version{0, 1000, false, false}, Version{0, 1001, false, true},
        Version{1001, 2, false, true}, Version{999, 999, true, false}}) {
    const DarknetWeightsHeader header{.major = version.major, .minor = version.minor, .seen = 64};
    {
      auto writer = create_darknet_weights(folder / "w", header);
      ASSERT_TRUE(writer);
      ASSERT_TRUE(writer->write(std::as_bytes(std::span<const float>(std::array{2.f}))));
      ASSERT_TRUE(writer->commit());
    }
    EXPECT_EQ(std::filesystem::file_size(folder / "w"), version.wide ? 24u : 20u);
    auto reader = DarknetWeightsReader::open(folder / "w");
    ASSERT_TRUE(reader);
    EXPECT_EQ(reader->header().seen, 64u);
    EXPECT_EQ(reader->header().transposed(), version.transposed) << version.major;
    EXPECT_EQ(reader->remaining(), 4u);
  }
}

TEST(DarknetWeights, ShortAndLongFilesAreNoticedBeforeLoading) {
  const test::TemporaryDirectory folder;
  const std::string head = header_bytes(0, 2) + raw(std::uint64_t{0});
  for (const std::size_t bytes : {0u, 39u, 40u, 41u}) {
    put(folder / "w", head + std::string(bytes, '\0'));
    auto reader = DarknetWeightsReader::open(folder / "w");
    ASSERT_TRUE(reader);
    const Status status = reader->expect(10, false);
    EXPECT_EQ(status.operator bool(), bytes == 40);
    EXPECT_EQ(reader->expect(10, true).operator bool(), bytes >= 40);
    if (status) continue;
    EXPECT_EQ(status.error().kind, ErrorKind::data);
    EXPECT_EQ(status.error().what, "the network needs 40 bytes of weights, the file has " +
                                       std::string(bytes < 40 ? "only " : "") +
                                       std::to_string(bytes));
  }
  auto reader = DarknetWeightsReader::open(folder / "w");
  ASSERT_TRUE(reader);
  EXPECT_FALSE(reader->expect(std::uint64_t{1} << 62, true)) << "4 times this is 0 in 64 bits";
  EXPECT_FALSE(reader->expect(std::numeric_limits<std::uint64_t>::max(), true));
}

TEST(DarknetWeights, HeadersThatCannotBe) {
  const test::TemporaryDirectory folder;
  const std::string whole = header_bytes(0, 2) + raw(std::uint64_t{0});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    put(folder / "w", whole.substr(0, length));
    const auto reader = DarknetWeightsReader::open(folder / "w");
    ASSERT_FALSE(reader) << length;
    EXPECT_EQ(
        reader.error().what,
        std::to_string(length) + " bytes are too few for the header of a Darknet weights file");
  }
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  constexpr auto kLeast = std::numeric_limits<std::int32_t>::min();
  for (const auto& [major, minor] : {std::pair{kMost, 0}, {0, kMost}, {kLeast, 0}, {0, -1}}) {
    put(folder / "w", header_bytes(major, minor) + std::string(16, '\0'));
    const auto reader = DarknetWeightsReader::open(folder / "w");
    ASSERT_FALSE(reader);
    EXPECT_EQ(reader.error().kind, ErrorKind::data);
    EXPECT_NE(reader.error().what.find("is none that Darknet writes"), std::string::npos);
  }
}

}  // namespace
}  // namespace omni
