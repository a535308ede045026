// These tests read LIBSVM files as data sets of vectors, and check the messages about lines that
// cannot be read.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/data/feed/data_feed.hpp"
#include "runtime/data/open.hpp"
#include "runtime/data/vectors/libsvm.hpp"
#include "tests/fuzz/seeds.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

using test::put;
using Floats = std::vector<float>;

Floats vector_of(const Dataset& data, std::size_t index) {
  Image read;
  EXPECT_TRUE(data.read(index, {}, read));
  EXPECT_TRUE(read.pixels.empty());
  return read.values;
}

class Libsvm : public testing::Test {
 protected:
  std::string at(const char* name) const { return folder_ / name; }
  Result<DatasetPair> pair_of(const std::string& train, const std::string& test, int features = 0,
                              bool scale = false) const {
    put(at("train"), train);
    put(at("test"), test);
    return open_libsvm(
        {.train = at("train"), .test = at("test"), .features = features, .scale = scale});
  }
  void refused(const Result<DatasetPair>& pair, const std::string& message) const {
    ASSERT_FALSE(pair) << message;
    EXPECT_EQ(pair.error().kind, ErrorKind::data);
    EXPECT_EQ(pair.error().message(), folder_ / message);
  }
  void train_refused(const std::string& train, const std::string& message) const {
    refused(pair_of(train, "1 1:1\n"), "train:" + message);
  }
  Result<DatasetPair> open(const std::string& source, Extent input = {1, 1, 3}, bool flat = true,
                           bool test = true, bool scale = false) const {
    return open_dataset({.source = source,
                         .net_input = input,
                         .flat = flat,
                         .test = test,
                         .scale_features = scale});
  }

  test::TemporaryDirectory folder_;
};

TEST_F(Libsvm, is_read_as_written) {
  const auto pair =
      pair_of("# a comment\n\n+1 1:0.5 3:-2e1 # another\r\n  -1\t2:+3  \n1\n", "-1 3:1\n1.0 1:7");
  ASSERT_TRUE(pair) << pair.error().message();
  const Dataset& train = *pair->train;
  EXPECT_EQ(train.size(), 3u);
  EXPECT_EQ(train.extent(), (Extent{1, 1, 3}));
  EXPECT_EQ(train.class_names(), (std::vector<std::string>{"-1", "+1"}));
  EXPECT_EQ(train.description(), "3 vectors of 3 features, 2 classes, from " + at("train"));
  EXPECT_EQ((std::vector{train.label(0), train.label(1), train.label(2)}), (std::vector{1, 0, 1}));
  EXPECT_EQ(vector_of(train, 0), (Floats{0.5f, 0, -20}));
  EXPECT_EQ(vector_of(train, 1), (Floats{0, 3, 0}));
  EXPECT_EQ(vector_of(train, 2), (Floats{0, 0, 0}));
  EXPECT_EQ(vector_of(*pair->test, 1), (Floats{7, 0, 0}));
  EXPECT_EQ(pair->test->label(1), 1);
}

TEST_F(Libsvm, classes_are_the_sorted_labels) {
  const auto pair = pair_of("10 1:1\n-3 1:1\n2 1:1\n10 1:1\n", "2 1:1\n");
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_EQ(pair->train->class_names(), (std::vector<std::string>{"-3", "2", "10"}));
  EXPECT_EQ(pair->train->label(0), 2);
  EXPECT_EQ(pair->train->label(1), 0);
  EXPECT_EQ(pair->test->label(0), 1);
}

TEST_F(Libsvm, has_as_many_features_as_the_net_takes) {
  const auto pair = pair_of("0 2:1\n", "0 4:1\n", 4);
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_EQ(vector_of(*pair->train, 0), (Floats{0, 1, 0, 0}));
  EXPECT_EQ(vector_of(*pair->test, 0), (Floats{0, 0, 0, 1}));
  EXPECT_EQ(pair_of("0 2:1\n", "0 1:1\n", 1)->train->extent().c, 2);
}

