// These tests check which values of --data are accepted, and the messages for all other values.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/data/idx_files.hpp"
#include "runtime/data/open.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;
using test::put;

constexpr Extent kLeNet{28, 28, 1};

class OpenDataset : public testing::Test {
 protected:
  void SetUp() override { ::setenv("OMNIVORE_DATA", home_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("OMNIVORE_DATA"); }

  static Result<DatasetPair> open(const std::string& source, Extent net = kLeNet,
                                  int classes = 10) {
    return open_dataset({.source = source, .net_input = net, .classes = classes});
  }
  static void expect_refused(const Result<DatasetPair>& pair, ErrorKind kind,
                             const std::string& text) {
    ASSERT_FALSE(pair);
    EXPECT_EQ(pair.error().kind, kind) << pair.error().message();
    EXPECT_NE(pair.error().message().find(text), std::string::npos) << pair.error().message();
  }
  // Writes a folder in the IDX format with a training and a test set of one 1x1 image each, of
  // class `label`.
  fs::path put_idx(const char* name, char label = 1) const {
    const fs::path folder = home_ / name;
    fs::create_directories(folder);
    for (const std::string split : {"train", "t10k"}) {
      put(folder / (split + "-images-idx3-ubyte"),
          std::string("\0\0\x08\x03\0\0\0\1\0\0\0\1\0\0\0\1\x7f", 17));
      put(folder / (split + "-labels-idx1-ubyte"), std::string("\0\0\x08\x01\0\0\0\1", 8) + label);
    }
    return folder;
  }
  fs::path put_cifar(const char* name) const {
    const fs::path folder = home_ / name;
    fs::create_directories(folder);
    for (const char* file : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                             "data_batch_5", "test_batch"})
      put(folder / (std::string(file) + ".bin"), std::string(3073, '\0'));
    return folder;
  }

  test::TemporaryDirectory home_;
};

TEST_F(OpenDataset, Folders) {
  const auto idx = open(put_idx("some").string());
  ASSERT_TRUE(idx) << idx.error().message();
  EXPECT_EQ(idx->train->classes(), 2);
  EXPECT_EQ(idx->name, fs::canonical(home_ / "some"));
  const auto cifar = open(put_cifar("other").string(), {28, 28, 3});
  ASSERT_TRUE(cifar) << cifar.error().message();
  EXPECT_EQ(cifar->train->size(), 5u);
}

TEST_F(OpenDataset, FashionMnistPrefersTheUsersFolder) {
  put_idx("fashion-mnist");
  const auto pair = open("fashion-mnist");
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_EQ(pair->train->size(), 1u);
  EXPECT_EQ(pair->train->class_names().at(9), "Ankle boot");
  EXPECT_EQ(pair->name, "fashion-mnist");
}

