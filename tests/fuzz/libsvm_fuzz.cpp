// The fuzzer reads any bytes as LIBSVM files for training and for testing. They are refused with a
// reason, or give vectors of finite values. Scaled values are from 0 to 1.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "runtime/data/vectors/libsvm.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temporary_directory.hpp"

OMNI_FUZZ_TARGET(libsvm) {
  using namespace omni;
  static const test::TemporaryDirectory folder;
  const std::filesystem::path file = folder / "any";
  test::put(file, {reinterpret_cast<const char*>(data), size});
  static_cast<void>(is_libsvm(file));
  for (const bool scale : {false, true}) {
    const auto pair = open_libsvm({.train = file, .test = file, .scale = scale});
    if (!pair) {
      if (pair.error().kind != ErrorKind::data || pair.error().what.empty()) std::abort();
      continue;
    }
    for (const Dataset* each : {pair->train.get(), pair->test.get()})
      for (const std::size_t index : {std::size_t{0}, each->size() - 1}) {
        Image vector;
        const bool read{each->read(index, {}, vector)};
        if (!read || vector.values.size() != each->extent().count() || each->label(index) < 0 ||
            each->label(index) >= each->classes() ||
            !std::ranges::all_of(vector.values, [&](float value) {
              return std::isfinite(value) && (!scale || (value >= 0 && value <= 1));
            }))
          std::abort();
      }
  }
  return 0;
}
