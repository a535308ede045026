// The fuzzer reads any bytes as a Darknet .weights file. It is refused with a reason, or gives
// exactly the values that follow its header.
#include <cstdlib>
#include <vector>

#include "layers/formats/darknet/darknet.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temporary_directory.hpp"

OMNI_FUZZ_TARGET(weights) {
  using namespace omni;
  static const test::TemporaryDirectory folder;
  test::put(folder / "any.weights", {reinterpret_cast<const char*>(data), size});
  auto reader = DarknetWeightsReader::open(folder / "any.weights");
  if (!reader) {
    if (reader.error().kind != ErrorKind::data || reader.error().what.empty()) std::abort();
    return 0;
  }
  const std::uint64_t held = reader->remaining() / sizeof(float);
  if (reader->remaining() > size || reader->expect(held + 1, true)) std::abort();
  std::vector<float> values(held), one(1);
  if (!reader->read(values, "all") || reader->read(one, "more")) std::abort();
  return 0;
}
