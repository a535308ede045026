// The fuzzer reads any bytes as a Datum, an entry of an LMDB of Caffe.
#include <cstdlib>

#include "runtime/data/lmdb/datum.hpp"
#include "tests/fuzz/fuzz_target.hpp"

OMNI_FUZZ_TARGET(datum) {
  using namespace omni;
  const auto datum = parse_datum({reinterpret_cast<const char*>(data), size}, "x");
  if (!datum) {
    if (datum.error().kind != ErrorKind::data || datum.error().what.empty()) std::abort();
    return 0;
  }
  if (datum->data.size() > size) std::abort();
  const auto image = image_of(*datum, "x", {});
  if (!image && image.error().kind != ErrorKind::data) std::abort();
  if (image && image->pixels.size() != image->extent.count()) std::abort();
  return 0;
}
