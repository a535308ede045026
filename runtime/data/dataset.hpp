// Where images come from. A dataset is immutable once open and is read from many workers at once.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/images/image.hpp"
#include "runtime/extent.hpp"
#include "runtime/result.hpp"

namespace omni {

class DamagedImages;

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::size_t size() const = 0;  // at least 1
  virtual Extent extent() const = 0;     // of every image; h and w 0: each has its own size
  virtual int classes() const = 0;
  virtual int label(std::size_t index) const = 0;  // in [0, classes()); requires index < size()
  // Thread-safe. If all images have one size, `least` is ignored.
  virtual Status read(std::size_t index, LeastSize least, Image& image) const = 0;
  virtual std::string description() const = 0;  // one line for the user; says so when synthetic
  virtual std::vector<std::string> class_names() const { return {}; }
  // "train.txt:12", where a file says the label as a number; else "".
  virtual std::string place_of_label(std::size_t) const { return ""; }

  // Of a sample, for people: its file, or its number.
  virtual std::string name_of(std::size_t index) const { return fmt::format("sample {}", index); }

  // read() fills Image::values; extent() is {1, 1, features}.
  virtual bool holds_vectors() const { return false; }

  // Copies the files that read() reads into a new folder below `place`, and reads there from then
  // on. What is in memory is not copied. `skips`: a file that cannot be copied is left where it is.
  virtual Status stage(const std::filesystem::path&, bool /*skips*/ = false) { return {}; }

  // Looks for some of the files that read() reads, spread over all; this share may be missing.
  virtual Status look_for_files(double /*damaged*/) const { return {}; }

  // Those that are skipped (damaged_images.hpp); null: the first ends whatever reads it.
  virtual DamagedImages* damaged() const { return nullptr; }

  bool has_all_sizes() const { return extent().h == 0; }
};

// How many of so many images may be damaged. 0.29 of 100 are 29, whatever products of doubles say.
inline std::size_t damaged_of(std::size_t images, double share) {
  return static_cast<std::size_t>(share * static_cast<double>(images) + 1e-6);
}

// The check that every read() starts with: refuses an index without an image.
inline Status check_index(const Dataset& dataset, std::size_t index) {
  if (index < dataset.size()) return {};
  return Error{ErrorKind::data, dataset.description(),
               fmt::format("no image {} among {}", index, dataset.size()), ""};
}

struct DatasetPair {
  std::unique_ptr<Dataset> train, test;
  // Identifies the data: the request's source, the whole path of a folder; for lists and folders of
  // image files with a checksum of their entries.
  std::string name = "";
};

struct DatasetRequest {
  // "fashion-mnist", "cifar10", "synthetic[:IMAGES[:CLASSES]]",
  // "synthetic-vectors[:VECTORS[:FEATURES[:CLASSES]]]"; or else a folder of IDX or CIFAR-10 files
  // or of images, a Darknet .data file, or two lists or two LIBSVM files: "train.txt,val.txt".
  // Names are looked up in $OMNIVORE_DATA first; write ./cifar10 for a folder that has a name's
  // name.
  std::string source;
  Extent net_input;   // what the net wants; decides the size of synthetic images
  bool flat = false;  // it wants vectors, see AugmentOptions
  int classes =
      0;  // outputs of the net; data with more classes are refused (0: unknown, anything goes)
  std::uint64_t seed = 0;
  bool test = true;  // false: only the training images are looked for, and `test` is null
  bool scale_features = false;  // of LIBSVM files: to 0 to 1 over the training vectors
  double hold_out = 0;          // > 0: this share of the training samples is the test set
  double damaged = 0;           // share of the images that may be missing
  // Accepts what check_data() is to find: files that are missing or of kinds that are not read,
  // class folders that are empty or not in train/.
  bool for_check = false;
};

Result<DatasetPair> open_dataset(const DatasetRequest& request);

}  // namespace omni