// Feature 1 ranges from -1 to 3, feature 2 from 0 (in lines that do not name it) to 4. Feature 3 is
// constant, and no line of the training file names feature 4.
TEST_F(Libsvm, scales_by_the_range_of_the_training_file) {
  const auto pair =
      pair_of("0 1:-1 2:4 3:7\n0 1:3 3:7\n0 1:1 2:1 3:7\n", "0 1:5 2:2 3:9 4:1\n0\n", 4, true);
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_EQ(vector_of(*pair->train, 0), (Floats{0, 1, 0, 0}));
  EXPECT_EQ(vector_of(*pair->train, 1), (Floats{1, 0, 0, 0}));
  EXPECT_EQ(vector_of(*pair->train, 2), (Floats{0.5f, 0.25f, 0, 0}));
  EXPECT_EQ(vector_of(*pair->test, 0), (Floats{1.5f, 0.5f, 0, 0}));
  EXPECT_EQ(vector_of(*pair->test, 1), (Floats{0.25f, 0, 0, 0}));
}

TEST_F(Libsvm, other_contents_are_other_data) {
  const std::string name = pair_of("0 1:1 2:2\n", "0 1:1\n")->name;
  EXPECT_EQ(name.substr(0, name.find('#')), std::filesystem::canonical(at("train")));
  EXPECT_EQ(pair_of("0 1:1 2:2\n", "0 1:2\n")->name, name);
  EXPECT_NE(pair_of("1 1:1 2:2\n1\n", "1 1:1\n")->name, name);
  EXPECT_NE(pair_of("0 1:1 2:3\n", "0 1:1\n")->name, name);
  EXPECT_NE(pair_of("0 1:1 3:2\n", "0 1:1\n")->name, name);
  EXPECT_NE(pair_of("0 1:1 2:2\n", "0 1:1\n", 0, true)->name, name);
}

TEST_F(Libsvm, malformed_lines_are_refused) {
  const std::string line = " (a line is: label index:value index:value ...)";
  train_refused("1 1:1\n1:1 2:1\n", "2: has no label before '1:1'" + line);
  const std::string labels = " (labels name classes: 0 1, -1 +1, or any other integers)";
  for (const std::string label : {"cat", "0.5", "nan", "1e16", "+-1", "1,2"})
    train_refused(label + " 1:1\n", "1: label '" + label + "' is no integer" + labels);
  for (const std::string word : {"1", "1:", ":1", "a:1", "1:b", "1:nan", "1:inf", "1:1e39", "1.5:1",
                                 "1:2:3", "qid:3", "99999999999999999999:1"})
    train_refused("1 " + word + "\n",
                  "1: '" + word + "' is no index:value of finite numbers" + line);
  train_refused("1 0:1\n", "1: index 0: indices count from 1 (add 1 to all indices)");
  train_refused("1 -4:1\n", "1: index -4: indices count from 1 (add 1 to all indices)");
  const std::string sorted = " (sort the indices of a line; each may be there once)";
  train_refused("\n1 2:1 1:1\n", "2: index 1 follows index 2" + sorted);
  train_refused("1 2:1 2:1\n", "1: index 2 follows index 2" + sorted);
  train_refused("1 4000000000:1\n",
                "1: index 4000000000 is beyond 16777216 features (no net takes more)");
  train_refused("1 1:1\n1 1:\x1b[2J\n", "2: is no text (is this the right file?)");
  train_refused("1 1:1 " + std::string(2 << 20, ' ') + "2:1\n",
                "1: is too long (is this the right file?)");
  refused(pair_of("# nothing\n", "1 1:1\n"), "train: holds no vectors" + line);
  refused(pair_of("", "1 1:1\n"), "train: is empty");
}

TEST_F(Libsvm, a_test_file_has_what_training_has) {
  refused(pair_of("0 2:1\n", "0 1:1\n0 3:1\n"),
          "test:2: index 3 is beyond 2 features (the training file has no more; a net with "
          "inputs=3 has room)");
  refused(pair_of("0 2:1\n1 1:1\n", "0 1:1\n2 1:1\n"),
          "test:2: the training file has no label '2' (do the two files belong together?)");
}

TEST_F(Libsvm, has_so_many_classes_at_most) {
  std::string lines;
  for (int label = 0; label <= 1 << 16; ++label) lines += std::to_string(label) + "\n";
  train_refused(lines,
                "65537: is of one more than 65536 classes (are the labels quantities? only classes "
                "can be learned)");
}

