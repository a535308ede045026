#include "runtime/data/open.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/data/augment.hpp"
#include "runtime/data/cifar_files.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/idx_files.hpp"
#include "runtime/data/images/file_dataset.hpp"
#include "runtime/data/images/image_list.hpp"
#include "runtime/data/images/image_sources.hpp"
#include "runtime/data/subset.hpp"
#include "runtime/data/synthetic.hpp"
#include "runtime/data/vectors/libsvm.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKnownSources =
    "known names: fashion-mnist, cifar10, synthetic[:IMAGES[:CLASSES]], "
    "synthetic-vectors[:VECTORS[:FEATURES[:CLASSES]]]; or a folder with IDX files "
    "(train-images-idx3-ubyte[.gz], ...), CIFAR-10 files (data_batch_1.bin, ...) or images "
    "(train/CLASS/*.jpg, val/CLASS/*.jpg; or CLASS/*.jpg with --hold-out); a Darknet .data file; "
    "or two lists of 'path label' "
    "lines: train.txt,val.txt; or two LIBSVM files: train.svm,test.svm";
// A net learns this many classes within few epochs, as it should learn this set.
constexpr std::uint64_t kDefaultSyntheticClasses = 10;
constexpr std::string_view kSynthetic = "synthetic", kSyntheticVectors = "synthetic-vectors";

// Returns the first of `folders` below $OMNIVORE_DATA that `is_wanted` recognises.
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

// Reads the numbers of NAME[:NUMBER]... . `numbers` holds their defaults, and `form` describes them
// in errors.
Status read_numbers(const std::string& source, std::string_view form,
                    std::span<std::uint64_t> numbers) {
  std::string_view rest =
      std::string_view(source).substr(std::min(source.find(':'), source.size()));
  for (std::uint64_t& number : numbers) {
    if (rest.empty()) break;
    const char* first = rest.data() + 1;
    const char* last = rest.data() + rest.size();
    const auto [end, code] = std::from_chars(first, last, number);
    if (rest.front() != ':' || code != std::errc{} || number == 0 || number > 1'000'000'000) break;
    rest.remove_prefix(end - rest.data());
  }
  if (rest.empty()) return {};
  return Error{ErrorKind::usage, source, fmt::format("not understood from {} on", shown_name(rest)),
               fmt::format("{}, each from 1 to 1000000000", form)};
}

std::uint64_t default_classes(const DatasetRequest& request) {
  return request.classes == 0 ? kDefaultSyntheticClasses
                              : std::min<std::uint64_t>(kDefaultSyntheticClasses, request.classes);
}

// Makes training set and test set; the test set's size is that of the training set divided by
// `share`.
template <class Made>
DatasetPair make_synthetic(SyntheticOptions options, std::size_t share, bool test) {
  DatasetPair pair;
  pair.train = std::make_unique<Made>(options);
  options.size = std::max<std::size_t>(1, options.size / share);
  options.training = false;
  if (test) pair.test = std::make_unique<Made>(options);
  return pair;
}

Result<DatasetPair> open_synthetic(const DatasetRequest& request) {
  std::uint64_t numbers[] = {50'000, default_classes(request)};
  OMNI_CHECK(read_numbers(request.source, "synthetic[:IMAGES[:CLASSES]]", numbers));
  if (request.net_input.count() == 0)
    return Error{ErrorKind::usage, request.source, "the size of the images is unknown",
                 "give a net"};
  return make_synthetic<SyntheticDataset>({.size = numbers[0],
                                           .extent = request.net_input,
                                           .classes = static_cast<int>(numbers[1]),
                                           .seed = request.seed},
                                          5, request.test);
}

Result<DatasetPair> open_synthetic_vectors(const DatasetRequest& request) {
  std::uint64_t numbers[] = {50'000, std::max<std::uint64_t>(1, request.net_input.count()),
                             default_classes(request)};
  OMNI_CHECK(
      read_numbers(request.source, "synthetic-vectors[:VECTORS[:FEATURES[:CLASSES]]]", numbers));
  return make_synthetic<SyntheticVectors>({.size = numbers[0],
                                           .extent = {1, 1, static_cast<int>(numbers[1])},
                                           .classes = static_cast<int>(numbers[2]),
                                           .seed = request.seed},
                                          10, request.test);
}

Result<DatasetPair> open_path(const fs::path& path, bool test, bool for_check) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status))
    return Error{ErrorKind::usage, path.string(),
                 path.has_parent_path() ? "no such file or folder"
                                        : "neither a known dataset nor a file or folder",
                 std::string(kKnownSources)};
  if (!fs::is_directory(status)) {
    if (path.extension() == ".data") return open_darknet_data(path, test);
    if (!test) return open_labelled_lists(path, {}, false);
    return Error{ErrorKind::usage, path.string(), "neither a folder nor a .data file",
                 "two lists are given as train.txt,val.txt; of other files, give their folder"};
  }
  if (is_idx_folder(path)) return open_idx_folder(path, test);
  if (is_cifar_folder(path)) return open_cifar_folder(path, test);
  if (is_image_folder(path)) return open_image_folder(path, test, for_check);
  if (holds_image_files(path))
    return Error{ErrorKind::data, path.string(), "holds images, but no folders, one per class",
                 "put the images of each class into a folder of their own, CLASS/*.jpg; "
                 "--hold-out 0.1 then tests on a tenth of them"};
  return Error{ErrorKind::data, path.string(), "holds no dataset that is understood",
               std::string(kKnownSources)};
}

