// These tasks prepare samples, on any core that has time. decode_batch prepares a whole slice.
// Images from files, and images that are unpacked apart, are prepared in tasks of a few images
// each.
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
  const Tensor* images = nullptr;                 // decode_batch sends it to a lone GPU
  std::atomic<std::uint64_t>* counter = nullptr;  // counts tasks that are done; null: none does
};

extern Codelet<DecodeArgs> decode_batch;       // {images W, labels W}
extern Codelet<DecodeArgs> read_image_labels;  // {labels W, images that must be read before R, ...}
// Returns the codelet for this kind of data: {samples of SampleReader::type_apart() W}.
Codelet<DecodeArgs>& codelet_apart(const SampleReader& reader);

// Decoding has the lowest priority: images are needed only when a new mini-batch starts. A
// mini-batch whose pixels are read is unpacked before others are begun.
inline constexpr int kDecodePriority = -(1 << 20), kUnpackPriority = kDecodePriority + 1;

// Returns how many samples one task prepares. Such a task takes some milliseconds if it reads
// files, and about one if it copies in memory.
int samples_per_task(const SampleReader& reader);

// Returns whether a codelet with this name prepares samples.
bool is_decoding(std::string_view codelet);

}  // namespace omni
