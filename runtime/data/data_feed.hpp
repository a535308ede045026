// Turns a dataset into mini-batches: slots, filled by decode tasks that run ahead of training on
// whatever worker has time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/bf16/bf16.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/extent.hpp"
#include "runtime/result.hpp"
#include "runtime/rng.hpp"
#include "runtime/tasks/slices.hpp"
#include "runtime/tasks/tensor.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {

// Which image is training sample number t, counted over the whole run. An epoch visits every image
// exactly once, in an order that is a pure function of (seed, epoch): where a run was interrupted,
// how it was cut into batches and which thread asks make no difference.
//
// The order is computed per index by a small cipher instead of being stored: no permutation to
// build at an epoch's start, none to keep or to share between threads.
class Sampler {
 public:
  // Samples `size` images (1 to 2^62). Not shuffled: in the order of the dataset, every epoch (test
  // splits).
  Sampler(std::size_t size, std::uint64_t seed, bool shuffled)
      : size_(std::max<std::uint64_t>(size, 1)),
        rows_(static_cast<std::uint64_t>(std::ceil(std::sqrt(static_cast<double>(size_))))),
        columns_((size_ + rows_ - 1) / rows_),
        philox_(seed, RandomStream::shuffle),
        shuffled_(shuffled) {}

  std::size_t size() const { return size_; }
  std::uint64_t epoch(std::uint64_t sample) const { return sample / size_; }
  std::size_t index(std::uint64_t sample) const {
    const std::uint64_t position = sample % size_;
    return shuffled_ ? permuted(sample / size_, position) : position;
  }
  // The images of samples first, first + 1, ...; may cross epochs.
  void indices(std::uint64_t first, std::span<std::size_t> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = index(first + i);
  }

 private:
  // Four rounds already make a permutation that no one tells from a random one; the rest is margin
  // for datasets of a handful of images, where each round has little to mix.
  static constexpr unsigned kRounds = 8;

  // A Feistel network over the cells of a rows x columns table: each round shifts one coordinate by
  // a random function of the other, which can be undone and so is a bijection. Cells beyond `size`
  // are walked over along the cycle they lie on, which keeps the bijection on the rest; there are
  // fewer of them than rows.
  std::uint64_t permuted(std::uint64_t epoch, std::uint64_t position) const {
    do {
      std::uint64_t row = position / columns_, column = position % columns_;
      for (unsigned round = 0; round < kRounds; ++round) {
        std::uint64_t& moved = round % 2 == 0 ? row : column;
        const std::uint64_t fixed = round % 2 == 0 ? column : row;
        const std::uint64_t modulus = round % 2 == 0 ? rows_ : columns_;
        const std::uint32_t drawn = philox_(epoch, std::uint64_t{round} << 56 | fixed)[0];
        moved = (moved + (drawn * modulus >> 32)) % modulus;
      }
      position = row * columns_ + column;
    } while (position >= size_);
    return position;
  }

  std::uint64_t size_;
  std::uint64_t rows_, columns_;  // rows * columns >= size, both near its square root
  Philox philox_;
  bool shuffled_;
};

// Fills one mini-batch, or a slice of it; runs inside StarPU CPU tasks. Image i of the batch is
// dataset image indices[i]; its augmentation is that of training sample first_sample + i. `images`
// receives indices.size() * net_input.count() values: T is float, Bf16 (rounded), or std::uint8_t:
// value * 255, a fourth of the memory until the images are needed, and exact where keeps_bytes()
// says so.
template <class T>
Status fill_batch(const Dataset& dataset, std::span<const std::size_t> indices,
                  std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
                  bool training, Extent net_input, T* images);

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
