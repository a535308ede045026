// The data sets that there are. Nothing in a file is believed: every size is checked against the
// file before memory is allocated.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/memory/memory_limits.hpp"
#include "runtime/rng.hpp"

namespace omni {

// ---- what lies in memory, with 8 bits a value, as the readers below deliver it ----

struct ImageSet {
  Extent extent;
  std::vector<std::uint8_t> pixels = {};  // images one after the other
  std::vector<std::uint8_t> labels = {};  // one per image, below `classes`
  int classes = 0;
  std::vector<std::string> class_names = {};
  std::filesystem::path origin = {};  // for the description
};

class MemoryDataset : public Dataset {
 public:
  explicit MemoryDataset(ImageSet set) : set_(std::move(set)) {}

  std::size_t size() const override { return set_.labels.size(); }
  Extent extent() const override { return set_.extent; }
  int classes() const override { return set_.classes; }
  int label(std::size_t index) const override { return set_.labels[index]; }

  Status read(std::size_t index, LeastSize, Image& image) const override {
    OMNI_CHECK(check_index(*this, index));
    const auto bytes = static_cast<std::ptrdiff_t>(set_.extent.count());
    const auto first = set_.pixels.begin() + static_cast<std::ptrdiff_t>(index) * bytes;
    image.extent = set_.extent;
    image.pixels.assign(first, first + bytes);
    return {};
  }

  std::string description() const override {
    return fmt::format("{} images {}x{}x{}, {} classes, from {}", size(), set_.extent.h,
                       set_.extent.w, set_.extent.c, set_.classes, set_.origin.string());
  }
  std::vector<std::string> class_names() const override { return set_.class_names; }

 private:
  ImageSet set_;
};

// ---- IDX files (MNIST and its relatives), gzip-compressed or not ----

struct IdxImages {
  Extent extent;
  std::size_t count = 0;
  std::vector<std::uint8_t> pixels;
};

// The images are kept in memory; `limit` is the most that they may take (a gzip file of a few MB
// may expand to terabytes).
inline constexpr std::uint64_t kIdxLimit = std::uint64_t{16} << 30;
Result<IdxImages> read_idx_images(const std::filesystem::path& path,
                                  std::uint64_t limit = kIdxLimit);
Result<std::vector<std::uint8_t>> read_idx_labels(const std::filesystem::path& path);

// A folder with the four standard names: {train,t10k}-{images-idx3,labels-idx1}-ubyte, each with or
// without .gz.
bool is_idx_folder(const std::filesystem::path& folder);
Result<DatasetPair> open_idx_folder(const std::filesystem::path& folder, bool with_test = true);

// ---- CIFAR-10's binary version: a label byte and planes of 32x32 reds, greens and blues ----

// A folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin.
bool is_cifar_folder(const std::filesystem::path& folder);
Result<DatasetPair> open_cifar_folder(const std::filesystem::path& folder, bool with_test = true);

// ---- image files in folders, train/CLASS/*.jpg and val/CLASS/*.jpg, or in Darknet's lists ----

// All image files below a folder at any depth, sorted. Files of unsupported kinds are included, so
// that they cause an error instead of being skipped.
Result<std::vector<std::string>> images_below(const std::filesystem::path& folder,
                                              bool may_be_empty = false);

// train/CLASS and val/CLASS; or CLASS alone, which has no test set.
bool is_image_folder(const std::filesystem::path& folder);
bool holds_image_files(const std::filesystem::path& folder);  // beside its folders, not in them
Result<DatasetPair> open_image_folder(const std::filesystem::path& folder, bool with_test = true,
                                      bool for_check = false);

// A .data file: key=value lines that name the lists of images and of labels.
Result<DatasetPair> open_darknet_data(const std::filesystem::path& file, bool with_test = true);

// ---- LIBSVM's text files: a line per vector, "label index:value index:value ..." ----

// A line names the features that are not 0. They are held as written: memory follows the files.
struct LibsvmRequest {
  std::filesystem::path train, test = {};  // test: empty for none
  int features = 0;                        // at least; the largest index of `train` counts, too
  bool scale = false;  // (x - min) / (max - min), of the training vectors; constant features: 0
  std::uint64_t limit = physical_memory() / 4;  // bytes that the vectors of a file may take
};

// By the name, *.svm or *.libsvm (maybe .gz), or by the first vector: its last word begins like 7:
bool is_libsvm(const std::filesystem::path& file);

// Labels are integers; the sorted ones of `train` are the classes.
Result<DatasetPair> open_libsvm(const LibsvmRequest& request);

// ---- learnable sets that need no download: every sample is a pure function of (seed, split,
// index) ----

struct SyntheticOptions {
  std::size_t size = 50'000;
  Extent extent{32, 32, 3};
  int classes = 10;
  std::uint64_t seed = 0;  // draws other samples of the same classes
  bool training = true;    // the two splits share no sample
};

class ComputedDataset : public Dataset {
 public:
  explicit ComputedDataset(const SyntheticOptions& options)
      : options_(options), philox_(options.seed, RandomStream::synthetic) {}

  std::size_t size() const override { return options_.size; }
  Extent extent() const override { return options_.extent; }
  int classes() const override { return options_.classes; }
  int label(std::size_t index) const override {
    return static_cast<int>(index % static_cast<std::size_t>(options_.classes));
  }

 protected:
  // A sample's number in the random stream.
  std::uint64_t number(std::size_t index) const {
    return 2 * std::uint64_t{index} + (options_.training ? 0 : 1);
  }
  SyntheticOptions options_;
  Philox philox_;
};

// An image's class has a texture (a grating with its own orientation, frequency and colour) and a
// soft spot at its own place; phase, contrast, brightness, position and noise vary from image to
// image. Nets with global pooling can use the texture, linear models the spot; single pixels carry
// little information.
class SyntheticDataset : public ComputedDataset {
 public:
  using ComputedDataset::ComputedDataset;
  Status read(std::size_t index, LeastSize least, Image& image) const override;
  std::string description() const override;
};

// A class is two clouds about a centre of its own, on either side of it, among noise. A linear
// model tells the centres apart, which is a part of the truth; a net can learn the clouds.
class SyntheticVectors : public ComputedDataset {
 public:
  using ComputedDataset::ComputedDataset;
  bool holds_vectors() const override { return true; }
  Status read(std::size_t index, LeastSize least, Image& vector) const override;
  std::string description() const override;
};

}  // namespace omni
