// These tests read small or sparse files that ask for much memory. They must be refused or read
// within 100 MB.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "codelets/cuda/choice_table.hpp"
#include "layers/formats/safetensors.hpp"
#include "perf/report/metrics_file.hpp"
#include "runtime/data/cifar_files.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/idx_files.hpp"
#include "runtime/data/images/image.hpp"
#include "runtime/data/open.hpp"
#include "runtime/log.hpp"
#include "scheduling/training/metrics_log.hpp"
#include "tests/fuzz/seeds.hpp"

namespace omni::test {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kMostMemory = 1'000'000'000;  // the sanitizer keeps what was freed
#else
constexpr std::size_t kMostMemory = 100'000'000;
#endif

// Runs `call` in a process of its own, and returns the most bytes that were resident in it. What
// `call` returns, the message of a refusal or "read", must contain `expected`.
std::size_t peak_of(const std::function<std::string()>& call, const std::string& expected = "") {
  const TemporaryDirectory folder;
  const pid_t child = fork();
  if (child == 0) {
    put(folder / "said", call());
    _exit(0);
  }
  int status = 0;
  rusage used{};
  EXPECT_EQ(wait4(child, &status, 0, &used), child);
  EXPECT_EQ(status, 0) << expected;
  const std::string said = get(folder / "said");
  EXPECT_NE(said.find(expected), said.npos) << said;
  return static_cast<std::size_t>(used.ru_maxrss) * 1024;
}

void expect_small(const std::function<std::string()>& call, const std::string& expected) {
  const std::size_t base = peak_of([] { return ""; });
  EXPECT_LT(peak_of(call, expected), base + kMostMemory) << expected;
}

template <class T>
std::string message_of(const Result<T>& result) {
  return result ? "read" : result.error().message();
}

class Bombs : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }
  // Writes `head` and zeros up to 300 MB. The sparse file takes no room on the disk.
  std::string zeros(const std::string& name, const std::string& head = "") const {
    put(at(name), head);
    std::filesystem::resize_file(at(name), 300'000'000);
    return at(name);
  }
  std::string repeated(const std::string& name, const std::string& head, const std::string& text,
                       std::size_t bytes) const {
    std::ofstream file(at(name), std::ios::binary);
    std::string block;
    while (block.size() < 1 << 20) block += text;
    file << head;
    for (std::size_t written = 0; written < bytes; written += block.size()) file << block;
    return at(name);
  }
  // Writes a gzip file of `head` and 300 MB of `fill`. The file has a few MB at most.
  std::string gzip_bomb(const std::string& name, const std::string& head, char fill = 0) const {
    const gzFile file = gzopen(at(name).c_str(), "wb1");
    gzwrite(file, head.data(), static_cast<unsigned>(head.size()));
    const std::string block(1'000'000, fill);
    for (int i = 0; i < 300; ++i) gzwrite(file, block.data(), static_cast<unsigned>(block.size()));
    gzclose(file);
    return at(name);
  }
  void refuses_data(const std::string& source, const std::string& expected) const {
    expect_small([=] { return message_of(open_dataset({.source = source, .net_input = {}})); },
                 expected);
  }

  TemporaryDirectory folder_;
};

TEST_F(Bombs, CompressedImagesAndLabels) {
  const std::string count("\x11\xe1\xa3\x00", 4);  // 3e8
  const auto images =
      gzip_bomb("images", idx_file('\3', count + std::string("\0\0\0\1\0\0\0\1", 8), ""));
  const auto labels = gzip_bomb("labels", idx_file('\1', count, ""));
  expect_small([=] { return message_of(read_idx_images(images)); }, "over 100 times its");
  expect_small([=] { return message_of(read_idx_labels(labels)); }, "over 100 times its");
}

TEST_F(Bombs, ManyCifarRecords) {
  zeros("data_batch_1.bin");
  std::filesystem::resize_file(at("data_batch_1.bin"), 1'000'001ULL * 3073);
  refuses_data(folder_.path(), "are not 1 to 1000000 records");
}

TEST_F(Bombs, CifarTakesTwiceItsFilesAtMost) {
  constexpr std::size_t kBytes = 70'000 * 3073;
  for (int i = 1; i <= 5; ++i) {
    const std::string path = zeros("data_batch_" + std::to_string(i) + ".bin");
    std::filesystem::resize_file(path, i == 1 ? kBytes : 3073);
  }
  const std::size_t base = peak_of([] { return ""; });
  const auto read = [&] { return message_of(open_cifar_folder(folder_.path(), false)); };
  EXPECT_LT(peak_of(read, "read"), base + 2 * kBytes + kMostMemory);
}