Result<DatasetPair> open_vectors(const DatasetRequest& request, const fs::path& train,
                                 const fs::path& test) {
  if (request.test && test.empty())
    return Error{ErrorKind::usage, request.source, "one LIBSVM file alone has no test vectors",
                 "give two, train.svm,test.svm, or --hold-out 0.1, or --no-test"};
  return open_libsvm({.train = train,
                      .test = request.test ? test : fs::path(),
                      .features = request.flat ? request.net_input.c : 0,
                      .scale = request.scale_features});
}

Result<DatasetPair> open_source(const DatasetRequest& request) {
  const std::string_view source = request.source, name = source.substr(0, source.find(':'));
  const bool named = source == "fashion-mnist" || source == "cifar10" || name == kSynthetic ||
                     name == kSyntheticVectors;
  std::error_code ignored;
  const std::size_t comma = fs::exists(source, ignored) ? source.npos : source.find(',');
  const fs::path first = source.substr(0, comma),
                 second = comma == source.npos ? "" : source.substr(comma + 1);
  const bool libsvm = !named && is_libsvm(first);
  if (request.scale_features && !libsvm)
    return Error{ErrorKind::usage, "--scale-features",
                 fmt::format("{} is no LIBSVM file", shown_name(source)), "leave it out"};
  if (source == "fashion-mnist") return open_fashion_mnist(request.test);
  if (source == "cifar10") return open_cifar10(request.test);
  if (name == kSynthetic) return open_synthetic(request);
  if (name == kSyntheticVectors) return open_synthetic_vectors(request);
  if (libsvm) return open_vectors(request, first, second);
  if (comma != source.npos) return open_labelled_lists(first, second, request.test);
  OMNI_TRY(DatasetPair pair, open_path(request.source, request.test, request.for_check));
  if (pair.name.empty()) pair.name = fs::canonical(request.source);
  return pair;
}

// Refuses labels beyond the net's outputs: kernels would access memory outside of buffers.
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
            fmt::format("labels count from 0; --classes {} gives the last layer as many outputs",
                        data.classes())};
  return Error{
      ErrorKind::usage, request.source,
      fmt::format("has {} classes, but the net has {} outputs", data.classes(), request.classes),
      fmt::format("--classes {} gives the last layer as many outputs", data.classes())};
}

}  // namespace

Result<DatasetPair> open_dataset(const DatasetRequest& wanted) {
  DatasetRequest request = wanted;
  if (wanted.hold_out > 0) request.test = false;  // the source's own test set is not used
  try {
    OMNI_TRY(DatasetPair pair, open_source(request));
    for (const Dataset* each : {pair.train.get(), pair.test.get()})
      if (each != nullptr && !request.for_check) OMNI_CHECK(each->look_for_files(request.damaged));
    if (Status labels = check_labels(pair, request); !labels) {
      // A training accepts fewer folders: an empty one is no class that it needs.
      request = wanted;
      request.for_check = false;
      return wanted.for_check ? open_dataset(request) : labels.error();
    }
    if (pair.train->holds_vectors() && request.net_input.c > 0 && !request.flat)
      return Error{ErrorKind::usage, request.source, "holds vectors, but the net takes images",
                   fmt::format("set inputs={} in [net], in place of height, width and channels",
                               pair.train->extent().c)};
    if (request.net_input.c > 0)
      OMNI_CHECK(check_input({.flat = request.flat}, pair.train->extent(), request.net_input,
                             request.source));
    if (pair.name.empty()) pair.name = request.source;
    if (wanted.hold_out > 0) OMNI_CHECK(hold_out(pair, wanted.hold_out, wanted.seed));
    if (!wanted.test) pair.test.reset();
    return pair;
  } catch (const fs::filesystem_error& problem) {
    return Error{ErrorKind::data, problem.path1().string(), problem.code().message(),
                 "is all of the data set readable?"};
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::out_of_memory, request.source, "the data do not fit into memory",
                 "IDX and CIFAR-10 files take a byte per value there, LIBSVM files eight"};
  }
}

}  // namespace omni
