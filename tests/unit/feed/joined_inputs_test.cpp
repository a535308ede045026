// These tests join the samples of several inputs: their values, draws, labels and numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/data/feed/sample_reader.hpp"
#include "runtime/data/open.hpp"
#include "tests/support/caffe/lmdb_writer.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {
namespace {

constexpr int kSamples = 12;

// LMDBs with colour images of 4x4 and grey ones of 2x3. Value v of image i is 10 i + v, or 5 i + v.
class Joined : public testing::Test {
 protected:
  Joined() {
    LmdbEntries colours, greys;
    for (int i = 0; i < kSamples; ++i) {
      const std::string key = std::string(1, static_cast<char>('a' + i));
      colours.emplace_back(key, datum_of(4, 4, 3, i % 3, pixels(48, 10 * i)));
      greys.emplace_back(key, datum_of(2, 3, 1, i % 4, pixels(6, 5 * i)));
    }
    write_lmdb(folder_ / "colours", colours);
    write_lmdb(folder_ / "greys", greys);
    request_.source = "image=" + both("colours") + "\nfacts=" + both("greys");
    request_.net_input = {1, 1, 48 + 6};
    request_.flat = true;
    request_.parts = {{.name = "image", .extent = {4, 4, 3}},
                      {.name = "facts", .extent = {2, 3, 1}, .labels = true}};
  }
  static std::string pixels(int count, int first) {
    std::string text;
    for (int v = 0; v < count; ++v) text += static_cast<char>(first + v);
    return text;
  }
  std::string both(const std::string& name) const {
    const std::string folder = folder_ / name;
    return folder + "," + folder;
  }
  std::vector<float> sample(const Dataset& data, std::size_t index, bool training,
                            std::uint64_t number = 0) const {
    std::vector<float> values(request_.net_input.count());
    const std::vector<std::size_t> indices{index};
    const Status filled =
        fill_batch(data, indices, number, AugmentOptions{.flat = true, .parts = request_.parts}, 1,
                   training, request_.net_input, values.data());
    EXPECT_TRUE(filled) << filled.error().message();
    for (float& value : values) value = std::round(value * 255);
    return values;
  }
  TemporaryDirectory folder_;
  DatasetRequest request_;
};

TEST_F(Joined, a_sample_has_the_values_of_each_input_one_behind_the_other) {
  const auto opened = open_dataset(request_);
  ASSERT_TRUE(opened) << opened.error().message();
  ASSERT_EQ(opened->train->size(), kSamples);
  EXPECT_EQ(opened->train->extent(), request_.net_input);
  for (const std::size_t index : {0, 7}) {
    const std::vector<float> values = sample(*opened->test, index, false);
    for (int v = 0; v < 48; ++v) EXPECT_EQ(values[v], 10 * index + v);
    for (int v = 0; v < 6; ++v) EXPECT_EQ(values[48 + v], 5 * index + v);
    EXPECT_EQ(opened->test->label(index), index % 4) << "those of the second input";
  }
  EXPECT_EQ(opened->train->classes(), 4);
}

// Both inputs mirror half of their images, each by draws of its own.
TEST_F(Joined, inputs_draw_apart) {
  for (InputPart& part : request_.parts) part.augment.flip = true;
  const auto opened = open_dataset(request_);
  ASSERT_TRUE(opened) << opened.error().message();
  std::set<std::pair<bool, bool>> seen;
  for (std::uint64_t number = 0; number < 40; ++number) {
    const std::vector<float> values = sample(*opened->train, 2, true, number);
    seen.emplace(values[0] != 20, values[48] != 10);
    EXPECT_EQ(values, sample(*opened->train, 2, true, number)) << "from the seed";
  }
  EXPECT_EQ(seen.size(), 4u);
}

// Each input is cut and resized by its own options, also if its images differ in size.
TEST_F(Joined, an_input_has_options_of_its_own) {
  request_.parts[0].extent = {2, 2, 3};
  request_.parts[0].augment.own_size = true;
  request_.parts[1].augment.byte_values = ByteValues{.mean = {1, 1, 1}, .scale = 2.0f / 255};
  request_.net_input.c = 12 + 6;
  const auto opened = open_dataset(request_);
  ASSERT_TRUE(opened) << opened.error().message();
  const std::vector<float> values = sample(*opened->test, 1, false);
  EXPECT_EQ(values[0], 10 + (1 * 4 + 1) * 3) << "the centre";
  EXPECT_EQ(values[12], 2 * (5 - 1));
}

TEST_F(Joined, held_out_samples_stay_together) {
  request_.hold_out = 0.4;
  const auto opened = open_dataset(request_);
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ(opened->train->size() + opened->test->size(), kSamples);
  for (const Dataset* part : {opened->train.get(), opened->test.get()})
    for (std::size_t i = 0; i < part->size(); ++i) {
      const std::vector<float> values = sample(*part, i, false);
      EXPECT_EQ(values[0] / 10, values[48] / 5);
      EXPECT_EQ(part->label(i), static_cast<int>(values[48] / 5) % 4);
    }
}

TEST_F(Joined, other_numbers_of_samples_are_refused) {
  LmdbEntries few{{"a", datum_of(2, 3, 1, 0, pixels(6, 0))}};
  write_lmdb(folder_ / "few", few);
  request_.source = "image=" + both("colours") + "\nfacts=" + both("few");
  const auto opened = open_dataset(request_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().message(),
            "facts: has 1 training samples, but image has 12 (inputs are joined sample by sample)");
}

TEST_F(Joined, checksums_are_those_of_all_inputs) {
  const auto opened = open_dataset(request_);
  ASSERT_TRUE(opened) << opened.error().message();
  const auto before = opened->train->content_checksum(3);
  LmdbEntries other;
  for (int i = 0; i < kSamples; ++i)
    other.emplace_back(std::string(1, static_cast<char>('a' + i)),
                       datum_of(2, 3, 1, i % 4, pixels(6, 5 * i + (i == 3))));
  write_lmdb(folder_ / "other", other);
  request_.source = "image=" + both("colours") + "\nfacts=" + both("other");
  const auto changed = open_dataset(request_);
  ASSERT_TRUE(changed) << changed.error().message();
  EXPECT_NE(*before, *changed->train->content_checksum(3));
  EXPECT_EQ(*opened->train->content_checksum(4), *changed->train->content_checksum(4));
}

// Two inputs may read one LMDB.
TEST_F(Joined, inputs_of_one_source_share_it) {
  request_.source = "image=" + both("colours") + "\nfacts=" + both("colours");
  request_.parts[1].extent = {4, 4, 3};
  request_.net_input.c = 96;
  const auto opened = open_dataset(request_);
  ASSERT_TRUE(opened) << opened.error().message();
  const std::vector<float> values = sample(*opened->test, 5, false);
  EXPECT_TRUE(std::equal(values.begin(), values.begin() + 48, values.begin() + 48));
}

// Inputs of one source are checked each by itself if their shapes differ.
TEST_F(Joined, inputs_of_one_source_have_one_shape) {
  const std::string file = folder_ / "a.svm", two = file + "," + file;
  put(file, "0 1:1 2:2 3:3\n1 1:4 3:6\n2 2:1\n");
  request_.source = "image=" + two + "\nfacts=" + two;
  request_.parts = {{.name = "image", .extent = {1, 1, 3}}, {.name = "facts", .extent = {1, 1, 1}}};
  for (InputPart& part : request_.parts) part.augment.flat = true;
  request_.net_input = {1, 1, 4};
  EXPECT_FALSE(open_dataset(request_));
  request_.parts[1].extent = {1, 1, 3};
  request_.net_input = {1, 1, 6};
  const auto opened = open_dataset(request_);
  EXPECT_TRUE(opened) << opened.error().message();
}

TEST_F(Joined, only_labels_that_a_loss_reads_are_compared) {
  request_.losses = {{.classes = 3}};
  EXPECT_FALSE(open_dataset(request_)) << "the second input has four classes";
  std::swap(request_.parts[0].labels, request_.parts[1].labels);
  const auto opened = open_dataset(request_);
  EXPECT_TRUE(opened) << opened.error().message();
}

}  // namespace
}  // namespace omni::test
