// Images of a data set that cannot be read: each is found once, named and counted. In a training
// set another image of its class takes its place; in a test set none does. Beyond a share of the
// set there is an error.
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
  std::size_t index = 0, number = 0;  // in the set; among the damaged ones, as found, from 1 on
  Error error{};                      // names the file, and what is wrong with it
};

// Thread-safe.
class DamagedImages {
 public:
  // `what`: the images, as errors call them ("training images").
  DamagedImages(std::size_t images, double share, std::string what);

  // Counts an image, once. An error: these are more than the share.
  Status add(std::size_t index, const Error& error);
  bool has(std::size_t index) const;
  std::size_t count() const { return count_; }
  std::size_t images() const { return images_; }
  const std::string& what() const { return what_; }
  std::vector<std::uint64_t> indices() const;  // ascending

  std::vector<DamagedImage> take_new();  // those added since the last call

  // For other ranks: those that add() has added since the last call, as text. And what such a text
  // says is added.
  std::string take_text();
  Status add_text(std::string_view text);

 private:
  // While mutex_ is held.
  bool insert(std::size_t index, const Error& error);  // false: it is known
  Status check() const;

  std::size_t images_, most_;
  double share_;
  std::string what_;
  mutable std::mutex mutex_;
  std::map<std::size_t, DamagedImage> found_;  // by index
  std::vector<std::size_t> new_, untold_;      // indices: for take_new(), for take_text()
  std::atomic<std::size_t> count_{0}, new_count_{0};
};

// The same data, whose damaged files are skipped, up to that share of them; `training`: and
// replaced. The replacement is the next image of its class that can be read, in the order of the
// set, its end followed by its beginning: it depends on nothing else. Data that are not files of
// images, and data of which no share may be damaged, are returned as they are. What nobody took
// from damaged() is named in the log at the end.
std::unique_ptr<Dataset> skip_damaged_images(std::unique_ptr<Dataset> data, double share,
                                             bool training);

}  // namespace omni
