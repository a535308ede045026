// Damaged images are those of a data set that cannot be read. Each is named and counted once. In a
// training set another image of its class replaces it; in a test set it is left out. More than a
// certain share of the set is an error.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.hpp"
#include "runtime/result.hpp"

namespace omni {

struct DamagedImage {
  std::size_t index = 0;  // in the set
  std::size_t number =
      0;          // among the damaged images, in the order in which they were found, from 1
  Error error{};  // has the file's name, and what is wrong with it
};

// Several threads may use an object of this class at the same time.
class DamagedImages {
 public:
  // `share` of the images may be damaged. `what` names the images in errors ("training images").
  DamagedImages(std::size_t images, double share, std::string what);

  // Counts an image, unless it was counted before. Fails if more than the share are damaged.
  Status add(std::size_t index, const Error& error);
  bool has(std::size_t index) const;
  std::size_t count() const { return count_; }
  std::size_t images() const { return images_; }
  const std::string& what() const { return what_; }
  std::vector<std::uint64_t> indices() const;  // ascending

  std::vector<DamagedImage> take_new();  // those added since the last call

  // Returns as text, for other ranks, the images that add() has added since the last call.
  // add_text() adds the images of such a text.
  std::string take_text();
  Status add_text(std::string_view text);

 private:
  // Callers of insert() and check() must hold mutex_.
  bool insert(std::size_t index, const Error& error);  // false: the image is known
  Status check() const;

  std::size_t images_, most_;
  double share_;
  std::string what_;
  mutable std::mutex mutex_;
  std::map<std::size_t, DamagedImage> found_;  // by index
  std::vector<std::size_t> new_, untold_;      // indices for take_new() and take_text()
  std::atomic<std::size_t> count_{0}, new_count_{0};
};

// Returns the same data, but damaged files are skipped, up to this share of them. Training data
// replace a damaged image by the next readable one of its class; after the set's end comes its
// beginning. So the replacement depends only on the set. Data that are not image files, and a share
// of 0, are returned as they are. The destructor names in the log what nobody took from damaged().
std::unique_ptr<Dataset> skip_damaged_images(std::unique_ptr<Dataset> data, double share,
                                             bool training);

}  // namespace omni