TEST_F(OpenDataset, FashionMnistOfTheMachine) {
  const auto pair = open("fashion-mnist");
  if (!is_idx_folder("/usr/share/datasets/fashion-mnist")) {
    expect_refused(pair, ErrorKind::usage, "apt-get install dataset-fashion-mnist");
    return;
  }
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_EQ(pair->train->size(), 60'000u);
  EXPECT_EQ(pair->test->size(), 10'000u);
  EXPECT_EQ(pair->train->extent(), (Extent{28, 28, 1}));
  EXPECT_EQ(pair->train->classes(), 10);
  EXPECT_EQ(pair->train->label(0), 9);  // the well-known first image is an ankle boot
}

TEST_F(OpenDataset, CifarByName) {
  expect_refused(open("cifar10"), ErrorKind::usage, "set OMNIVORE_DATA to the folder");
  put_cifar("cifar-10-batches-bin");
  EXPECT_TRUE(open("cifar10"));
  ::unsetenv("OMNIVORE_DATA");
  expect_refused(open("cifar10"), ErrorKind::usage, "not found in $OMNIVORE_DATA");
}

TEST_F(OpenDataset, Synthetic) {
  const auto pair = open("synthetic", {227, 227, 3}, 1000);
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_EQ(pair->train->size(), 50'000u);
  EXPECT_EQ(pair->test->size(), 10'000u);
  EXPECT_EQ(pair->train->extent(), (Extent{227, 227, 3}));
  EXPECT_EQ(pair->train->classes(), 10);
  EXPECT_NE(pair->train->description().find("synthetic"), std::string::npos);

  Image train, test;
  ASSERT_TRUE(pair->train->read(0, {}, train));
  ASSERT_TRUE(pair->test->read(0, {}, test));
  EXPECT_NE(train.pixels, test.pixels);

  EXPECT_EQ(open("synthetic", kLeNet, 3)->train->classes(), 3);
  const auto sized = open("synthetic:1000:200", kLeNet, 200);
  ASSERT_TRUE(sized) << sized.error().message();
  EXPECT_EQ(sized->train->size(), 1000u);
  EXPECT_EQ(sized->test->size(), 200u);
  EXPECT_EQ(sized->test->classes(), 200);
  EXPECT_EQ(open("synthetic:1")->test->size(), 1u);
}

// Every loss of a net has to take all labels. One that a loss ignores may be no class.
TEST_F(OpenDataset, labels_fit_every_loss) {
  const auto with = [&](std::vector<LabelLimit> losses) {
    return open_dataset({.source = put_idx("some", 7).string(),
                         .net_input = kLeNet,
                         .classes = 10,
                         .losses = std::move(losses)});
  };
  EXPECT_TRUE(with({{.classes = 8}, {.classes = 10}}));
  const std::string source = put_idx("some", 7).string();
  expect_refused(with({{.classes = 7, .where = "n.prototxt:5: layer 'aux'"}, {.classes = 10}}),
                 ErrorKind::usage,
                 source +
                     ": has 8 classes, but the loss of n.prototxt:5: layer 'aux' has 7 outputs "
                     "(--classes 8 gives every loss as many outputs)");
  expect_refused(with({{.classes = 9}, {.classes = 5}}), ErrorKind::usage,
                 "but the net has 5 outputs (--classes 8 gives the last layer as many outputs)");
  EXPECT_TRUE(with({{.classes = 5, .ignored = 7}}));
  expect_refused(with({{.classes = 5, .ignored = 6}}), ErrorKind::data,
                 "sample 0: label 7 is out of range: the net has 5 outputs (labels count from 0");
  expect_refused(with({{.classes = 5, .ignored = 7}, {.classes = 4}}), ErrorKind::usage,
                 "the net has 4 outputs");
}

TEST_F(OpenDataset, MalformedSynthetic) {
  for (const char* source :
       {"synthetic:", "synthetic:0", "synthetic:-5", "synthetic:ten", "synthetic:5x",
        "synthetic:5:", "synthetic:5:0", "synthetic:5:2:1", "synthetic:99999999999999999999"})
    expect_refused(open(source), ErrorKind::usage, "synthetic[:IMAGES[:CLASSES]]");
  expect_refused(open("synthetic", {}), ErrorKind::usage, "size of the images is unknown");
}

TEST_F(OpenDataset, RefusalsListTheNames) {
  expect_refused(open("fashon-mnist"), ErrorKind::usage,
                 "fashon-mnist: neither a known dataset nor a file or folder (did you mean "
                 "fashion-mnist?)");
  expect_refused(
      open("holiday"), ErrorKind::usage,
      "holiday: neither a known dataset nor a file or folder (known names: fashion-mnist");
  expect_refused(open(home_.path().string()), ErrorKind::data,
                 "holds no dataset that is understood (known names");
  expect_refused(open((put_idx("some") / "train-images-idx3-ubyte").string()), ErrorKind::usage,
                 "neither a folder nor a .data file (two lists are given as train.txt,val.txt; of "
                 "other files, give their folder)");
  expect_refused(open(""), ErrorKind::usage, "known names");
}

// If no test set is asked for, the files of the test set may be missing.
TEST_F(OpenDataset, WithoutTestImages) {
  const auto train_only = [](const fs::path& source, Extent net = kLeNet) {
    const auto pair =
        open_dataset({.source = source, .net_input = net, .classes = 10, .test = false});
    ASSERT_TRUE(pair) << pair.error().message();
    EXPECT_GT(pair->train->size(), 0u);
    EXPECT_EQ(pair->test, nullptr);
  };
  const fs::path idx = put_idx("idx"), cifar = put_cifar("cifar");
  fs::remove(idx / "t10k-images-idx3-ubyte");
  fs::remove(cifar / "test_batch.bin");
  expect_refused(open(idx), ErrorKind::data, "has no t10k-images-idx3-ubyte");
  expect_refused(open(cifar, {28, 28, 3}), ErrorKind::data, "test_batch.bin");
  fs::create_directories(home_ / "images/train/red");
  put(home_ / "images/train/red/0.ppm", "P6 1 1 255\nrgb");
  put(home_ / "list", "images/train/red/0.ppm 0\n");
  put(home_ / "paths", "images/train/red/0.ppm\n");
  put(home_ / "names", "red\n");
  put(home_ / "x.data", "train = paths\nnames = names\n");
  put(home_ / "y.data", "train = paths\nnames = names\nvalid = nowhere\n");
  expect_refused(open(home_ / "images"), ErrorKind::data, "no images to test on");
  expect_refused(open(home_ / "x.data"), ErrorKind::data, "has no valid=");
  train_only(idx);
  train_only(cifar, {28, 28, 3});
  train_only(home_ / "images");
  train_only(home_ / "x.data");
  train_only(home_ / "y.data");
  train_only(home_ / "list");
  train_only((home_ / "list").string() + ",/nowhere");
  train_only("synthetic:8");
}

TEST_F(OpenDataset, ListsThatAreNotThere) {
  put(home_ / "images.ppm", "P6 1 1 255\nrgb");
  put(home_ / "list", "images.ppm 0\n");
  const std::string list = home_ / "list";
  expect_refused(open(list + ",/nowhere"), ErrorKind::usage, "/nowhere: cannot open");
  expect_refused(open("/nowhere," + list), ErrorKind::usage, "/nowhere: cannot open");
}

TEST_F(OpenDataset, DataMustSuitTheNet) {
  const std::string folder = put_idx("some", 7).string();
  EXPECT_TRUE(open(folder, kLeNet, 8));
  EXPECT_TRUE(open(folder, {}, 0)) << "without a net nothing can be unsuitable";
  expect_refused(open(folder, kLeNet, 7), ErrorKind::usage,
                 "has 8 classes, but the net has 7 outputs (--classes 8 gives the "
                 "last layer as many outputs)");
  EXPECT_TRUE(open(folder, {28, 28, 3}, 8)) << "grey becomes colour";
  expect_refused(open(folder, {28, 28, 2}, 8), ErrorKind::usage,
                 "has images of 1 channels, but the net wants 2 (give the net channels=1)");
}

}  // namespace
}  // namespace omni
