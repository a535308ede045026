// A SampleReader prepares samples of a data set: it reads, decodes, crops and augments them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/bf16/bf16.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/extent.hpp"
#include "runtime/result.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

// Fills a mini-batch or a part of one, inside a CPU task. Image i is image indices[i] of the data
// set, augmented as training sample first_sample + i. `images` receives indices.size() *
// net_input.count() values. T is float, Bf16 (rounded) or std::uint8_t (value * 255, rounded).
// Bytes are exact if keeps_bytes(). With options.byte_values T is not std::uint8_t.
template <class T>
Status fill_batch(const Dataset& dataset, std::span<const std::size_t> indices,
                  std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
                  bool training, Extent net_input, T* images);

struct SampleOptions {
  bool training = true;  // shuffled and augmented; false: one pass in order, padded with kNoLabel
  std::uint64_t seed = 0;
  AugmentOptions augment{};
  Extent net_input{};
  bool operator==(const SampleOptions&) const = default;
};

class SampleReader {
 public:
  SampleReader(const Dataset& dataset, SampleOptions options)
      : dataset_(dataset),
        options_(std::move(options)),
        sampler_(dataset.size(), options_.seed, options_.training) {}

  const Dataset& dataset() const { return dataset_; }
  const SampleOptions& options() const { return options_; }
  std::size_t values_per_sample() const { return options_.net_input.count(); }
  // Returns whether 8-bit pixels have exactly the samples' values.
  bool is_exact_in_bytes() const {
    return !dataset_.holds_vectors() &&
           keeps_bytes(options_.augment, dataset_.extent(), options_.training, options_.net_input);
  }

  // Returns the type of samples that are prepared in parts: u8 for pixels, f32 for the values that
  // nets read. Image files are rounded to pixels, unless byte_values asks for other values.
  DataType type_apart() const {
    const bool pixels = dataset_.has_all_sizes() && !options_.augment.byte_values;
    return pixels || is_exact_in_bytes() ? DataType::u8 : DataType::f32;
  }

  // Tasks run these functions. T is as in fill_batch(). Errors go to report_task_error().
  template <class T>
  void fill(std::uint64_t first_sample, int count, T* samples) const;
  void read_labels(std::uint64_t first_sample, int count, std::int32_t* labels) const;

 private:
  std::vector<std::size_t> present(std::uint64_t first_sample, int count) const;

  const Dataset& dataset_;
  SampleOptions options_;
  Sampler sampler_;
};

}  // namespace omni