TEST_F(Bombs, ListsThatAreNone) {
  put(at("good"), "a 0\n");
  refuses_data(zeros("zeros") + "," + at("good"), "zeros:1: is no text");
  refuses_data(repeated("long", "", "x", 100 << 20) + "," + at("good"), "long:1: is too long");
  refuses_data(repeated("empty", "", "\n", 30 << 20) + "," + at("good"), "empty: is empty");
  refuses_data(repeated("gap", "a 0\n", "\n", 30 << 20) + "," + at("good"), "there is no");
}

TEST_F(Bombs, ListsCostHardlyMoreThanTheirFiles) {
  const auto list = repeated("list", "", "a 0\n", 16 << 20);
  refuses_data(list + "," + list, "list:1: there is no 'a'");
}

TEST_F(Bombs, Vectors) {
  put(at("good.svm"), "1 1:1\n");
  const auto refused = [&](const std::string& file, const std::string& expected) {
    refuses_data(file + "," + at("good.svm"), expected);
  };
  refused(repeated("wide.svm", "", "1 4000000000:1\n", 10 << 20),
          "wide.svm:1: index 4000000000 is beyond 16777216 features");
  refused(repeated("long.svm", "1", " 1:1", 10 << 20), "long.svm:1: is too long");
  refused(repeated("empty.svm", "", "# 1\n", 30 << 20), "empty.svm: holds no vectors");
  refused(zeros("zeros.svm"), "zeros.svm:1: is no text");
  refused(gzip_bomb("packed.svm", "1\n", '\n'), "packed.svm: holds over 100 times its");
}

// With one value for every possible feature, these vectors would fill the memory.
TEST_F(Bombs, VectorsCostSomeTimesTheirFiles) {
  const auto file = repeated("sparse.svm", "", "1 16777216:1\n", 16 << 20);
  refuses_data(file + "," + at("sparse.svm"), "read");
}

TEST_F(Bombs, NamesAndDataFiles) {
  put(at("list"), "a\n");
  repeated("names", "", "a\n", 8 << 20);
  put(at("many.data"), "train=list\nvalid=list\nnames=names\n");
  refuses_data(at("many.data"), "names:1048577: is beyond 1048576 classes");
  refuses_data(repeated("long.data", "", "a=b\nc=\n", 20 << 20), "long.data:2: is not key = value");
  refuses_data(repeated("empty.data", "", "\n", 30 << 20), "empty.data: is empty");
}

TEST_F(Bombs, SafetensorsHeaders) {
  const auto refused = [&](const std::string& head, const std::string& text,
                           const std::string& expected) {
    const std::string path = repeated("x.safetensors", std::string(8, '\0') + head, text, 8 << 20);
    std::uint64_t length = std::filesystem::file_size(path) - 8;
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), 8);
    file.close();
    expect_small([=] { return message_of(read_safetensors(path)); }, expected);
  };
  refused("{\"a\":{\"shape\":[", "0,", "more than 8 dimensions");
  refused("{\"__metadata__\":{\"", std::string(2 << 20, 'x'), "not valid JSON");
  refused("{", "\"a\":{},", "a tensor needs dtype");
  put(at("long"), std::string("\0\xe1\xf5\5\0\0\0\0{", 9));
  expect_small([&] { return message_of(read_safetensors(at("long"))); },
               "claims a header of 100000000 bytes");
}

TEST_F(Bombs, ManyTensorsAndMetadata) {
  static constexpr std::string_view kLetters =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr std::size_t kLongestHeader = 10'000'000;
  std::string tensors = "{", metadata = "{\"__metadata__\":{";
  for (const char a : kLetters)
    for (const char b : kLetters)
      for (const char c : kLetters)
        if (tensors.size() < kLongestHeader - 100)
          tensors +=
              std::string{'"', a, b, c} + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)";
  tensors.back() = '}';
  for (int i = 0; i < 100'000; ++i) metadata += "\"" + std::to_string(i) + "\":\"\",";
  const auto takes_little = [&](const std::string& header, const std::string& expected) {
    const std::uint64_t length = header.size();
    put(at("x"), std::string(reinterpret_cast<const char*>(&length), 8) + header);
    expect_small([&] { return message_of(read_safetensors(at("x"))); }, expected);
  };
  takes_little(tensors, "read");
  takes_little(metadata, "more than 4096 keys");
}

