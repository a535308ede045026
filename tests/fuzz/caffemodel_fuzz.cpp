// The fuzzer reads any bytes as the parameters of a net of Caffe.
#include <cstdlib>
#include <cstring>

#include "layers/formats/caffe/caffe_binary.hpp"
#include "tests/fuzz/fuzz_target.hpp"

OMNI_FUZZ_TARGET(caffemodel) {
  using namespace omni;
  std::size_t at = 0;
  const CaffeSource source{
      .where = "x", .size = size, .read = [&](std::span<std::byte> bytes) -> Status {
        if (bytes.size() > size - at) std::abort();
        if (!bytes.empty()) std::memcpy(bytes.data(), data + at, bytes.size());
        at += bytes.size();
        return {};
      }};
  const Status read =
      for_each_caffe_layer(source, [&](const std::string&, CaffeBlobs blobs) -> Status {
        for (caffe_files::BlobProto* blob : blobs) {
          const std::vector<std::int64_t> shape = shape_of(*blob);
          if (shape.size() > size || !has_shape(*blob, shape)) std::abort();
          const auto values = values_of(*blob, 2, source, "a blob");
          if (values && values->size() != 2) std::abort();
        }
        return {};
      });
  if (!read && (read.error().kind != ErrorKind::data || read.error().what.empty())) std::abort();
  return 0;
}
