// These tasks prepare samples, on any core that has time. Images from files, and images that are
// unpacked apart, become pixels or values of the net's size in tasks of a few images each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/data/feed/sample_reader.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/slices.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

template <class Args>
class Codelet;

struct DecodeArgs {
  const SampleReader* reader = nullptr;
  std::uint64_t first_sample = 0;
  int count = 0;
  std::uint64_t values_per_sample = 0;
  const Tensor* images = nullptr;                 // to be sent to a lone GPU; null: none
  std::atomic<std::uint64_t>* counter = nullptr;  // counts what is done; null: nobody counts
};

extern Codelet<DecodeArgs> decode_batch;       // {images W, labels W}
extern Codelet<DecodeArgs> read_image_labels;  // {labels W, what must be read before R, ...}
// The buffers are {samples of SampleReader::type_apart() W}. The codelet depends on the kind of
// data, as their times differ.
Codelet<DecodeArgs>& codelet_apart(const SampleReader& reader);

// Decoding has the lowest priority: images are needed only when a new mini-batch starts. A
// mini-batch that has its pixels is finished before others are begun.
inline constexpr int kDecodePriority = -(1 << 20), kUnpackPriority = kDecodePriority + 1;

// Returns how many samples one task prepares. Reading files takes some milliseconds for this many,
// copying in memory takes one.
int samples_per_task(const SampleReader& reader);

// Returns whether a codelet with this name prepares samples.
bool is_decoding(std::string_view codelet);

}  // namespace omni
