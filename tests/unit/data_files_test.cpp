// These tests read IDX and CIFAR-10 files with known contents, and files whose headers do not match
// their contents.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/data/cifar_files.hpp"
#include "runtime/data/idx_files.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;
using test::put;

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}
std::string idx_images(std::uint32_t count, std::uint32_t h, std::uint32_t w, std::size_t bytes) {
  std::string file = big_endian(0x803) + big_endian(count) + big_endian(h) + big_endian(w);
  for (std::size_t i = 0; i < bytes; ++i) file.push_back(static_cast<char>(i * 7));
  return file;
}
std::string idx_labels(std::uint32_t count, const std::string& labels) {
  return big_endian(0x801) + big_endian(count) + labels;
}

std::string gzip(const std::string& text) {
  const test::TemporaryDirectory folder;
  const gzFile file = gzopen((folder / "z").c_str(), "wb");
  EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  gzclose(file);
  return test::get(folder / "z");
}

std::string record(int label) {
  std::string bytes(3073, '\0');
  bytes[0] = static_cast<char>(label);
  for (std::size_t i = 1; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 251);
  return bytes;
}

// Writes two training images of 2x3 pixels with labels 0 and 2, and one test image with label 1.
void put_idx(const fs::path& folder) {
  put(folder / "train-images-idx3-ubyte", idx_images(2, 2, 3, 12));
  put(folder / "train-labels-idx1-ubyte", idx_labels(2, std::string("\0\2", 2)));
  put(folder / "t10k-images-idx3-ubyte", idx_images(1, 2, 3, 6));
  put(folder / "t10k-labels-idx1-ubyte", idx_labels(1, "\1"));
}
void put_cifar(const fs::path& folder) {
  for (int i = 1; i <= 5; ++i)
    put(folder / ("data_batch_" + std::to_string(i) + ".bin"), record(i) + record(9));
  put(folder / "test_batch.bin", record(4));
}

std::vector<std::uint8_t> read_image(const Dataset& data, std::size_t index) {
  Image image;
  EXPECT_TRUE(data.read(index, {}, image));
  EXPECT_EQ(image.extent, data.extent());
  return image.pixels;
}

TEST(IdxFolder, KnownAnswer) {
  const test::TemporaryDirectory folder;
  put_idx(folder.path());
  ASSERT_TRUE(is_idx_folder(folder.path()));
  const auto pair = open_idx_folder(folder.path());
  ASSERT_TRUE(pair) << pair.error().message();
  const Dataset& train = *pair->train;
  EXPECT_EQ(train.size(), 2u);
  EXPECT_EQ(train.extent(), (Extent{2, 3, 1}));
  EXPECT_EQ(train.classes(), 3);
  EXPECT_EQ(train.label(0), 0);
  EXPECT_EQ(train.label(1), 2);
  EXPECT_EQ(read_image(train, 0), (std::vector<std::uint8_t>{0, 7, 14, 21, 28, 35}));
  EXPECT_EQ(read_image(train, 1), (std::vector<std::uint8_t>{42, 49, 56, 63, 70, 77}));
  EXPECT_EQ(pair->test->size(), 1u);
  EXPECT_EQ(pair->test->label(0), 1);
  EXPECT_EQ(pair->test->classes(), 3) << "the test split alone shows only two of three classes";
  EXPECT_NE(train.description().find(folder.path().string()), std::string::npos);
  EXPECT_TRUE(train.class_names().empty());
}

TEST(IdxFolder, CompressedReadsTheSame) {
  const test::TemporaryDirectory plain, compressed;
  put_idx(plain.path());
  for (const auto& entry : fs::directory_iterator(plain.path()))
    put(compressed.path() / (entry.path().filename().string() + ".gz"),
        gzip(test::get(entry.path())));
  const auto a = open_idx_folder(plain.path()), b = open_idx_folder(compressed.path());
  ASSERT_TRUE(a);
  ASSERT_TRUE(b) << b.error().message();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read_image(*a->train, i), read_image(*b->train, i));
    EXPECT_EQ(a->train->label(i), b->train->label(i));
  }
}

TEST(IdxFolder, LargerThanOneReadingStep) {
  const test::TemporaryDirectory folder;
  put_idx(folder.path());
  const std::string images = idx_images(3, 1000, 1000, 3'000'000);
  for (const std::string& contents : {images, gzip(images)}) {
    put(folder / "large", contents);
    const auto read = read_idx_images(folder / "large");
    ASSERT_TRUE(read) << read.error().message();
    ASSERT_EQ(read->pixels.size(), 3'000'000u);
    EXPECT_EQ(read->pixels[2'999'999], static_cast<std::uint8_t>(2'999'999 * 7));
    EXPECT_EQ(read->pixels[1'048'577], static_cast<std::uint8_t>(1'048'577 * 7));
  }
}

