// These tests check --hold-out, which divides a training set into a training and a test set, for
// every kind of data. Only the seed decides which samples are held out. The tests also open class
// folders without a test set.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/data/damaged_images.hpp"
#include "runtime/data/memory_dataset.hpp"
#include "runtime/data/open.hpp"
#include "runtime/data/subset.hpp"
#include "runtime/tasks/slices.hpp"
#include "tests/support/images/image_folder.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;
using test::put;

// Sample i has the class of letter i of `classes`. Its only pixel has the value i.
DatasetPair letters(const std::string& classes) {
  ImageSet set{.extent = {1, 1, 1}, .classes = 26};
  for (std::size_t i = 0; i < classes.size(); ++i) {
    set.pixels.push_back(static_cast<std::uint8_t>(i));
    set.labels.push_back(static_cast<std::uint8_t>(classes[i] - 'a'));
  }
  DatasetPair pair;
  pair.train = std::make_unique<MemoryDataset>(set);
  pair.test = std::make_unique<MemoryDataset>(set);
  pair.name = "letters";
  return pair;
}

std::vector<int> pixels_of(const Dataset& data) {
  std::vector<int> pixels;
  for (std::size_t i = 0; i < data.size(); ++i) {
    Image image;
    EXPECT_TRUE(data.read(i, {}, image));
    pixels.push_back(image.pixels.at(0));
  }
  return pixels;
}

std::vector<int> held_out(const std::string& classes, double share, std::uint64_t seed) {
  DatasetPair pair = letters(classes);
  const Status done = hold_out(pair, share, seed);
  EXPECT_TRUE(done) << done.error().message();
  return pixels_of(*pair.test);
}

TEST(HoldOut, EverySampleIsInOneOfTheParts) {
  const std::string classes = "aaaaaaaaaabbbbbbbbbbbbbbbbbbbbcccdde";
  DatasetPair pair = letters(classes);
  ASSERT_TRUE(hold_out(pair, 0.3, 7));
  std::map<int, int> held, stayed;
  std::set<int> all;
  for (const auto& [part, counts] :
       {std::pair(pair.train.get(), &stayed), {pair.test.get(), &held}})
    for (std::size_t i = 0; i < part->size(); ++i) {
      const int pixel = pixels_of(*part)[i];
      EXPECT_EQ(part->label(i), classes[static_cast<std::size_t>(pixel)] - 'a');
      EXPECT_EQ(part->name_of(i), "sample " + std::to_string(pixel));
      EXPECT_TRUE(all.insert(pixel).second) << "in both";
      ++(*counts)[part->label(i)];
    }
  EXPECT_EQ(all.size(), classes.size());
  // Of each class 30 % of the samples are held out. A class of two loses one sample, a class of one
  // none.
  EXPECT_EQ(held, (std::map<int, int>{{0, 3}, {1, 6}, {2, 1}, {3, 1}}));
  EXPECT_EQ(stayed, (std::map<int, int>{{0, 7}, {1, 14}, {2, 2}, {3, 1}, {4, 1}}));
  EXPECT_EQ(pair.name, "letters#hold-out=0.3,seed=7");
  EXPECT_EQ(pair.train->description(),
            "36 images 1x1x1, 26 classes, from ; 25 to train on, 11 held out to test");
}

TEST(HoldOut, TheSeedDraws) {
  const std::string classes(100, 'a');
  const std::vector<int> seven = held_out(classes, 0.1, 7);
  EXPECT_EQ(seven.size(), 10u);
  EXPECT_EQ(held_out(classes, 0.1, 7), seven);
  EXPECT_NE(held_out(classes, 0.1, 8), seven);
  // All samples are held out with the same probability.
  std::vector<int> times(100);
  for (std::uint64_t seed = 0; seed < 1000; ++seed)
    for (const int index : held_out(classes, 0.1, seed)) ++times[static_cast<std::size_t>(index)];
  EXPECT_GT(*std::ranges::min_element(times), 60);
  EXPECT_LT(*std::ranges::max_element(times), 145);
  // More samples of class b do not change which samples of class a are held out.
  const std::vector<int> more = held_out(classes + "bbbb", 0.1, 7);
  EXPECT_EQ(std::vector<int>(more.begin(), more.begin() + 10), seven);
}

