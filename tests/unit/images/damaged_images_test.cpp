// These tests check that damaged images are replaced and counted, and that too many of them are an
// error.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "runtime/data/damaged_images.hpp"
#include "runtime/data/feed/data_feed.hpp"
#include "runtime/data/open.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/host_access.hpp"
#include "runtime/tasks/session.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "tests/support/images/image_folder.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Image i has one pixel, of value i, and belongs to class i % classes.
class Numbered final : public Dataset {
 public:
  explicit Numbered(std::map<std::size_t, ErrorKind> bad, std::size_t size = 10, int classes = 2)
      : bad_(std::move(bad)), size_(size), classes_(classes) {}
  std::size_t size() const override { return size_; }
  Extent extent() const override { return {0, 0, 1}; }
  int classes() const override { return classes_; }
  int label(std::size_t index) const override { return static_cast<int>(index) % classes_; }
  std::string description() const override { return "numbers"; }
  Status read(std::size_t index, LeastSize, Image& image) const override {
    ++reads_[index];
    if (const auto bad = bad_.find(index); bad != bad_.end())
      return Error{bad->second, "file " + std::to_string(index), "is bad", "mend it"};
    image.extent = {1, 1, 1};
    image.pixels.assign(1, static_cast<std::uint8_t>(index));
    return {};
  }
  int reads(std::size_t index) const { return reads_[index]; }

 private:
  std::map<std::size_t, ErrorKind> bad_;
  std::size_t size_;
  int classes_;
  mutable std::map<std::size_t, int> reads_;
};

std::unique_ptr<Dataset> skipping(std::map<std::size_t, ErrorKind> bad, double share,
                                  bool training = true) {
  return skip_damaged_images(std::make_unique<Numbered>(std::move(bad)), share, training);
}

int pixel(const Dataset& data, std::size_t index) {
  Image image;
  const Status status = data.read(index, {}, image);
  EXPECT_TRUE(status) << status.error().message();
  return status ? image.pixels.at(0) : -1;
}

std::string refusal(const Dataset& data, std::size_t index) {
  Image image;
  const Status status = data.read(index, {}, image);
  EXPECT_FALSE(status);
  return status ? "" : status.error().message();
}

TEST(DamagedImages, TheNextOfTheClassTakesThePlace) {
  const auto data = skipping({{2, ErrorKind::data}, {4, ErrorKind::data}, {9, ErrorKind::data}}, 1);
  EXPECT_EQ(pixel(*data, 2), 6) << "4 is damaged, too";
  EXPECT_EQ(pixel(*data, 4), 6);
  EXPECT_EQ(pixel(*data, 9), 1) << "behind the end comes the beginning";
  EXPECT_EQ(pixel(*data, 3), 3);
  EXPECT_EQ(data->label(9), 1);
  EXPECT_EQ(data->damaged()->count(), 3u);
  EXPECT_EQ(data->damaged()->indices(), (std::vector<std::uint64_t>{2, 4, 9}));
  EXPECT_EQ(data->damaged()->take_new().size(), 3u);
}

TEST(DamagedImages, OfATestSetHaveNoLabel) {
  const auto data = skipping({{3, ErrorKind::data}}, 1, false);
  EXPECT_EQ(data->label(3), 1) << "nobody knows yet";
  EXPECT_EQ(pixel(*data, 3), 0);
  EXPECT_EQ(data->label(3), kNoLabel);
  EXPECT_EQ(data->label(5), 1);
  EXPECT_EQ(data->damaged()->take_new().at(0).error.message(), "file 3: is bad (mend it)");
}

TEST(DamagedImages, AreReadAndNamedOnce) {
  auto numbers = std::make_unique<Numbered>(std::map<std::size_t, ErrorKind>{{2, ErrorKind::data}});
  const Numbered& inner = *numbers;
  const auto data = skip_damaged_images(std::move(numbers), 0.1, true);
  for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(pixel(*data, 2), 4);
  EXPECT_EQ(inner.reads(2), 1);
  EXPECT_EQ(data->damaged()->take_new().size(), 1u);
  EXPECT_TRUE(data->damaged()->take_new().empty());
}

TEST(DamagedImages, BeyondTheShareAreAnError) {
  const auto data = skipping({{2, ErrorKind::data}, {4, ErrorKind::data}}, 0.1);
  EXPECT_EQ(pixel(*data, 4), 6);
  EXPECT_EQ(refusal(*data, 2),
            "2 of 10 training images cannot be read, more than --damaged-images 10% allows: file "
            "2: is bad; file 4: is bad (mend them, leave them out, or allow a larger "
            "--damaged-images SHARE)");
  std::map<std::size_t, ErrorKind> many;
  for (const std::size_t index : {1, 3, 4, 5, 7}) many[index] = ErrorKind::data;
  const auto most = skipping(many, 0.4, false);
  for (const std::size_t index : {1, 3, 4, 5}) EXPECT_EQ(pixel(*most, index), 0);
  const std::string said = refusal(*most, 7);
  EXPECT_NE(said.find("5 of 10 test images"), std::string::npos) << said;
  EXPECT_NE(said.find("file 1: is bad; file 3: is bad; file 4: is bad; and 2 more"),
            std::string::npos)
      << said;
}