TEST(CifarFolder, PlanesBecomePixels) {
  const test::TemporaryDirectory folder;
  put_cifar(folder.path());
  ASSERT_TRUE(is_cifar_folder(folder.path()));
  const auto pair = open_cifar_folder(folder.path());
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_EQ(pair->train->size(), 10u);
  EXPECT_EQ(pair->test->size(), 1u);
  EXPECT_EQ(pair->train->classes(), 10);
  EXPECT_EQ(pair->train->class_names().at(9), "truck");
  EXPECT_EQ(pair->train->label(0), 1);
  EXPECT_EQ(pair->train->label(1), 9);
  EXPECT_EQ(pair->train->label(8), 5);
  const auto pixels = read_image(*pair->train, 3);
  for (const std::size_t pixel : {0u, 33u, 1023u})
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_EQ(pixels[3 * pixel + c], (1 + c * 1024 + pixel) % 251);
}

TEST(DatasetRead, RefusesWhatIsNotThere) {
  const test::TemporaryDirectory folder;
  put_idx(folder.path());
  const auto pair = open_idx_folder(folder.path());
  ASSERT_TRUE(pair);
  Image image;
  const auto no_image = pair->train->read(2, {}, image);
  ASSERT_FALSE(no_image);
  EXPECT_NE(no_image.error().message().find("no image 2 among 2"), std::string::npos);
}

struct Hostile {
  const char* name;
  const char* file;      // of the folder, the one that tells the lie
  std::string contents;  // "" removes it
  const char* refusal;
};

std::string damaged(std::string bytes, std::size_t from_end) {
  bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 0x55);
  return bytes;
}

const char kImages[] = "train-images-idx3-ubyte", kLabels[] = "train-labels-idx1-ubyte",
           kTestImages[] = "t10k-images-idx3-ubyte", kTestLabels[] = "t10k-labels-idx1-ubyte";