TEST_F(Bombs, ProgressiveJpeg) {
  const std::string path = at("big.jpg");
  const auto make = [&](int rows) {
    const pid_t child = fork();  // what makes it takes the memory, too
    if (child == 0) {
      constexpr int kSide = 8192;
      const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(kSide * rows), 99);
      put(path, make_jpeg(rows, kSide, pixels, {.progressive = true, .colours = JCS_GRAYSCALE}));
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    ASSERT_LT(std::filesystem::file_size(path), 3'000'000u);
  };
  const auto read = [=] { return message_of(read_image(path, {28, 28})); };
  make(5760);
  expect_small(read, "read");
  make(5768);
  expect_small(read, "big.jpg: has 8192x5768 pixels in several scans: they take 90 MiB to put");
}

TEST_F(Bombs, Png) {
  const auto in_a_child = [](auto make) {  // what makes a file takes the memory, too
    const pid_t child = fork();
    if (child == 0) {
      make();
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  };
  const auto reads = [&](const std::string& name, const std::string& expected) {
    EXPECT_LT(std::filesystem::file_size(at(name)), 1'000'000u);
    expect_small([=, path = at(name)] { return message_of(read_image(path, {28, 28})); }, expected);
  };
  constexpr int kSide = 8192;
  in_a_child([&] {
    const std::vector<std::uint8_t> pixels(kSide * kSide + kSide * kSide / 2, 99);
    const auto save = [&](const std::string& name, int rows, const PngKind& kind) {
      put(at(name), make_png(rows, kSide, pixels, kind));
    };
    save("large", kSide, {.colours = PNG_COLOR_TYPE_GRAY, .compression = 1});
    save("woven", kSide / 2 - 256, {.interlaced = true, .compression = 1});
    save("wide woven", kSide / 2 - 248, {.interlaced = true, .compression = 1});
  });
  reads("large", "read");
  reads("woven", "read");
  reads("wide woven", "has 8192x3848 pixels interlaced: they take 90 MiB to put together");

  // Chunks that are not needed must not be unpacked.
  const std::map<std::string, std::string> heads{
      {"zTXt", {"a\0\0", 3}}, {"iCCP", {"a\0\0", 3}}, {"iTXt", {"a\0\1\0\0\0", 6}}};
  in_a_child([&] {
    const std::string zeros(150'000'000, '\0');
    std::string stream(1'000'000, '\0');
    uLongf size = stream.size();
    compress2(reinterpret_cast<Bytef*>(stream.data()), &size,
              reinterpret_cast<const Bytef*>(zeros.data()), zeros.size(), 1);
    for (const auto& [name, head] : heads)
      put(at(name), with_chunk(make_png(1, 1, {1, 2, 3}), name, head + stream.substr(0, size)));
  });
  for (const auto& [name, head] : heads) reads(name, "read");
}

TEST_F(Bombs, ImagesThatAreNone) {
  for (const std::string head : {"", "\xff\xd8\xff", "\x89PNG\r\n\x1a\n"})
    expect_small([=, path = zeros("x.jpg", head)] { return message_of(read_image(path, {})); },
                 "x.jpg: 300000000 bytes, at most 67108864 are accepted here");
  expect_small(
      [=, path = zeros("x.ppm", "P6 9999 9999 255\n")] { return message_of(read_image(path, {})); },
      "x.ppm: 300000000 bytes, at most 201330688 are accepted here");
}

TEST_F(Bombs, Metrics) {
  const std::string path = zeros("metrics");
  expect_small([=] { return message_of(perf::read_metrics(path)); }, "metrics: holds no metrics");
  expect_small([=] { return message_of(MetricsLog::open(path, 5)); }, "lines that are no metrics");
  const auto many = repeated("many", "", "{\"iteration\":1}\n", 10 << 20);
  expect_small(
      [=] {
        const auto lines = perf::read_metrics(many);
        return lines && lines->size() > 250'000 && lines->size() <= 500'000 ? "thinned" : "not";
      },
      "thinned");
}

TEST_F(Bombs, ChosenAlgorithms) {
  repeated("cudnn-gpu-9.json", "[", "[],", 8 << 20);
  expect_small(
      [&] {
        const log::Capture said;
        const ChoiceTable table(folder_.path(), "gpu", {.name = "cuDNN", .version = 9});
        return said.text();
      },
      "at most 1048576 are accepted here");
}

}  // namespace
}  // namespace omni::test
