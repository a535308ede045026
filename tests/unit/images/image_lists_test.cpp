// These tests read lists, .data files and folders of images, correct ones and wrong ones.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iterator>

#include "runtime/data/dataset.hpp"
#include "runtime/data/images/image_list.hpp"
#include "runtime/data/open.hpp"
#include "runtime/log.hpp"
#include "tests/support/images/jpeg_writer.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;
using test::put;

class ImageLists : public testing::Test {
 protected:
  // Returns the path of a file in the test's temporary folder.
  fs::path at(const std::string& name) const { return folder_ / name; }
  void file(const std::string& name, const std::string& contents) const {
    fs::create_directories(at(name).parent_path());
    put(at(name), contents);
  }
  void image(const std::string& name, std::uint8_t red = 7) const {
    file(name, test::make_plain_jpeg(4, 5, red, 0, 0));
  }
  Result<DatasetPair> open(const std::string& source, int classes = 0) const {
    return open_dataset({.source = source, .net_input = {4, 4, 3}, .classes = classes});
  }
  Result<DatasetPair> open_at(const std::string& name) const { return open(at(name)); }
  // Compares the message without the name of the temporary folder, which differs in every run.
  void expect_refused(const Result<DatasetPair>& pair, const std::string& text) const {
    ASSERT_FALSE(pair);
    EXPECT_EQ(pair.error().kind, ErrorKind::data) << pair.error().message();
    expect_said(pair.error().message(), text);
  }
  void expect_said(std::string message, const std::string& text) const {
    const std::string root = folder_.path().string() + "/";
    for (std::size_t place; (place = message.find(root)) != std::string::npos;)
      message.erase(place, root.size());
    EXPECT_NE(message.find(text), std::string::npos) << message;
  }
  static int red_of(const Dataset& data, std::size_t index) {
    Image image;
    const Status status = data.read(index, {}, image);
    EXPECT_TRUE(status) << status.error().message();
    return image.pixels.empty() ? -1 : image.pixels[0];
  }

  test::TemporaryDirectory folder_;
};

TEST_F(ImageLists, AreReadFromCopies) {
  image("set/train/cat/a.jpg", 10);
  image("set/train/dog/b.jpg", 100);
  fs::create_directory(at("node"));
  {
    const auto pair = open_dataset({.source = at("set"), .net_input = {4, 4, 3}, .test = false});
    ASSERT_TRUE(pair) << pair.error().message();
    ASSERT_TRUE(pair->train->stage(at("node")));
    fs::remove_all(at("set"));
    EXPECT_NEAR(red_of(*pair->train, 0), 10, 3);
    EXPECT_NEAR(red_of(*pair->train, 1), 100, 3);
    EXPECT_FALSE(fs::is_empty(at("node")));
  }
  EXPECT_TRUE(fs::is_empty(at("node"))) << "copies are deleted";
}

// The copy of a process that was killed is deleted by the next run. Copies of running processes,
// and new copies, are kept.
TEST_F(ImageLists, CopiesThatNobodyUsesAreDeleted) {
  image("set/train/cat/a.jpg");
  const auto staged = [&] {
    auto pair = open_dataset({.source = at("set"), .net_input = {4, 4, 3}, .test = false});
    EXPECT_TRUE(pair && pair->train->stage(at("node")));
    return pair;
  };
  const auto folders = [&] {
    return std::distance(fs::directory_iterator(at("node")), fs::directory_iterator());
  };
  const auto age = [&](const fs::path& folder) {
    fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(1));
  };
  fs::create_directory(at("node"));
  const auto running = staged();
  age(*fs::directory_iterator(at("node")));
  const auto left = fs::path(at("node")) / fmt::format("omnivore-{}-images-abc", geteuid());
  fs::create_directories(left / "0");
  fs::create_directory(fs::path(at("node")) / "other");
  EXPECT_TRUE(staged());
  EXPECT_EQ(folders(), 3) << "the new one may not have its lock yet";
  age(left);
  EXPECT_TRUE(staged());
  EXPECT_FALSE(fs::exists(left));
  EXPECT_EQ(folders(), 2);
}