std::vector<Hostile> hostile_idx() {
  const std::string good = idx_images(2, 2, 3, 12);
  const std::string labels = idx_labels(2, "ab");
  return {
      {"ImagesMissing", kImages, std::string(), "has no train-images"},
      {"OneByte", kImages, "x", "ends 3 bytes too early (the file is truncated"},
      {"HeaderOnlyMagic", kImages, good.substr(0, 4), "ends 4 bytes too early"},
      {"HeaderCut", kImages, good.substr(0, 15), "ends 1 bytes too early"},
      {"NoPixels", kImages, good.substr(0, 16), "has 16 bytes, but its header announces 28"},
      {"OnePixelShort", kImages, good.substr(0, 27), "has 27 bytes, but its header announces 28"},
      {"TrailingByte", kImages, good + "x", "announces 28 (trailing data"},
      {"WrongMagic", kImages, big_endian(0x12345678) + good.substr(4), "starts with 0x12345678"},
      {"FloatElements", kImages, big_endian(0xD03) + good.substr(4), "not an IDX file of 8-bit"},
      {"LittleEndianMagic", kImages, std::string("\3\10\0\0", 4) + good.substr(4), "not an IDX"},
      {"SwappedImages", kImages, labels, "holds labels, not images (swapped files?)"},
      {"SwappedLabels", kLabels, good, "holds images, not labels (swapped files?)"},
      {"ZeroImages", kImages, idx_images(0, 2, 3, 0), "holds no images"},
      {"ZeroHeight", kImages, idx_images(2, 0, 3, 0), "images of 0x3 pixels"},
      {"ZeroWidth", kImages, idx_images(2, 2, 0, 0), "images of 2x0 pixels"},
      {"HugeSide", kImages, idx_images(1, 1u << 31, 1, 12), "images of 2147483648x1 pixels"},
      {"ProductWraps", kImages, idx_images(0xFFFFFFFF, 65536, 65536, 12), "do not fit into"},
      {"ProductWrapsToRightSize", kImages, idx_images(1u << 31, 65536, 65536, 0),
       "do not fit into"},
      {"MoreThanMemory", kImages, idx_images(1'000'000'000, 28, 28, 12), "do not fit into"},
      {"FourGigabytesPromised", kImages, idx_images(65536, 256, 256, 12), "has 28 bytes, but"},
      {"PromiseBeyondDeflate", kImages, gzip(idx_images(65536, 256, 256, 12)),
       "over 100 times its"},
      {"GzipCut", kImages, gzip(good).substr(0, 30), "ends too early (the file is truncated"},
      {"GzipCrc", kImages, damaged(gzip(good), 6), "damaged gzip data"},
      {"GzipLength", kImages, damaged(gzip(good), 2), "damaged gzip data"},
      {"GzipBody", kImages, damaged(gzip(good), 20), "damaged gzip data"},
      {"GzipShort", kImages, gzip(good.substr(0, 20)), "ends 8 bytes too early"},
      {"GzipTrailing", kImages, gzip(good + "x"), "more data than its header says"},
      {"TwiceCompressed", kImages, gzip(gzip(good)), "not an IDX file"},
      {"LabelsCut", kLabels, labels.substr(0, 9), "has 9 bytes, but its header announces 10"},
      {"LabelsTrailing", kLabels, labels + "x", "announces 10 (trailing data"},
      {"LabelsZero", kLabels, idx_labels(0, ""), "holds no labels"},
      {"LabelsHuge", kLabels, idx_labels(0xFFFFFFFF, "ab"), "header announces 4294967303"},
      {"CountsDisagree", kLabels, idx_labels(3, "abc"),
       "holds 3 labels, but train-images-idx3-ubyte holds 2 images"},
      {"TestCountsDisagree", kTestLabels, idx_labels(2, "ab"), "holds 2 labels, but t10k"},
      {"LabelsMissing", kLabels, "", "has no train-labels-idx1-ubyte[.gz] (an IDX folder holds"},
      {"TestImagesMissing", kTestImages, "", "has no t10k-images-idx3-ubyte[.gz]"},
      {"SplitsDisagree", kTestImages, idx_images(1, 3, 2, 6),
       "training images are 2x3, test images 3x2"},
  };
}

std::vector<Hostile> hostile_cifar() {
  const std::string good = record(3);
  return {
      {"Missing", "data_batch_5.bin", "", "No such file"},
      {"TestMissing", "test_batch.bin", "", "No such file"},
      {"OneShort", "data_batch_2.bin", good.substr(1), "3072 bytes are not 1 to"},
      {"Trailing", "data_batch_2.bin", good + "x", "3074 bytes are not 1 to"},
      {"SecondCut", "test_batch.bin", good + good.substr(0, 100), "3173 bytes are not 1 to"},
      {"LabelTen", "data_batch_4.bin", good + record(10), "record 1 has label 10"},
      {"Label255", "test_batch.bin", record(255), "record 0 has label 255"},
      {"Compressed", "data_batch_1.bin", gzip(good), "is compressed (gunzip it)"},
      {"CompressedToRecordSize", "data_batch_1.bin", gzip(good) + std::string(3073 * 9, 'x'),
       "is compressed"},
      {"Html", "data_batch_1.bin", "<html>not found</html>", "22 bytes are not 1 to"},
  };
}

template <class Open>
void expect_refusal(const Hostile& hostile, const fs::path& folder, Open open) {
  SCOPED_TRACE(hostile.name);
  const fs::path path = folder / hostile.file;
  fs::remove(path);
  if (!hostile.contents.empty()) put(path, hostile.contents);
  const auto pair = open(folder);
  ASSERT_FALSE(pair);
  EXPECT_EQ(pair.error().kind, ErrorKind::data);
  EXPECT_EQ(pair.error().where.rfind(folder.string(), 0), 0u) << pair.error().where;
  EXPECT_NE(pair.error().message().find(hostile.refusal), std::string::npos)
      << pair.error().message();
}

TEST(IdxFolder, RefusesHostileFiles) {
  for (const Hostile& hostile : hostile_idx()) {
    const test::TemporaryDirectory folder;
    put_idx(folder.path());
    expect_refusal(hostile, folder.path(),
                   [](const fs::path& path) { return open_idx_folder(path); });
  }
}

TEST(IdxFolder, EveryCutIsRefused) {
  const std::string plain = idx_images(2, 2, 3, 12), compressed = gzip(plain);
  const test::TemporaryDirectory folder;
  for (const std::string& whole : {plain, compressed})
    for (std::size_t length = 0; length < whole.size(); ++length) {
      put(folder / "cut", whole.substr(0, length));
      EXPECT_FALSE(read_idx_images(folder / "cut")) << length << " of " << whole.size();
    }
}

TEST(IdxFolder, RefusesGzipBombs) {
  const test::TemporaryDirectory folder;
  put(folder / "bomb", gzip(idx_images(16, 256, 256, 0) + std::string(16 << 16, '\0')));
  EXPECT_TRUE(read_idx_images(folder / "bomb", 1 << 20)) << "exactly at the limit";
  const auto refused = read_idx_images(folder / "bomb", (1 << 20) - 1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("do not fit into 1048575 bytes"), std::string::npos);
}

TEST(IdxFolder, RefusesWhatIsNotARegularFile) {
  const test::TemporaryDirectory folder;
  fs::create_directory(folder / "folder");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"folder", "pipe"}) {
    const auto refused = read_idx_labels(folder / name);
    ASSERT_FALSE(refused) << name;
    EXPECT_NE(refused.error().message().find("not a regular file"), std::string::npos)
        << refused.error().message();
  }
}

TEST(CifarFolder, RefusesHostileFiles) {
  for (const Hostile& hostile : hostile_cifar()) {
    const test::TemporaryDirectory folder;
    put_cifar(folder.path());
    expect_refusal(hostile, folder.path(),
                   [](const fs::path& path) { return open_cifar_folder(path); });
  }
}

}  // namespace
}  // namespace omni
