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
  std::size_t index = 0;   // in the set
  std::size_t number = 0;  // among the damaged images, in the order of their discovery, from 1
  Error error{};           // has the file's name, and what is wrong with it
  bool here = true;        // false: another rank has found it
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
  std::string summary() const;                 // "3 of 100 training images could not be read; ..."

  std::vector<DamagedImage> take_new();  // those added since the last call
  // Says which images this rank names in the log. Of ranks that read the same images, one names
  // all, or each names its own.
  enum class Names { own, all, none };
  void set_names(Names names) { names_ = names; }
  bool names(const DamagedImage& image) const {
    return names_ == Names::all || (names_ == Names::own && image.here);
  }

  // Ranks tell each other about images by text. take_text() has those that add() has added since
  // the last call, text() has all. add_text() adds the images of such a text. `before` means that
  // images which both ranks have found count as found by the other rank.
  std::string take_text();
  std::string text() const;
  Status add_text(std::string_view text, bool before = false);

 private:
  // The caller of these holds mutex_.
  bool insert(DamagedImage image);  // false: the image is known
  std::string line(std::size_t index) const;
  Status check() const;

  std::size_t images_, most_;
  double share_;
  std::string what_;
  mutable std::mutex mutex_;
  std::map<std::size_t, DamagedImage> found_;  // by index
  std::vector<std::size_t> new_, untold_;      // indices for take_new() and take_text()
  std::atomic<std::size_t> count_{0}, new_count_{0};
  std::atomic<Names> names_{Names::own};
};

// Returns the same data, but damaged images are skipped, up to this share of the set. Training data
// replace a damaged image by the next readable one of its class; after the set's end comes its
// beginning. So the replacement depends only on the set. Returns `data` itself if the share is 0,
// or if all images have one size. The destructor logs what nobody has taken by
// damaged()->take_new().
std::unique_ptr<Dataset> skip_damaged_images(std::unique_ptr<Dataset> data, double share,
                                             bool training);

}  // namespace omni