TEST_F(ImageLists, ACopyThatIsGoneIsNoLoss) {
  image("a.jpg", 10);
  file("train.txt", "a.jpg 0");
  const auto pair =
      open_dataset({.source = at("train.txt"), .net_input = {4, 4, 3}, .test = false});
  ASSERT_TRUE(pair) << pair.error().message();
  fs::create_directory(at("node"));
  ASSERT_TRUE(pair->train->stage(at("node")));
  for (const auto& each : fs::directory_iterator(at("node"))) fs::remove_all(each);
  EXPECT_NEAR(red_of(*pair->train, 0), 10, 3);
}

TEST_F(ImageLists, WhatCannotBeCopiedIsNamedAndLeavesNoCopies) {
  image("a.jpg");
  image("b.jpg");
  file("train.txt", "a.jpg 0\nb.jpg 1");
  const auto pair =
      open_dataset({.source = at("train.txt"), .net_input = {4, 4, 3}, .test = false});
  ASSERT_TRUE(pair) << pair.error().message();
  fs::remove(at("b.jpg"));
  const Status staged = pair->train->stage(folder_.path());
  ASSERT_FALSE(staged);
  EXPECT_EQ(staged.error().kind, ErrorKind::data);
  expect_said(staged.error().message(), "train.txt:2: b.jpg: cannot be copied to omnivore-");
  for (const auto& each : fs::directory_iterator(folder_.path()))
    EXPECT_EQ(each.path().filename().string().find("omnivore-"), std::string::npos) << "no copies";
  const Status nowhere = pair->train->stage(at("nowhere"));
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, ErrorKind::usage);
  expect_said(nowhere.error().message(), "nowhere: cannot hold copies: No such file or directory");
}

TEST_F(ImageLists, LabelledLists) {
  image("a b.jpg", 10);
  image("sub/c.jpg", 100);
  file("train.txt",
       "\xEF\xBB\xBF"
       "a b.jpg 0\r\nsub/c.jpg\t 2\n\n");
  file("val.txt", at("sub/c.jpg").string() + " 3");
  const auto pair = open(at("train.txt").string() + "," + at("val.txt").string());
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_EQ(pair->train->size(), 2u);
  EXPECT_EQ(pair->train->classes(), 4);
  EXPECT_EQ(pair->train->label(0), 0);
  EXPECT_EQ(pair->train->label(1), 2);
  EXPECT_EQ(pair->test->label(0), 3);
  EXPECT_NEAR(red_of(*pair->train, 0), 10, 3);
  EXPECT_NEAR(red_of(*pair->test, 0), 100, 3);
  EXPECT_TRUE(pair->train->has_all_sizes());
  expect_said(pair->train->description(), "2 image files, 4 classes, from train.txt");
}

TEST_F(ImageLists, LabelledListsRefused) {
  image("a.jpg");
  file("good", "a.jpg 0\n");
  const auto with = [&](const std::string& contents) {
    file("bad", contents);
    return open(at("bad").string() + "," + at("good").string());
  };
  for (const char* line : {"a.jpg", "a.jpg -1", "a.jpg 1x", "a.jpg 99999999999", "0"})
    expect_refused(with("a.jpg 1\n" + std::string(line)),
                   "bad:2: does not end with a label (each line is a path, a blank, and the number "
                   "of the class, from 0 on; paths that hold");
  expect_refused(with(""), "bad: is empty");
  expect_refused(with("\n \n"), "bad: is empty");
  expect_refused(with("a.jpg 0\n\na.jpg 0"), "bad:2: an empty line (remove it)");
  expect_refused(with("a.jpg 0\nP\x1b[31m 0"), "bad:2: is no text (is this the right file?)");
  expect_refused(with("b.jpg 0"),
                 "bad:1: there is no 'b.jpg' (looked for in the working directory " +
                     fs::current_path().string() + " and ");
  expect_refused(with("a.jpg 0\nb.jpg 1\n"),
                 "bad:2: there is no file 'b.jpg' (the folder follows from the first path; 2 of 2 "
                 "lines were looked at)");
  const auto outputs = open(at("good").string() + "," + at("good").string(), 0);
  ASSERT_TRUE(outputs);
}

