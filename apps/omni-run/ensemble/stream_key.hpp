// A StreamKey tells whether ranks, which opened their data by themselves, prepare the same samples.
#pragma once

#include <string>

#include "runtime/data/feed/sample_reader.hpp"

namespace omni {

// The key has `source` and a checksum: of the options of samples, of the labels, and of up to 256
// prepared samples spread over the set. Of image files the checksum has all names and at most
// 65,536 sizes. Of samples of one size it has all stored values, if these are at most 2^28.
struct StreamKey {
  std::string text;
  double seconds = 0;  // that one core takes to prepare a sample
};

// Errors of samples become those of tasks, as in SampleReader::fill().
StreamKey stream_key(const SampleReader& samples, const std::string& source);

}  // namespace omni