TEST(HoldOut, NeedsAClassWithTwoSamples) {
  DatasetPair pair = letters("abc");
  const Status done = hold_out(pair, 0.5, 1);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message(),
            "--hold-out 0.5: no class has two samples, one to train on, one to test (give more "
            "samples)");
  EXPECT_EQ(held_out("aa", 0.001, 1).size(), 1u);
  EXPECT_EQ(held_out("aa", 0.999, 1).size(), 1u);
}

class HoldOutOf : public testing::Test {
 protected:
  HoldOutOf() {
    test::make_image_folder(folder_ / "set", 10, 2);
    test::make_image_folder(folder_ / "classes/deep", 10, 0);
    fs::rename(folder_ / "classes/deep/train", folder_ / "photos");
    std::string list, paths, vectors;
    for (int i = 0; i < 10; ++i) {
      const std::string number = std::to_string(i);
      for (const char* name : {"blue", "red"}) {
        const std::string path = std::string("set/train/") + name + "/" + number + ".jpg";
        paths += path + "\n";
        list += path + (name[0] == 'b' ? " 0\n" : " 1\n");
      }
      vectors += "1 1:" + number + "\n-1 2:" + number + "\n";
    }
    put(folder_ / "list", list);
    put(folder_ / "paths", paths);
    put(folder_ / "names", "blue\nred\n");
    put(folder_ / "only.data", "train = paths\nnames = names\n");
    put(folder_ / "a.svm", vectors);
  }
  Result<DatasetPair> open(const std::string& source, double share, bool test = true,
                           bool flat = false) const {
    return open_dataset({.source = source,
                         .net_input = flat ? Extent{1, 1, 2} : Extent{8, 8, 3},
                         .flat = flat,
                         .classes = 10,
                         .seed = 3,
                         .test = test,
                         .hold_out = share});
  }
  // Expects these numbers of training and test samples. Opening the data again, or without a test
  // set, gives the same training samples.
  void expect_parts(const std::string& source, std::size_t train, std::size_t test,
                    bool flat = false) const {
    SCOPED_TRACE(source);
    const auto pair = open(source, 0.2, true, flat), again = open(source, 0.2, true, flat),
               untested = open(source, 0.2, false, flat);
    for (const auto* each : {&pair, &again, &untested})
      ASSERT_TRUE(*each) << each->error().message();
    EXPECT_EQ(pair->train->size(), train);
    ASSERT_TRUE(pair->test);
    EXPECT_EQ(pair->test->size(), test);
    EXPECT_EQ(untested->test, nullptr);
    EXPECT_EQ(untested->name, pair->name);
    EXPECT_TRUE(pair->name.ends_with("#hold-out=0.2,seed=3")) << pair->name;
    for (const auto* other : {&again, &untested})
      for (std::size_t i = 0; i < train; ++i)
        EXPECT_EQ((*other)->train->name_of(i), pair->train->name_of(i));
    EXPECT_EQ(pair->train->class_names(), pair->test->class_names());
    EXPECT_EQ(pair->train->holds_vectors(), flat);
  }
  std::string at(const std::string& name) const { return folder_ / name; }

  test::TemporaryDirectory folder_;
};

TEST_F(HoldOutOf, EverySource) {
  expect_parts("synthetic:50:5", 40, 10);
  expect_parts("synthetic-vectors:50:2:5", 40, 10, true);
  expect_parts(at("set"), 24, 6);
  expect_parts(at("photos"), 24, 6);
  expect_parts(at("list"), 16, 4);
  expect_parts(at("list") + "," + at("list"), 16, 4);
  expect_parts(at("only.data"), 16, 4);
  expect_parts(at("a.svm"), 16, 4, true);
  expect_parts(at("a.svm") + "," + at("a.svm"), 16, 4, true);
}

TEST_F(HoldOutOf, IdxAndCifarFiles) {
  std::string images("\0\0\x08\x03\0\0\0\x14\0\0\0\1\0\0\0\1", 16),
      labels("\0\0\x08\x01\0\0\0\x14", 8), batch;
  for (char i = 0; i < 20; ++i) {
    images += i;
    labels += static_cast<char>(i % 2);
  }
  for (char i = 0; i < 4; ++i) batch += static_cast<char>(i % 2) + std::string(3072, i);
  fs::create_directories(at("idx"));
  fs::create_directories(at("cifar"));
  put(folder_ / "idx/train-images-idx3-ubyte", images);
  put(folder_ / "idx/train-labels-idx1-ubyte", labels);
  for (int i = 1; i <= 5; ++i)
    put(folder_ / ("cifar/data_batch_" + std::to_string(i) + ".bin"), batch);
  const auto idx = open_dataset({.source = at("idx"), .net_input = {8, 8, 1}, .hold_out = 0.2});
  ASSERT_TRUE(idx) << idx.error().message();
  EXPECT_EQ(idx->train->size(), 16u);
  EXPECT_EQ(idx->test->size(), 4u);
  expect_parts(at("cifar"), 16, 4);
}

