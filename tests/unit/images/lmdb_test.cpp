// These tests write images into an LMDB and read them back. A damaged LMDB gives an error that
// names it; no signal ends the process.
#include <gtest/gtest.h>

#include <random>

#include "runtime/data/open.hpp"
#include "tests/support/caffe/lmdb_writer.hpp"
#include "tests/support/images/png_writer.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {
namespace {

constexpr int kEntries = 40;

class Lmdb : public testing::Test {
 protected:
  static std::string pixels(int number, int count) {
    std::string values;
    for (int i = 0; i < count; ++i) values += static_cast<char>(number * 31 + i * 7);
    return values;
  }
  std::string write(const std::string& name, const LmdbEntries& entries) const {
    write_lmdb(folder_ / name, entries);
    return folder_ / name;
  }
  // Small entries lie in pages of LMDB's tree. Large entries have pages of their own.
  std::string write_images(const std::string& name) const {
    LmdbEntries entries;
    for (int i = 0; i < kEntries; ++i) {
      std::string key = std::to_string(i);
      key.insert(0, 8 - key.size(), '0');
      entries.emplace_back(key + "_image", datum_of(30, 40, 3, i % 5, pixels(i, 3600)));
    }
    return write(name, entries);
  }
  static Result<DatasetPair> open(const std::string& source, bool test = false) {
    DatasetRequest request;
    request.source = source;
    request.test = test;
    return open_dataset(request);
  }
  // Returns the first error of opening the LMDB or of reading an image, or "".
  static std::string problem(const std::string& source) {
    const auto pair = open(source);
    if (!pair) return pair.error().kind == ErrorKind::data ? pair.error().message() : "of a kind";
    Image image;
    for (std::size_t i = 0; i < pair->train->size(); ++i)
      if (const Status read = pair->train->read(i, {}, image); !read)
        return read.error().kind == ErrorKind::data ? read.error().message() : "of a kind";
    return "";
  }
  TemporaryDirectory folder_;
};

TEST_F(Lmdb, raw_images_come_out_red_first) {
  const std::string train = write_images("train");
  const auto pair =
      open(train + "," + write("val", {{"a", datum_of(30, 40, 3, 7, pixels(1, 3600))}}), true);
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_EQ(pair->train->size(), std::size_t{kEntries});
  EXPECT_EQ(pair->train->classes(), 8);
  EXPECT_EQ(pair->test->label(0), 7);
  EXPECT_EQ(pair->train->extent(), (Extent{30, 40, 3}));
  for (int i = 0; i < kEntries; ++i) {
    Image image;
    ASSERT_TRUE(pair->train->read(static_cast<std::size_t>(i), {}, image));
    EXPECT_EQ(std::string(image.pixels.begin(), image.pixels.end()), pixels(i, 3600));
    EXPECT_EQ(pair->train->label(static_cast<std::size_t>(i)), i % 5);
  }
  EXPECT_EQ(pair->train->name_of(12), train + ": '00000012_image'");
}

TEST_F(Lmdb, encoded_images_may_have_any_size) {
  std::vector<std::uint8_t> rows;
  for (int i = 0; i < 8 * 17 * 23; ++i) rows.push_back(static_cast<std::uint8_t>(i * 37));
  const std::string file = make_png(17, 23, rows, PngKind{});
  const auto pair =
      open(write("mixed", {{"a", encoded_datum(file, 1)}, {"b", datum_of(2, 2, 1, 0, "abcd")}}));
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_TRUE(pair->train->has_all_sizes());
  Image image;
  ASSERT_TRUE(pair->train->read(0, {}, image));
  EXPECT_EQ(image.pixels, parse_image(file, "x", {})->pixels);
  ASSERT_TRUE(pair->train->read(1, {}, image));
  EXPECT_EQ(image.extent, (Extent{2, 2, 1}));
}

TEST_F(Lmdb, wrong_entries_are_named) {
  const struct {
    std::string value, what;
  } kCases[] = {
      {"text", ": 'k': is no message of protobuf at byte 0 (is this an LMDB of Datum?)"},
      {caffe_number(5, ~std::uint64_t{0}), "'k': label -1 is no class (labels count from 0)"},
      {caffe_bytes(4, "1234") + caffe_number(1, 1) + caffe_number(2, 2) + caffe_number(3, 3),
       "'k': is 3x2x1 with 4 bytes (the entry is damaged, or no Datum)"},
      {caffe_bytes(6, "1234") + caffe_number(1, 1) + caffe_number(2, 1) + caffe_number(3, 1),
       "'k': has float_data, which are not supported"},
      {encoded_datum("no image", 0), "'k': "},
      {datum_of(2, 2, 1, 0, "abcd").substr(0, 9), "'k': is cut off"},
  };
  int number = 0;
  for (const auto& each : kCases) {
    const std::string said = problem(write(std::to_string(number++), {{"k", each.value}}));
    EXPECT_NE(said.find(each.what), std::string::npos)
        << "wanted: " << each.what << "\nsaid: " << said;
  }
  EXPECT_NE(problem(write("none", {})).find("holds no images"), std::string::npos);
}

TEST_F(Lmdb, cut_off_files_are_refused) {
  const std::string whole = get(write_images("whole") + "/data.mdb");
  std::filesystem::create_directory(folder_ / "part");
  for (std::size_t size = 0; size < whole.size(); size += size < 9000 ? 500 : 4096) {
    put(folder_ / "part/data.mdb", whole.substr(0, size));
    EXPECT_NE(problem(folder_ / "part").find(std::string(folder_ / "part") + ": "),
              std::string::npos)
        << size;
  }
}

// The file becomes shorter after it was opened.
TEST_F(Lmdb, files_that_shrink_are_an_error) {
  const std::string source = write_images("shrinks");
  const auto pair = open(source);
  ASSERT_TRUE(pair);
  std::filesystem::resize_file(source + "/data.mdb", 8192);
  Image image;
  const Status read = pair->train->read(3, {}, image);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message().find("'00000003_image': its pages cannot be read"),
            std::string::npos)
      << read.error().message();
}

TEST_F(Lmdb, damaged_files_never_end_the_process) {
  const std::string whole = get(write_images("whole") + "/data.mdb");
  std::filesystem::create_directory(folder_ / "damaged");
  std::mt19937 random(7);
  int refused = 0;
  const char* wanted = std::getenv("OMNI_MUTATIONS");
  for (int round = 0; round < (wanted != nullptr ? std::atoi(wanted) : 200); ++round) {
    std::string bytes = whole;
    for (unsigned left = 1 + random() % 8; left > 0; --left) {
      // About half of the changed bytes are in the first 64 bytes of a page, which describe the
      // page. The other half is anywhere in the file.
      const std::size_t page = random() % (bytes.size() / 4096) * 4096;
      bytes[random() % 2 == 0 ? page + random() % 64 : random() % bytes.size()] =
          static_cast<char>(random());
    }
    put(folder_ / "damaged/data.mdb", bytes);
    refused += problem(folder_ / "damaged").empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 20);
}

TEST_F(Lmdb, one_alone_has_no_tests) {
  const auto pair = open(write_images("train"), true);
  ASSERT_FALSE(pair);
  EXPECT_NE(pair.error().message().find("one LMDB alone has no test images"), std::string::npos);
}

}  // namespace
}  // namespace omni::test
