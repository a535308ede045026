// The fuzzer reads any bytes as IDX files, compressed or not. They are refused with a reason, or
// give as many values as the header says.
#include <cstdlib>

#include "runtime/data/idx_files.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temporary_directory.hpp"

OMNI_FUZZ_TARGET(idx) {
  using namespace omni;
  static const test::TemporaryDirectory folder;
  test::put(folder / "any", {reinterpret_cast<const char*>(data), size});
  const auto images = read_idx_images(folder / "any");
  if (images ? images->pixels.size() != images->count * images->extent.count()
             : images.error().kind != ErrorKind::data || images.error().what.empty())
    std::abort();
  const auto labels = read_idx_labels(folder / "any");
  if (labels ? labels->empty() || images : labels.error().kind != ErrorKind::data) std::abort();
  return 0;
}
