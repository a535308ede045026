// The fuzzer reads the same bytes as each of CIFAR-10's files. They are refused with a reason, or
// give one image for each record of 3073 bytes.
#include <cstdlib>
#include <string>

#include "runtime/data/cifar_files.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temporary_directory.hpp"

OMNI_FUZZ_TARGET(cifar) {
  using namespace omni;
  static const test::TemporaryDirectory folder;
  static const bool made = [] {
    for (const char* name : {"data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                             "data_batch_5.bin", "test_batch.bin"})
      std::filesystem::create_symlink("data_batch_1.bin", folder / name);
    return true;
  }();
  test::put(folder / "data_batch_1.bin", {reinterpret_cast<const char*>(data), size});
  const auto pair = open_cifar_folder(folder.path());
  if (!made || (pair ? pair->test->size() != size / 3073 || pair->train->size() != 5 * (size / 3073)
                     : pair.error().kind != ErrorKind::data || pair.error().what.empty()))
    std::abort();
  return 0;
}
