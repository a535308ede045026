// A StreamKey tells whether ranks, which opened their data by themselves, prepare the same samples.
#pragma once

#include <string>
#include <string_view>

#include "runtime/data/feed/sample_reader.hpp"

namespace omni {

// Equal keys mean equal samples in the same order. The key has `source`, all options of samples,
// and checksums of the labels, of the names and sizes of image files, and of stored values. These
// are all values where samples have one size and there are not too many. They are always those of
// kProbed samples, which are spread over the set.
// What a rank has, but another lacks, makes another key. So on any doubt samples are not shared.
struct StreamKey {
  static constexpr std::size_t kProbed = 256;
  std::string text;
  double seconds = 0;  // to prepare a sample
};

// Errors of samples become those of tasks, as in SampleReader::fill().
StreamKey stream_key(const SampleReader& samples, std::string_view source);

// Returns the source of a data set with the whole paths of its files and folders, links resolved.
std::string resolved_source(const std::string& source);

}  // namespace omni
