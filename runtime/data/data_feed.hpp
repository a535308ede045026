// The data feed makes mini-batches of a data set. They lie in slots. Decode tasks fill the slots
// ahead of training, on any worker that has time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/bf16/bf16.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/extent.hpp"
#include "runtime/result.hpp"
#include "runtime/tasks/slices.hpp"
#include "runtime/tasks/tensor.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {

// Fills a mini-batch or a slice of one, inside a CPU task. Image i is image indices[i] of the data
// set, augmented as training sample first_sample + i. `images` receives indices.size() *
// net_input.count() values. T is float, Bf16 (rounded) or std::uint8_t (value * 255). Bytes take a
// fourth of the memory until the images are needed; they are exact if keeps_bytes().
template <class T>
Status fill_batch(const Dataset& dataset, std::span<const std::size_t> indices,
                  std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
                  bool training, Extent net_input, T* images);

struct FeedOptions {
  bool training = true;  // shuffled and augmented; false: one pass in order, padded with kNoLabel
  std::uint64_t seed = 0;
  AugmentOptions augment;
  Extent net_input;
  DataType values = DataType::f32;  // type of the images' values: f32 or bf16
  Slices slices;
  int slots = 1;  // mini-batches that may exist at once
  // True: images in memory are fed as 8-bit pixels, too, if they are exact so. A GPU then gets a
  // quarter of the bytes, long before it unpacks them.
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

  // A mini-batch is named by its first sample. submit() submits its decode tasks; a slot must be
  // free.
  void submit(std::uint64_t first_sample);
  bool holds(std::uint64_t first_sample) const;
  BatchSlot& slot(std::uint64_t first_sample);  // the mini-batch has been submitted
  // Frees the slot of a mini-batch whose metrics were read. Compute groups may do so in any order.
  void release(std::uint64_t first_sample);

  // Whether submit() submits tasks of a codelet with this name.
  static bool submits(std::string_view codelet);

  // Returns how many mini-batches have been decoded so far.
  std::uint64_t decoded() const { return decoded_slices_ / options_.slices.sizes.size(); }

  int batch() const { return options_.slices.images_of_all(); }
  int slots() const { return options_.slots; }
  const Dataset& dataset() const { return dataset_; }
  // Returns how many mini-batches one pass over a test set takes.
  std::uint64_t batches_per_pass() const;

  // The functions that tasks run. A slice of images in memory is decoded by one task. Images from
  // files, and images that are unpacked apart, become pixels of the net's size in tasks of a few
  // images each. The codelet unpack_batch then makes the slice of the pixels, maybe on a GPU.
  template <class T>  // float or Bf16
  void decode(std::uint64_t first_sample, int count, T* images, std::int32_t* labels) const;
  template <class T>  // float, Bf16 or std::uint8_t
  void fill(std::uint64_t first_sample, int count, T* images) const;
  void read_labels(std::uint64_t first_sample, int count, std::int32_t* labels) const;

 private:
  struct Slot {
    BatchSlot batch;
    std::vector<std::vector<Tensor*>> pixels;  // by slice and decode task; empty unless in_pixels_
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
  std::vector<std::uint64_t> holders_;  // by slot: first sample of its mini-batch, or kFree
  mutable std::atomic<std::uint64_t> decoded_slices_{0};
};

}  // namespace omni