TEST_F(HoldOutOf, ClassFoldersNeedIt) {
  const auto refused = open(at("photos"), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_EQ(refused.error().message(),
            at("photos") +
                ": has class folders, but neither train/ nor val/ (put them under train/, some of "
                "their images under val/; or give --hold-out 0.1, which tests on a tenth of them)");
  const auto all = open(at("photos"), 0, false);
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_EQ(all->train->size(), 30u);
  EXPECT_EQ(all->train->class_names(), (std::vector<std::string>{"blue", "green", "red"}));

  // Folders beside val/ with other names than train/ are not taken for classes.
  for (const char* name : {"Train", "training", "others"}) {
    fs::rename(at("set/train"), at("set/") + name);
    for (const double share : {0.0, 0.2}) {
      const auto without_train = open(at("set"), share);
      ASSERT_FALSE(without_train);
      EXPECT_EQ(without_train.error().message(),
                at("set") + ": has " + (name[0] == 'o' ? "val" : name) +
                    "/, but no train/ (put the class folders with the images to train on into "
                    "train/)");
    }
    fs::rename(at("set/") + name, at("set/train"));
  }
}

TEST_F(HoldOutOf, CopiesAreMadeOnce) {
  const auto pair = open(at("photos"), 0.2);
  ASSERT_TRUE(pair) << pair.error().message();
  fs::create_directory(at("node"));
  ASSERT_TRUE(pair->train->stage(at("node")));
  ASSERT_TRUE(pair->test->stage(at("node")));
  EXPECT_EQ(test::entries_in(at("node")), 1);
  fs::remove_all(at("photos"));
  for (const Dataset* each : {pair->train.get(), pair->test.get()})
    for (std::size_t i = 0; i < each->size(); ++i) {
      Image image;
      EXPECT_TRUE(each->read(i, {}, image));
    }
}

TEST_F(HoldOutOf, DamagedFilesAreSkippedInTheirPart) {
  auto pair = open(at("photos"), 0.2);
  ASSERT_TRUE(pair) << pair.error().message();
  const std::string trained = pair->train->name_of(0), tested = pair->test->name_of(1);
  for (const std::string& name : {trained, tested}) put(name, "");
  const int label = pair->train->label(0);
  pair->train = skip_damaged_images(std::move(pair->train), 0.1, true);
  pair->test = skip_damaged_images(std::move(pair->test), 0.2, false);
  EXPECT_EQ(pair->train->name_of(0), trained);
  Image image, next;
  ASSERT_TRUE(pair->train->read(0, {}, image));
  ASSERT_TRUE(pair->train->read(1, {}, next));  // of the same class, and of the same part
  ASSERT_EQ(pair->train->label(1), label);
  EXPECT_EQ(image.pixels, next.pixels);
  ASSERT_TRUE(pair->test->read(1, {}, image));
  EXPECT_EQ(pair->test->label(1), kNoLabel);
  for (const auto& [part, index, name] :
       {std::tuple(pair->train.get(), std::uint64_t{0}, trained), {pair->test.get(), 1, tested}}) {
    ASSERT_TRUE(part->damaged());
    EXPECT_EQ(part->damaged()->indices(), std::vector<std::uint64_t>{index});
    EXPECT_EQ(part->damaged()->take_new().at(0).error.where, name);
  }
}

// As without --hold-out, a small share of a list's files may be missing.
TEST_F(HoldOutOf, MissingFilesOfAList) {
  fs::remove(at("set/train/red/5.jpg"));
  const auto open_list = [&](double damaged) {
    return open_dataset({.source = at("list"),
                         .net_input = {8, 8, 3},
                         .seed = 3,
                         .hold_out = 0.2,
                         .damaged = damaged});
  };
  EXPECT_FALSE(open_list(0));
  EXPECT_TRUE(open_list(0.05));
}

}  // namespace
}  // namespace omni