TEST_F(ImageLists, OnlySomeLinesAreLookedForAtOnce) {
  image("a.jpg");
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += i == 500 ? "b.jpg 0\n" : "a.jpg 0\n";
  file("train.txt", lines);
  const auto pair = open(at("train.txt").string() + "," + at("train.txt").string());
  ASSERT_TRUE(pair) << pair.error().message();
  Image read;
  EXPECT_TRUE(pair->train->read(499, {}, read));
  const Status missing = pair->train->read(500, {}, read);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::data);
  expect_said(missing.error().message(), "train.txt:501: b.jpg: cannot open: No such file");
}

TEST_F(ImageLists, SomeFilesMayBeMissing) {
  image("a.jpg");
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += i == 50 || i == 70 ? "b.jpg 0\n" : "a.jpg 0\n";
  file("train.txt", lines);
  const auto open = [&](double damaged) {
    return open_dataset(
        {.source = at("train.txt"), .net_input = {4, 4, 3}, .test = false, .damaged = damaged});
  };
  EXPECT_TRUE(open(0.02));
  for (const double damaged : {0.0, 0.01})
    expect_refused(open(damaged), "train.txt:51: there is no file 'b.jpg'");
}

TEST_F(ImageLists, DarknetData) {
  image("images/train/cat/1.jpg", 10);
  image("images/train/dog/2.jpg", 20);
  image("images/val_3_dog.jpg", 30);
  file("lists/train.list", "images/train/cat/1.jpg\nimages/train/dog/2.jpg\n");
  file("lists/val.list", "images/val_3_dog.jpg\n");
  file("lists/labels", "cat\ndog\nbird\n");
  file("lists/names", "A cat\nA dog\nA bird\n");
  file("pets.data",
       "# pets\nclasses = 2\n train= lists/train.list\nvalid =lists/val.list\n\n"
       "labels=lists/labels\nnames=lists/names\ntop=5\nbackup=/tmp\n");
  const log::Capture said;
  const auto pair = open_at("pets.data");
  ASSERT_TRUE(pair) << pair.error().message();
  expect_said(said.text(), "pets.data:9: 'backup' = '/tmp' has no effect");
  EXPECT_EQ(said.text().find("top"), std::string::npos);
  EXPECT_EQ(pair->train->classes(), 2);
  EXPECT_EQ(pair->train->class_names(), (std::vector<std::string>{"A cat", "A dog"}));
  EXPECT_EQ(pair->train->label(0), 0);
  EXPECT_EQ(pair->train->label(1), 1);
  EXPECT_EQ(pair->test->label(0), 1);
  EXPECT_NEAR(red_of(*pair->test, 0), 30, 3);
}

TEST_F(ImageLists, DarknetPathsAreRelativeToTheWorkingDirectoryFirst) {
  image("here/cat.jpg", 10);
  image("there/here/cat.jpg", 200);
  const std::string list = "here/cat.jpg\n", data = "train=list\nvalid=list\nnames=names\n";
  file("list", list), file("names", "cat\n");
  file("there/list", list), file("there/names", "cat\n"), file("there/pets.data", data);
  const fs::path before = fs::current_path();
  const auto red = [&] {
    const auto pair = open(at("there/pets.data"));
    EXPECT_TRUE(pair) << pair.error().message();
    return pair ? red_of(*pair->train, 0) : -1;
  };
  EXPECT_NEAR(red(), 200, 3) << "beside the .data file";
  fs::current_path(folder_.path());
  const int from_here = red();
  fs::current_path(before);
  EXPECT_NEAR(from_here, 10, 3) << "below the working directory";
}

