// libFuzzer reads any bytes as a Darknet .data file, as the lists and names in it, and as lists of
// paths and labels. They are refused with a reason, or give data sets with valid labels. Run
// image_lists_fuzz -rss_limit_mb=512 -timeout=5 CORPUS
#include <cstdint>
#include <cstdlib>

#include "runtime/data/images/file_dataset.hpp"
#include "runtime/data/images/image_list.hpp"
#include "runtime/data/images/image_sources.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temporary_directory.hpp"

namespace {

void check(const omni::Dataset& images) {
  if (images.size() == 0) std::abort();
  for (const std::size_t index : {std::size_t{0}, images.size() - 1}) {
    const int label = images.label(index);
    omni::Image image;
    const omni::Status read = images.read(index, {}, image);
    if (label < 0 || label >= images.classes() || (!read && read.error().what.empty()))
      std::abort();
  }
}

void check(const omni::Result<omni::DatasetPair>& data) {
  if (!data) {
    if (data.error().what.empty() || data.error().where.empty()) std::abort();
    return;
  }
  check(*data->train);
  check(*data->test);
}

}  // namespace

OMNI_FUZZ_TARGET(image_lists) {
  using namespace omni;
  static const test::TemporaryDirectory folder;
  static const bool made = [] {
    std::filesystem::create_directory(folder / "cat");
    test::put(folder / "cat/1.pgm", "P5 1 1 255\n.");
    test::put(folder / "names", "cat\ndog\n");
    test::put(folder / "lists.data", "classes=2\ntrain=list\nvalid=list\nnames=names\n");
    test::put(folder / "named.data", "train=images\nvalid=images\nnames=list\n");
    test::put(folder / "images", "cat/1.pgm\n");
    return true;
  }();
  (void)made;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  test::put(folder / "list", bytes);
  test::put(folder / "any.data", bytes);
  check(open_darknet_data(folder / "any.data"));
  check(open_darknet_data(folder / "lists.data"));
  check(open_darknet_data(folder / "named.data"));
  check(open_labelled_lists(folder / "list", folder / "list"));
  return 0;
}
