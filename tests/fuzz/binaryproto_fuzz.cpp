// The fuzzer reads any bytes as a file of Caffe with the mean of images.
#include <cmath>
#include <cstdlib>

#include "layers/formats/caffe/caffe_binary.hpp"
#include "tests/fuzz/fuzz_target.hpp"

OMNI_FUZZ_TARGET(binaryproto) {
  using namespace omni;
  const CaffeSource source{.where = "x", .size = size, .read = {}};
  const auto mean =
      parse_caffe_mean(std::string(reinterpret_cast<const char*>(data), size), source);
  if (!mean && (mean.error().kind != ErrorKind::data || mean.error().what.empty())) std::abort();
  if (mean && mean->values.size() != mean->extent.count()) std::abort();
  if (mean)
    for (const float value : mean->values)
      if (!std::isfinite(value)) std::abort();
  return 0;
}
