// The fuzzer reads any bytes as the state of a solver of Caffe.
#include <cstdlib>
#include <cstring>

#include "layers/formats/caffe/caffe_blobs.hpp"
#include "tests/fuzz/fuzz_target.hpp"

OMNI_FUZZ_TARGET(solverstate) {
  using namespace omni;
  std::size_t at = 0;
  const CaffeSource source{
      .where = "x", .size = size, .read = [&](std::span<std::byte> bytes) -> Status {
        if (bytes.size() > size - at) std::abort();
        if (!bytes.empty()) std::memcpy(bytes.data(), data + at, bytes.size());
        at += bytes.size();
        return {};
      }};
  const auto snapshot = read_caffe_snapshot(source, [&](caffe_files::BlobProto& blob) -> Status {
    const auto values = values_of(blob, 2, source, "an entry");
    if (values && values->size() != 2) std::abort();
    return {};
  });
  if (!snapshot && (snapshot.error().kind != ErrorKind::data || snapshot.error().what.empty()))
    std::abort();
  if (snapshot && snapshot->parameters.empty()) std::abort();
  return 0;
}
