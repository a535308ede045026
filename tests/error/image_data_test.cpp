// These tests check image data that cannot be used. The program ends with the documented exit code
// and says where and what, at once or when the bad image is read.
#include <gtest/gtest.h>

#include "tests/support/images/image_folder.hpp"
#include "tests/support/images/png_writer.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

class ImageData : public testing::Test {
 protected:
  ImageData() {
    put(folder_ / "net.cfg", kImageNet);
    make_image_folder(folder_ / "set", 4, 2);
    put(folder_ / "list", "set/train/red/0.jpg 2\nset/train/red/1.jpg 2\nset/train/red/2.jpg 2\n");
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  void refused(const std::string& data, int exit_code, const std::string& error,
               const Words& more = {"--max-batches", "20"}) const {
    Words words{"--net", at("net.cfg"), "--data", data, "-q"};
    words.insert(words.begin(), more.begin(), more.end());
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, exit_code);
    EXPECT_EQ(run.errors, "error: " + error + "\n");
    EXPECT_EQ(run.output, "");
  }

  std::string saved_weights() const {
    const Finished run = omni_run({"--net", at("net.cfg"), "--data", "synthetic:8:3", "--no-test",
                                   "--max-batches", "1", "--save-weights", at("weights"), "-q"});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    return at("weights");
  }

  TemporaryDirectory folder_;
};

TEST_F(ImageData, OfOneListOnly) {
  refused(at("list"), 2,
          at("list") +
              ": neither a folder nor a .data file (two lists are given as "
              "train.txt,val.txt; of other files, give their folder)");
}

TEST_F(ImageData, WithoutFoldersOfClasses) {
  const std::filesystem::path root = folder_.path();
  std::filesystem::create_directories(root / "photos/empty");
  std::filesystem::copy_file(at("set/val/red/5.jpg"), at("photos/1.JPG"));
  refused(at("photos"), 3,
          at("photos") +
              ": holds images, but no folders, one per class (put the images of each class into a "
              "folder of their own, CLASS/*.jpg; --hold-out 0.1 then tests on a tenth of them)");
  // A folder named train is taken for the training set, even if it is meant as a class of vehicles.
  std::filesystem::create_directories(root / "veh");
  std::filesystem::copy(at("set/val/red"), at("veh/train"));
  std::filesystem::copy(at("set/val/blue"), at("veh/car"));
  const std::string taken =
      at("veh/train") +
      ": has no folders, one per class (train/ is taken for the set of images to train on: put "
      "them into train/CLASS/; a class that is called train goes into train/train/)";
  refused(at("veh"), 3, taken);
  refused(at("veh"), 3, taken, {"--hold-out", "0.5"});
  std::filesystem::rename(at("veh/train"), at("veh/bus"));
  std::filesystem::create_directories(root / "veh/__MACOSX");
  std::filesystem::create_directories(root / "set/train/__MACOSX");
  std::filesystem::create_directories(root / "set/val/.thumbnails");
  std::filesystem::copy_file(at("set/val/red/5.jpg"), at("set/train/__MACOSX/5.jpg"));
  const Words quick{"--net", at("net.cfg"), "-q", "--max-batches", "1", "--data"};
  for (const Words& more : {Words{at("set")}, Words{at("veh"), "--hold-out", "0.5"}}) {
    Words words = quick;
    words.insert(words.end(), more.begin(), more.end());
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
  }
}

TEST_F(ImageData, TooManyClasses) {
  put(folder_ / "four", "set/train/red/0.jpg 2\nset/train/red/0.jpg 3\n");
  const std::string what =
      at("four") +
      ":2: label 3 is out of range: the net has 3 outputs (labels count from 0; "
      "--classes 4 gives the last layer as many outputs)";
  refused(at("list") + "," + at("four"), 3, what);
  refused(at("four") + "," + at("list"), 3, what);
  refused("synthetic:8:4", 2,
          "synthetic:8:4: has 4 classes, but the net has 3 outputs (--classes 4 gives "
          "the last layer as many outputs)");
}

TEST_F(ImageData, BadLine) {
  put(folder_ / "bad", "set/train/red/0.jpg 0\nset/train/red/0.jpg red\n");
  refused(at("bad") + "," + at("list"), 3,
          at("bad") +
              ":2: does not end with a label (each line is a path, a blank, and the number "
              "of the class, from 0 on; paths that hold the names of their classes belong "
              "to a Darknet .data file)");
}

TEST_F(ImageData, DarknetDataWithoutALabel) {
  put(folder_ / "paths", "set/train/red/0.jpg\nset/val/green/4.jpg\n");
  put(folder_ / "names", "red\nblue\n");
  put(folder_ / "x.data", "train = paths\nvalid = paths\nnames = names\n");
  refused(at("x.data"), 3,
          at("paths") +
              ":2: no label is part of 'set/val/green/4.jpg' (the class is the label in "
              "the path: check labels= of the .data file)");
}

TEST_F(ImageData, TruncatedImageAmongOthers) {
  const std::string image = at("set/train/red/1.jpg");
  put(image, get(image).substr(0, 300));
  const std::string what =
      image + ": is a damaged JPEG: Premature end of JPEG file (fetch it again, or leave it out)";
  const Words none{"--max-batches", "20", "--damaged-images", "0"};
  refused(at("list") + "," + at("list"), 3, at("list") + ":2: " + what, none);
  refused(at("set"), 3, what, none);
  refused(at("set"), 3, what, {"predict", "--weights", saved_weights(), image});
}

TEST_F(ImageData, ImageThatVanished) {
  std::filesystem::remove(at("set/val/blue/5.jpg"));
  std::filesystem::create_directory(at("set/val/blue/5.jpg"));
  put(folder_ / "test", "set/val/blue/4.jpg 0\nset/val/blue/5.jpg 0\n");
  refused(at("list") + "," + at("test"), 3,
          at("test") + ":2: there is no file '" + at("set/val/blue/5.jpg") +
              "' (the folder follows from the first path; 2 of 2 lines were looked at)");
}

TEST_F(ImageData, DamagedPng) {
  const std::string image = at("set/train/red/1.png");
  const std::string whole = make_png(20, 20, std::vector<std::uint8_t>(1200, 9));
  const auto told = [&](const std::string& what) {
    refused(at("set"), 3,
            image + ": is a damaged PNG: " + what + " (fetch it again, or leave it out)",
            {"--max-batches", "20", "--damaged-images", "0"});
  };
  put(image, whole.substr(0, whole.size() - 1));
  told("the file ends too early");
  std::string other = whole;
  other[other.find("IEND") - 5] ^= 1;
  put(image, other);
  told("IDAT: CRC error");
}

TEST_F(ImageData, PredictOfNoImage) {
  put(folder_ / "picture.jpg", "GIF89a");
  refused("synthetic:8", 3,
          at("picture.jpg") +
              ": is a GIF image, not JPEG, PNG, or binary PPM or PGM (convert it to JPEG or PNG, "
              "or leave it out)",
          {"predict", "--weights", saved_weights(), at("picture.jpg")});
}

}  // namespace
}  // namespace omni::test