// The product 0.29 * 100 is a little less than 29 in double precision.
TEST(DamagedImages, TheShareItselfIsAllowed) {
  DamagedImages found(100, 0.29, "training images");
  for (std::size_t i = 0; i < 29; ++i) EXPECT_TRUE(found.add(i, {ErrorKind::data, "a", "b", ""}));
  EXPECT_TRUE(found.add(3, {ErrorKind::data, "a", "b", ""})) << "is known";
  EXPECT_FALSE(found.add(29, {ErrorKind::data, "a", "b", ""}));
}

TEST(DamagedImages, WithoutAnyOtherAreAnError) {
  std::map<std::size_t, ErrorKind> odd, all;
  for (std::size_t index = 0; index < 10; ++index) {
    all[index] = ErrorKind::data;
    if (index % 2 == 1) odd[index] = ErrorKind::data;
  }
  EXPECT_EQ(refusal(*skipping(odd, 1), 5),
            "numbers: no training image of class 1 can be read (mend them, or leave the class out; "
            "warnings name them)");
  const auto nothing = skipping(all, 1, false);
  for (std::size_t index = 0; index < 9; ++index) EXPECT_EQ(pixel(*nothing, index), 0);
  EXPECT_EQ(refusal(*nothing, 9).find("none of the 10 test images can be read: file 0"), 0u);
}

TEST(DamagedImages, OtherErrorsAreNot) {
  for (const ErrorKind kind : {ErrorKind::failed, ErrorKind::out_of_memory}) {
    const auto data = skipping({{2, kind}}, 1);
    EXPECT_EQ(refusal(*data, 2), "file 2: is bad (mend it)");
    EXPECT_EQ(data->damaged()->count(), 0u);
  }
}

TEST(DamagedImages, AreSkippedOnlyWhereTheyMayBe) {
  auto numbers = std::make_unique<Numbered>(std::map<std::size_t, ErrorKind>{});
  const Dataset* const inner = numbers.get();
  const auto same = skip_damaged_images(std::move(numbers), 0, true);
  EXPECT_EQ(same.get(), inner);
  EXPECT_EQ(same->damaged(), nullptr);
  auto pair = open_dataset({.source = "synthetic:20", .net_input = {4, 4, 1}});
  ASSERT_TRUE(pair);
  const Dataset* const synthetic = pair->train.get();
  EXPECT_EQ(skip_damaged_images(std::move(pair->train), 1, true).get(), synthetic);
  EXPECT_EQ(skip_damaged_images(nullptr, 1, false), nullptr);
}

TEST(DamagedImages, AreToldToOtherRanks) {
  DamagedImages here(10, 0.2, "training images"), there(10, 0.2, "training images");
  EXPECT_TRUE(here.add(7, {ErrorKind::data, "a\tb\n.jpg", "is bad", "mend it"}));
  EXPECT_TRUE(there.add(2, {ErrorKind::data, "c.jpg", "is bad", ""}));
  EXPECT_TRUE(there.add_text(here.take_text()));
  EXPECT_EQ(there.indices(), (std::vector<std::uint64_t>{2, 7}));
  EXPECT_EQ(there.take_new().at(1).error.message(), "a\\x09b\\x0a.jpg: is bad");
  EXPECT_EQ(there.take_text(), "2\tc.jpg\tis bad\n") << "not what others found";
  EXPECT_EQ(here.take_text(), "");
  EXPECT_TRUE(here.add_text("2\tc.jpg\tis bad\n11\tx\ty\nno number\n"));
  EXPECT_FALSE(here.add_text("3\td.jpg\tis bad\n"));
  EXPECT_EQ(here.text(), "2\tc.jpg\tis bad\n3\td.jpg\tis bad\n7\ta\\x09b\\x0a.jpg\tis bad\n")
      << "all, whoever found them";
}

// If ranks share images, each rank names the damaged images that it found, or one rank names all.
TEST(DamagedImages, AreNamedByOneOfSeveralRanks) {
  using Names = DamagedImages::Names;
  DamagedImages images(100, 0.1, "training images");
  EXPECT_TRUE(images.add(1, {ErrorKind::data, "a.jpg", "is bad", ""}));
  EXPECT_TRUE(images.add(2, {ErrorKind::data, "b.jpg", "is bad", ""}));
  EXPECT_TRUE(images.add_text("3\tc.jpg\tis bad\n"));
  EXPECT_TRUE(images.add_text("1\ta.jpg\tis bad\n")) << "that rank comes later";
  EXPECT_TRUE(images.add_text("2\tb.jpg\tis bad\n", true));
  const auto found = images.take_new();
  ASSERT_EQ(found.size(), 3u);
  const auto named = [&](Names names) {
    images.set_names(names);
    std::vector<std::size_t> indices;
    for (const DamagedImage& each : found)
      if (images.names(each)) indices.push_back(each.index);
    return indices;
  };
  EXPECT_EQ(named(Names::own), (std::vector<std::size_t>{1}));
  EXPECT_EQ(named(Names::all), (std::vector<std::size_t>{1, 2, 3}));
  EXPECT_EQ(named(Names::none), std::vector<std::size_t>{});
  EXPECT_EQ(images.summary(),
            "3 of 100 training images could not be read; the warnings above name them");
}

