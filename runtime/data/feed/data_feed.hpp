// A DataFeed makes mini-batches of a data set's samples. Each mini-batch lies in a slot. Decode
// tasks fill the slots ahead of training, on any worker that has time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/data/feed/sample_reader.hpp"
#include "runtime/data/feed/shared_stream.hpp"
#include "runtime/result.hpp"
#include "runtime/tasks/slices.hpp"
#include "runtime/tasks/tensor.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {

struct FeedOptions {
  bool training = true;  // as in SampleOptions
  std::uint64_t seed = 0;
  AugmentOptions augment;
  Extent net_input;
  DataType values = DataType::f32;  // type of the images' values: f32 or bf16
  Slices slices;
  int slots = 1;                   // mini-batches that may exist at once
  std::size_t metrics = kMetrics;  // of a slice
  // True: images in memory are prepared as 8-bit pixels if that is exact. A GPU then gets a quarter
  // of the bytes, and converts them to `values` itself.
  bool unpack_apart = false;
  SharedStream* stream = nullptr;  // made with the same SampleOptions; null: none
};

class DataFeed {
 public:
  DataFeed(const Dataset& dataset, FeedOptions options);
  DataFeed(const DataFeed&) = delete;
  DataFeed& operator=(const DataFeed&) = delete;

  Status allocate();  // needs a running Session
  std::size_t bytes() const { return tensors_.bytes(); }
  std::vector<TensorSize> tensor_sizes() const { return tensors_.sizes(); }

  // Submits the decode tasks of a mini-batch, which the number of its first sample identifies. A
  // slot must be free.
  void submit(std::uint64_t first_sample);
  bool holds(std::uint64_t first_sample) const;
  BatchSlot& slot(std::uint64_t first_sample);  // requires holds(first_sample)
  // Frees the slot of a mini-batch whose metrics were read. Mini-batches may be released in any
  // order.
  void release(std::uint64_t first_sample);

  // These functions are for a shared stream. After join_stream() other trainings wait for this one,
  // whose next mini-batch begins with first_sample. After leave_stream() they no longer wait.
  Status join_stream(std::uint64_t first_sample);
  void leave_stream();

  // Returns how many mini-batches have been decoded so far.
  std::uint64_t decoded() const { return decoded_slices_ / options_.slices.sizes.size(); }

  const FeedOptions& options() const { return options_; }
  int batch() const { return options_.slices.images_of_all(); }
  int slots() const { return options_.slots; }
  const Dataset& dataset() const { return samples_.dataset(); }
  // Returns how many mini-batches one pass over a test set takes.
  std::uint64_t batches_per_pass() const;

 private:
  struct Slot {
    BatchSlot batch;
    std::vector<std::vector<Tensor*>> parts;  // by slice and decode task; empty unless apart_
  };
  Slot& held(std::uint64_t first_sample);
  std::size_t values_per_image() const { return samples_.values_per_sample(); }
  Slices parts_of(int slice_images) const;
  void submit_slice(std::uint64_t first_sample, int slice, const Slot& slot);

  FeedOptions options_;
  SampleReader samples_;
  bool apart_;                                  // true: a slice's samples are prepared in parts
  std::optional<SharedStream::Reader> shared_;  // none: the feed prepares all samples itself
  TensorPool tensors_;
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> holders_;  // by slot: first sample of its mini-batch, or kFree
  mutable std::atomic<std::uint64_t> decoded_slices_{0};
};

}  // namespace omni