TEST_F(ImageLists, DarknetDataRefused) {
  image("cat.jpg");
  file("list", "cat.jpg\n"), file("names", "cat\ndog\n");
  const auto with = [&](const std::string& contents) {
    file("x.data", contents);
    return open_at("x.data");
  };
  const std::string lists = "train=list\nvalid=list\n";
  ASSERT_TRUE(with(lists + "names=names"));
  expect_refused(with("valid=list\nnames=names"),
                 "x.data: has no train= (add the list of images to train on)");
  expect_refused(with("train=list\nnames=names"), "x.data: has no valid= (add the list of images");
  expect_refused(with(lists),
                 "x.data: has neither labels= nor names= (add the file with one label");
  expect_refused(with(lists + "names"),
                 "x.data:3: is not key = value (train = data/train.list, say)");
  expect_refused(with(lists + "=names"), "x.data:3: is not key = value");
  expect_refused(with(lists + "names=names\ntrain=b"), "x.data:4: 'train' is given twice (remove");
  expect_refused(with(lists + "names=nowhere"),
                 "x.data:3: there is no 'nowhere' (looked for in the working directory " +
                     fs::current_path().string() + " and ");
  for (const char* count : {"0", "-2", "two", "2.5"})
    expect_refused(with(lists + "names=names\nclasses=" + count),
                   "x.data:4: '" + std::string(count) + "' is no number from 1 on");
  expect_refused(with(lists + "names=names\nclasses=3"),
                 "names: has 2 lines, but there are 3 classes (one line per class; see x.data)");
  file("names", "cat\ncat\n");
  expect_refused(with(lists + "names=names"),
                 "names:2: the label 'cat' is on line 1, too (labels must differ)");
  file("names", "dog\n");
  expect_refused(with(lists + "names=names"),
                 "list:1: no label is part of 'cat.jpg' (the class is the label in the path: check "
                 "labels= of the .data file)");
  file("names", "cat\nat.j\n");
  expect_refused(
      with(lists + "names=names"),
      "list:1: 'cat' and 'at.j' are both part of 'cat.jpg' (put each class into a folder "
      "of its name, or give lists of 'path label' lines)");
  file("list", "dog/cat.jpg\n");
  file("names", "cat\ndog\n");
  expect_refused(with(lists + "names=names"), "list:1: there is no 'dog/cat.jpg' (looked for in");
}

TEST(LabelFinder, FoldersBeforeParts) {
  const LabelFinder labels({"person", "noperson", "dog"});
  const auto find = [&](const char* path) {
    const auto found = labels.find(path, "x:1");
    return found ? *found : -1;
  };
  EXPECT_EQ(find("/data/person/noperson.jpg"), 0);
  EXPECT_EQ(find("noperson/person.jpg"), 1);
  EXPECT_EQ(find("/data/dog/1.jpg"), 2);
  EXPECT_EQ(find("/data/2-dog-dog.jpg"), 2);
  EXPECT_EQ(find("/data/noperson1.jpg"), -1) << "holds both";
  EXPECT_EQ(find("/dog/person/1.jpg"), -1) << "both are folders";
  EXPECT_EQ(find("do/g.jpg"), -1);
  EXPECT_EQ(find(""), -1);
}