TEST(DamagedImages, ThatNobodyAskedForAreNamedAtTheEnd) {
  const log::Capture said;
  {
    const auto data = skipping({{2, ErrorKind::data}}, 1);
    pixel(*data, 2);
  }
  EXPECT_EQ(said.text(), "warning: skipped: file 2: is bad (mend it)\n");
}

constexpr Extent kNet{9, 11, 3};

class DamagedFiles : public testing::Test {
 protected:
  void SetUp() override {
    test::make_image_folder(folder_.path(), 20, 5);
    for (const char* name : {"train/blue/3.jpg", "train/red/19.jpg", "val/green/21.jpg"})
      test::put(folder_ / name, test::get(folder_ / name).substr(0, 400));
    fs::remove(folder_ / "train/green/5.jpg");  // a link without a target takes its name
    fs::create_symlink("gone", folder_ / "train/green/5.jpg");
  }
  DatasetPair open() const {
    auto data = open_dataset({.source = folder_.path(), .net_input = kNet});
    EXPECT_TRUE(data) << data.error().message();
    data->train = skip_damaged_images(std::move(data->train), 0.1, true);
    data->test = skip_damaged_images(std::move(data->test), 0.1, false);
    return std::move(*data);
  }
  // Returns images and labels of the mini-batches from sample `first` to `end`, as a resumed run
  // reads them.
  static std::vector<float> feed(const Dataset& data, bool training, int workers,
                                 std::uint64_t first, std::uint64_t end) {
    SessionOptions options;
    options.cpu_workers = workers;
    auto session = Session::start(options);
    EXPECT_TRUE(session) << session.error().message();
    DataFeed feed(data, {.training = training,
                         .seed = 3,
                         .augment = {.min_crop = 11, .max_crop = 15, .flip = true},
                         .net_input = kNet,
                         .slices = Slices::cut(15, 7)});
    EXPECT_TRUE(feed.allocate());
    std::vector<float> all;
    for (; first < end; first += 15) {
      feed.submit(first);
      EXPECT_TRUE(wait_for_tasks());
      for (std::size_t i = 0; i < feed.slot(first).images.size(); ++i) {
        const HostAccess images(*feed.slot(first).images[i], HostAccess::Mode::read);
        const HostAccess labels(*feed.slot(first).labels[i], HostAccess::Mode::read);
        all.insert(all.end(), images.f32().begin(), images.f32().end());
        all.insert(all.end(), labels.i32().begin(), labels.i32().end());
      }
      feed.release(first);
    }
    return all;
  }
  test::TemporaryDirectory folder_;
};

TEST_F(DamagedFiles, GiveTheSameMiniBatches) {
  const DatasetPair data = open();
  const std::vector<float> expected = feed(*data.train, true, 1, 0, 180);
  EXPECT_EQ(data.train->damaged()->count(), 3u) << "of three epochs";
  EXPECT_TRUE(expected == feed(*data.train, true, 1, 0, 180)) << "what is known is not read again";
  EXPECT_TRUE(expected == feed(*open().train, true, 2, 0, 180));
  const DatasetPair later = open();
  const std::vector<float> rest = feed(*later.train, true, 2, 120, 180);
  EXPECT_TRUE(std::ranges::equal(rest, std::span(expected).last(rest.size())));
}

TEST_F(DamagedFiles, AreNoTestImages) {
  const DatasetPair data = open();
  const std::vector<float> batch = feed(*data.test, false, 2, 0, 15);
  EXPECT_EQ(data.test->damaged()->indices(), (std::vector<std::uint64_t>{6}));
  // In a batch the labels follow the images of each slice. A slice has 7 images here, so image 6 is
  // the last one of the first slice.
  EXPECT_EQ(batch[7 * kNet.count() + 6], kNoLabel);
  EXPECT_EQ(std::ranges::count(batch, static_cast<float>(kNoLabel)), 1);
}

TEST_F(DamagedFiles, AreStagedAsFarAsTheyAreThere) {
  const DatasetPair data = open();
  fs::create_directory(folder_ / "node");
  const log::Capture said;
  const Status staged = data.train->stage(folder_ / "node");
  ASSERT_TRUE(staged) << staged.error().message();
  EXPECT_NE(said.text().find("warning: staging: 1 of 60 files cannot be copied; they are read"),
            std::string::npos)
      << said.text();
  EXPECT_TRUE(feed(*data.train, true, 1, 0, 60) == feed(*open().train, true, 1, 0, 60));
}

}  // namespace
}  // namespace omni
