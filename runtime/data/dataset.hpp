// A Dataset has numbered samples, which are images or vectors with a label each. It does not change
// once it is open, and many workers read it at the same time.
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
  virtual Extent extent() const = 0;     // of every image; h and w 0: images differ in size
  virtual int classes() const = 0;
  // Returns a class in [0, classes()), or kNoLabel for a damaged image of a test set. Requires
  // index < size().
  virtual int label(std::size_t index) const = 0;
  // Reads a sample. Several threads may call it at the same time. If all images have one size,
  // `least` is ignored.
  virtual Status read(std::size_t index, LeastSize least, Image& image) const = 0;
  // Reads one input's share of a sample, for a net that has several inputs.
  virtual Status read_part(std::size_t index, std::size_t /*part*/, LeastSize least,
                           Image& image) const {
    return read(index, least, image);
  }
  // Returns the data of one input: their extent, not their samples, of which a subset has others.
  virtual const Dataset& part(std::size_t) const { return *this; }
  virtual std::string description() const = 0;  // one line for the user
  virtual std::vector<std::string> class_names() const { return {}; }
  // Returns "train.txt:12" if a file has the sample's label as a number; else "".
  virtual std::string place_of_label(std::size_t) const { return ""; }

  // Returns a name of the sample for messages: its file, or its number.
  virtual std::string name_of(std::size_t index) const { return fmt::format("sample {}", index); }

  // Returns the size of what content_checksum() reads; 0: it cannot be read.
  virtual std::uint64_t bytes_of(std::size_t) const {
    constexpr std::uint64_t kUsual = 256 * 256 * 3;  // of an image of any size
    return has_all_sizes() ? kUsual : extent().count();
  }
  // Returns a checksum of the sample's file, or of its values.
  virtual Result<std::uint64_t> content_checksum(std::size_t index) const;

  // Returns true if read() fills Image::values, and extent() is {1, 1, features}.
  virtual bool holds_vectors() const { return false; }

  // Copies the files that read() reads into a new folder in `place`; read() then reads the copies.
  // Data in memory are not copied. `skips` means that a file which cannot be copied is read where
  // it is.
  virtual Status stage(const std::filesystem::path&, bool /*skips*/ = false) { return {}; }

  virtual void unstage() {}  // deletes the copies; read() reads the files again

  // Looks for some of the files that read() reads. Fails if a larger share of these is missing.
  virtual Status look_for_files(double /*damaged*/) const { return {}; }

  // Returns the images that are skipped; null: an image that cannot be read is an error.
  virtual DamagedImages* damaged() const { return nullptr; }

  bool has_all_sizes() const { return extent().h == 0; }
};

// Returns how many images this share is, rounded down. The small summand makes 0.29 of 100 images
// 29, although the product of the doubles is a little less.
inline std::size_t damaged_of(std::size_t images, double share) {
  return static_cast<std::size_t>(share * static_cast<double>(images) + 1e-6);
}

// Fails if there is no sample of this index. Every read() begins with this check.
inline Status check_index(const Dataset& dataset, std::size_t index) {
  if (index < dataset.size()) return {};
  return Error{ErrorKind::data, dataset.description(),
               fmt::format("no image {} among {}", index, dataset.size()), ""};
}

struct DatasetPair {
  std::unique_ptr<Dataset> train, test;
  // Identifies the data: the request's source, or the whole path of a file or folder. Image files
  // and LIBSVM files add a checksum of the entries.
  std::string name = "";
};

}  // namespace omni