TEST_F(Libsvm, takes_so_much_memory_at_most) {
  put(at("train"), "1 1:1\n1 1:1\n1 1:1\n");
  EXPECT_TRUE(open_libsvm({.train = at("train"), .limit = 60}));
  refused(open_libsvm({.train = at("train"), .limit = 59}),
          "train:3: the vectors up to here take 0 MiB, more than a quarter of the memory (train on "
          "a part of the file)");
}

TEST_F(Libsvm, is_told_from_lists) {
  const auto is = [&](const char* name, const std::string& text) {
    put(at(name), text);
    return is_libsvm(at(name));
  };
  EXPECT_TRUE(is("w8a", "\n# comment\n-1 3:1 7:1\n"));
  EXPECT_TRUE(is("nothing.svm", "x"));
  EXPECT_TRUE(is("nothing.libsvm.gz", "x"));
  EXPECT_TRUE(is("packed", test::gzipped("+1 1:2\n")));
  EXPECT_FALSE(is("list", "a/b:3.jpg 7\n"));
  EXPECT_FALSE(is("list", "1 2\n"));
  EXPECT_FALSE(is("x.data", "train = a:list\n"));
  EXPECT_FALSE(is("list", ""));
  EXPECT_FALSE(is_libsvm(folder_.path()));
  EXPECT_FALSE(is_libsvm(at("nowhere")));
}

TEST_F(Libsvm, is_named_as_one_file_or_two) {
  put(at("a"), "0 1:1\n1 3:1\n");
  put(at("b.svm.gz"), test::gzipped("1 2:1\n"));
  const auto both = open(at("a") + "," + at("b.svm.gz"));
  ASSERT_TRUE(both) << both.error().message();
  EXPECT_EQ(vector_of(*both->test, 0), (Floats{0, 1, 0}));
  EXPECT_EQ(open(at("a"), {1, 1, 3}, true, false)->test, nullptr);
  EXPECT_EQ(open(at("a") + ",/nowhere", {1, 1, 3}, true, false)->test, nullptr);
  const auto message = [](const Result<DatasetPair>& pair) {
    return pair ? "read" : pair.error().message();
  };
  EXPECT_EQ(message(open(at("a"))), at("a") +
                                        ": one LIBSVM file alone has no test vectors (give two, "
                                        "train.svm,test.svm, or --hold-out 0.1, or --no-test)");
  EXPECT_EQ(message(open(at("a"), {1, 1, 2}, true, false)),
            at("a") + ": has 3 values per image, but the net wants 2 (give the net inputs=3)");
  EXPECT_EQ(message(open(at("a"), {28, 28, 3}, false, false)),
            at("a") +
                ": holds vectors, but the net takes images (give the net inputs=3, in place "
                "of height, width and channels)");
  EXPECT_NE(message(open(at("a") + ",/nowhere")).find("/nowhere: cannot open"), std::string::npos);
  EXPECT_EQ(message(open("synthetic:8", {1, 1, 3}, true, true, true)),
            "--scale-features: 'synthetic:8' is no LIBSVM file (leave it out)");
  EXPECT_EQ(vector_of(*open(at("a"), {1, 1, 4}, true, false, true)->train, 1),
            (Floats{0, 0, 1, 0}));
}

// The values reach the net unchanged, whatever augmentation the options ask for.
TEST_F(Libsvm, fills_batches) {
  const auto pair = pair_of("0 1:-300.5\n1 2:1e-3\n", "0 1:1\n");
  ASSERT_TRUE(pair) << pair.error().message();
  const std::vector<std::size_t> indices{1, 0};
  const AugmentOptions options{.max_crop = 9, .angle = 90, .flip = true, .flat = true};
  Floats batch(4);
  ASSERT_TRUE(
      fill_batch(*pair->train, indices, 0, options, 1, true, Extent{1, 1, 2}, batch.data()));
  EXPECT_EQ(batch, (Floats{0, 1e-3f, -300.5f, 0}));
  // The feed delivers floats to GPUs, too, because bytes could not hold these values.
  const auto bytes = [&](bool unpack_apart) {
    return DataFeed(*pair->train, {.augment = options,
                                   .net_input = {1, 1, 2},
                                   .slices = Slices::cut(8, 8),
                                   .unpack_apart = unpack_apart})
        .bytes();
  };
  EXPECT_EQ(bytes(true), bytes(false));
}

}  // namespace
}  // namespace omni