TEST_F(ImageLists, Folder) {
  image("set/train/dog/2.JPEG", 20);
  image("set/train/dog/1.jpg", 10);
  image("elsewhere/er/3.jpeg", 30);
  fs::create_directories(at("set/train/cat"));
  fs::create_directory_symlink(at("elsewhere"), at("set/train/cat/deep"));
  image("set/train/.hidden/4.jpg");
  image("set/train/cat/.thumbnails/4.jpg");
  image("set/train/cat/.5.jpg");
  file("set/train/cat/boxes.txt", "0 0 1 1");
  file("set/train/readme", "");
  image("set/valid/dog/6.jpg", 60);
  file("set/valid/dog/7.ppm", "P6 1 1 255\nabc");
  const auto pair = open_at("set");
  ASSERT_TRUE(pair) << pair.error().message();
  EXPECT_EQ(pair->train->class_names(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(pair->train->size(), 3u);
  const int reds[] = {30, 10, 20}, labels[] = {0, 1, 1};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(red_of(*pair->train, i), reds[i], 3);
    EXPECT_EQ(pair->train->label(i), labels[i]);
  }
  ASSERT_EQ(pair->test->size(), 2u);
  EXPECT_EQ(pair->test->label(0), 1);
  EXPECT_EQ(red_of(*pair->test, 1), 'a');
}

TEST_F(ImageLists, FolderRefused) {
  image("set/train/cat/1.jpg");
  expect_refused(open_at("set"),
                 "set: has train/, but no images to test on (put some into val/CLASS/ (or valid/, "
                 "test/), or give --hold-out 0.1)");
  fs::create_directories(at("set/val"));
  expect_refused(open_at("set"), "set/val: has no folders, one per class");
  image("set/val/bird/1.jpg");
  expect_refused(open_at("set"), "set/val/bird: there is no class 'bird' in train/ (the folders");
  fs::remove_all(at("set/val/bird"));
  image("set/val/cat/1.jpg");
  ASSERT_TRUE(open_at("set"));
  // One error message names all files that cannot be read.
  file("set/train/cat/2.WEBP", std::string("RIFF1234WEBPVP8 "));
  file("set/val/cat/3.gif", "GIF89a");
  const std::string refusal =
      "set/train/cat/2.WEBP: is a WebP image, not JPEG, PNG, or binary PPM or PGM (convert it to "
      "JPEG or PNG, or leave it out";
  expect_refused(open_at("set"), refusal + "; 1 more files are of kinds that are not read)");
  expect_refused(open_dataset({.source = at("set"), .net_input = {4, 4, 3}, .test = false}),
                 refusal + ")");
  image("set/train/cat/2.WEBP");  // what it holds decides
  image("set/val/cat/3.gif");
  ASSERT_TRUE(open_at("set"));
  fs::create_directory_symlink(at("set/train/cat"), at("set/train/cat/again"));
  std::string deep = "set/train/cat";
  for (int level = 0; level < 34; ++level) deep += "/again";
  expect_refused(open_at("set"),
                 deep + ": is nested too deeply (a link that leads back to a folder above it?)");
  fs::remove(at("set/train/cat/again"));
  fs::create_directories(at("set/train/dog"));
  expect_refused(open_at("set"), "set/train/dog: holds no image (put JPEG, PNG, or binary");
  fs::create_directories(at("empty/train"));
  fs::create_directories(at("empty/val"));
  expect_refused(open_at("empty"), "empty/train: has no folders, one per class");
}

TEST_F(ImageLists, OtherLinesAreOtherData) {
  for (const char* name : {"train/a/1.jpg", "train/b/2.jpg", "val/a/1.jpg", "lists/x.jpg"})
    image(name);
  const auto name = [&] { return open(folder_.path())->name; };
  const std::string first = name();
  EXPECT_TRUE(first.starts_with(fs::canonical(folder_.path()).string() + "#")) << first;
  EXPECT_EQ(name(), first);
  image("val/b/1.jpg");
  EXPECT_EQ(name(), first) << "not what is trained on";
  image("train/b/3.jpg");
  EXPECT_NE(name(), first);

  const auto of_list = [&](const std::string& lines) {
    file("lists/train", lines);
    return open(at("lists/train").string() + "," + at("lists/train").string())->name;
  };
  const std::string two = of_list("x.jpg 0\nx.jpg 1\n");
  EXPECT_EQ(of_list("x.jpg 0\r\nx.jpg 1"), two);
  EXPECT_NE(of_list("x.jpg 1\nx.jpg 0\n"), two);
}

}  // namespace
}  // namespace omni
