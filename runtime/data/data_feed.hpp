// Turns a dataset into mini-batches: slots, filled by decode tasks that run ahead of training on
// whatever worker has time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/data/augment.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/extent.hpp"
#include "runtime/tasks/slices.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

struct FeedOptions {
  bool training = true;  // shuffled and augmented; else in order, once, padded with kNoLabel
  std::uint64_t seed = 0;
  AugmentOptions augment;
  Extent net_input;
  DataType values = DataType::f32;  // of images, as the net takes them: f32 or bf16
  Slices slices;
  int slots = 1;  // mini-batches that may exist at once
  // Images in memory become pixels, too, where that leaves them as they are: a GPU then gets a
  // quarter of the bytes, and long before it has time to make values of them.
  bool unpack_apart = false;
};

class DataFeed {
 public:
  DataFeed(const Dataset& dataset, FeedOptions options);
  DataFeed(const DataFeed&) = delete;
  DataFeed& operator=(const DataFeed&) = delete;

  Status allocate();  // needs a running Session
  std::size_t bytes() const { return tensors_.bytes(); }
  std::vector<TensorSize> tensor_sizes() const { return tensors_.sizes(); }

  // A mini-batch is named by its first sample. submit() submits its decode tasks; requires a free
  // slot.
  void submit(std::uint64_t first_sample);
  bool holds(std::uint64_t first_sample) const;
  BatchSlot& slot(std::uint64_t first_sample);  // of a submitted mini-batch
  // Its metrics were read: another mini-batch may have the slot. Compute groups finish out of
  // order.
  void release(std::uint64_t first_sample);

  // Whether submit() submits tasks of that codelet.
  static bool submits(std::string_view codelet);

  // Mini-batches whose decode tasks are done, up to now.
  std::uint64_t decoded() const { return decoded_slices_ / options_.slices.sizes.size(); }

  int batch() const { return options_.slices.images_of_all(); }
  int slots() const { return options_.slots; }
  const Dataset& dataset() const { return dataset_; }
  // Mini-batches in one pass over a test set.
  std::uint64_t batches_per_pass() const;

  // The bodies of the tasks. A slice of images in memory is decoded by one. What comes from files,
  // or is unpacked apart, is made pixels of the net's size by tasks of a few images, however large
  // the slice is; unpack_batch makes the slice of them, maybe on a GPU.
  template <class T>  // float, Bf16
  void decode(std::uint64_t first_sample, int count, T* images, std::int32_t* labels) const;
  template <class T>  // std::uint8_t, too
  void fill(std::uint64_t first_sample, int count, T* images) const;
  void read_labels(std::uint64_t first_sample, int count, std::int32_t* labels) const;

 private:
  struct Slot {
    BatchSlot batch;
    std::vector<std::vector<Tensor*>> pixels;  // in_pixels_: by slice, by task that makes some
  };
  Slot& held(std::uint64_t first_sample);
  std::size_t pixels_per_image() const { return options_.net_input.count(); }
  std::vector<std::size_t> present(std::uint64_t first_sample, int count) const;
  Slices parts_of(int slice_images) const;
  void submit_pixels(std::uint64_t first_sample, int slice, const Slot& slot);

  const Dataset& dataset_;
  FeedOptions options_;
  bool in_pixels_;
  Sampler sampler_;
  TensorPool tensors_;
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> holders_;  // by slot: its mini-batch's first sample, or kFree
  mutable std::atomic<std::uint64_t> decoded_slices_{0};
};

}  // namespace omni
