// A StreamKey tells whether ranks, which opened their data by themselves, prepare the same samples.
#pragma once

#include <string>

#include "runtime/data/feed/sample_reader.hpp"

namespace omni {

// Equal keys mean equal samples in the same order. The key has `source`, and a checksum of all
// options of samples, of the labels, of the names and sizes of image files, and of stored values.
// These are all values where samples have one size and there are not too many. Up to 256 prepared
// samples, which are spread over the set, always count. So on any doubt samples are not shared.
struct StreamKey {
  std::string text;
  double seconds = 0;  // that one core takes to prepare a sample
};

// Errors of samples become those of tasks, as in SampleReader::fill().
StreamKey stream_key(const SampleReader& samples, const std::string& source);

}  // namespace omni
