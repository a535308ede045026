// What a user's --data means.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/data/augment.hpp"
#include "runtime/data/cifar.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/idx.hpp"
#include "runtime/data/images/darknet_data.hpp"
#include "runtime/data/images/file_dataset.hpp"
#include "runtime/data/images/image_folder.hpp"
#include "runtime/data/synthetic.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKnownSources =
    "known names: fashion-mnist, cifar10, synthetic[:IMAGES[:CLASSES]]; or a folder with IDX files "
    "(train-images-idx3-ubyte[.gz], ...), CIFAR-10 files (data_batch_1.bin, ...) or images "
    "(train/CLASS/*.jpg, val/CLASS/*.jpg); a Darknet .data file; or two lists of 'path label' "
    "lines: train.txt,val.txt";
// More classes than this are learned only after many epochs; the set is there to be learned
// quickly.
constexpr int kDefaultSyntheticClasses = 10;

// The first of `folders` below $OMNIVORE_DATA that `is_wanted` recognises.
template <std::size_t N>
std::optional<fs::path> find_in_data_folder(const std::array<const char*, N>& folders,
                                            bool (*is_wanted)(const fs::path&)) {
  const char* root = std::getenv("OMNIVORE_DATA");
  if (root == nullptr || *root == '\0') return std::nullopt;
  for (const char* folder : folders)
    if (is_wanted(fs::path(root) / folder)) return fs::path(root) / folder;
  return std::nullopt;
}

Result<DatasetPair> open_fashion_mnist(bool test) {
  const fs::path packaged = "/usr/share/datasets/fashion-mnist";
  if (const auto folder = find_in_data_folder(std::array{"fashion-mnist"}, is_idx_folder))
    return open_idx_folder(*folder, test);
  if (is_idx_folder(packaged)) return open_idx_folder(packaged, test);
  return Error{ErrorKind::usage, "fashion-mnist", "not on this machine",
               "apt-get install dataset-fashion-mnist, or put its four files into "
               "$OMNIVORE_DATA/fashion-mnist"};
}

Result<DatasetPair> open_cifar10(bool test) {
  if (const auto folder =
          find_in_data_folder(std::array{"cifar10", "cifar-10-batches-bin"}, is_cifar_folder))
    return open_cifar_folder(*folder, test);
  return Error{ErrorKind::usage, "cifar10", "not found in $OMNIVORE_DATA",
               "unpack cifar-10-binary.tar.gz and set OMNIVORE_DATA to the folder that holds "
               "cifar-10-batches-bin, or give that folder itself"};
}

// synthetic[:IMAGES[:CLASSES]]
Result<DatasetPair> open_synthetic(const DatasetRequest& request) {
  std::uint64_t numbers[] = {50'000, static_cast<std::uint64_t>(kDefaultSyntheticClasses)};
  if (request.classes > 0) numbers[1] = std::min<std::uint64_t>(numbers[1], request.classes);
  std::string_view rest =
      std::string_view(request.source).substr(std::string_view("synthetic").size());
  for (std::uint64_t& number : numbers) {
    if (rest.empty()) break;
    const char* first = rest.data() + 1;
    const char* last = rest.data() + rest.size();
    const auto [end, code] = std::from_chars(first, last, number);
    if (rest.front() != ':' || code != std::errc{} || number == 0 || number > 1'000'000'000) break;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  if (!rest.empty())
    return Error{ErrorKind::usage, request.source,
                 "not understood from '" + std::string(rest) + "' on",
                 "synthetic[:IMAGES[:CLASSES]], both from 1 to 1000000000"};
  if (request.net_input.count() == 0)
    return Error{ErrorKind::usage, request.source, "the size of the images is unknown",
                 "give a net"};
  SyntheticOptions options{.size = numbers[0],
                           .extent = request.net_input,
                           .classes = static_cast<int>(numbers[1]),
                           .seed = request.seed};
  DatasetPair pair;
  pair.train = std::make_unique<SyntheticDataset>(options);
  if (!request.test) return pair;
  options.size = std::max<std::size_t>(1, options.size / 5);
  options.training = false;
  pair.test = std::make_unique<SyntheticDataset>(options);
  return pair;
}

Result<DatasetPair> open_path(const fs::path& path, bool test) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status))
    return Error{ErrorKind::usage, path.string(), "neither a known dataset nor a file or folder",
                 std::string(kKnownSources)};
  if (!fs::is_directory(status)) {
    if (path.extension() == ".data") return open_darknet_data(path, test);
    if (!test) return open_labelled_lists(path, {}, false);
    return Error{ErrorKind::usage, path.string(), "neither a folder nor a .data file",
                 "two lists are given as train.txt,val.txt; of other files, give their folder"};
  }
  if (is_idx_folder(path)) return open_idx_folder(path, test);
  if (is_cifar_folder(path)) return open_cifar_folder(path, test);
  if (is_image_folder(path)) return open_image_folder(path, test);
  return Error{ErrorKind::data, path.string(), "holds no dataset that is understood",
               std::string(kKnownSources)};
}

Result<DatasetPair> open_source(const DatasetRequest& request) {
  if (request.source == "fashion-mnist") return open_fashion_mnist(request.test);
  if (request.source == "cifar10") return open_cifar10(request.test);
  if (request.source == "synthetic" || request.source.starts_with("synthetic:"))
    return open_synthetic(request);
  const std::size_t comma = request.source.find(',');
  if (comma != std::string::npos && !fs::exists(request.source))
    return open_labelled_lists(request.source.substr(0, comma), request.source.substr(comma + 1),
                               request.test);
  OMNI_TRY(DatasetPair pair, open_path(request.source, request.test));
  if (pair.name.empty()) pair.name = fs::canonical(request.source);
  return pair;
}

// A label beyond the outputs would be read and written outside of the net's buffers.
Status check_labels(const DatasetPair& pair, const DatasetRequest& request) {
  const Dataset& data = *pair.train;
  if (request.classes == 0 || data.classes() <= request.classes) return {};
  for (const Dataset* each : {pair.train.get(), pair.test.get()})
    for (std::size_t i = 0; each != nullptr && i < each->size() && !each->place_of_label(i).empty();
         ++i)
      if (each->label(i) >= request.classes)
        return Error{
            ErrorKind::data, each->place_of_label(i),
            fmt::format("label {} is out of range: the net has {} outputs", each->label(i),
                        request.classes),
            fmt::format("labels count from 0; give the last layer {} outputs", data.classes())};
  return Error{
      ErrorKind::usage, request.source,
      fmt::format("has {} classes, but the net has {} outputs", data.classes(), request.classes),
      fmt::format("give the last layer {} outputs", data.classes())};
}

}  // namespace

Result<DatasetPair> open_dataset(const DatasetRequest& request) {
  try {
    OMNI_TRY(DatasetPair pair, open_source(request));
    OMNI_CHECK(check_labels(pair, request));
    if (request.net_input.c > 0)
      OMNI_CHECK(check_input({.flat = request.flat}, pair.train->extent(), request.net_input,
                             request.source));
    if (pair.name.empty()) pair.name = request.source;
    return pair;
  } catch (const fs::filesystem_error& problem) {
    return Error{ErrorKind::data, problem.path1().string(), problem.code().message(),
                 "is all of the data set readable?"};
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::out_of_memory, request.source, "the images do not fit into memory",
                 "images are kept in memory as 8-bit values"};
  }
}

}  // namespace omni
