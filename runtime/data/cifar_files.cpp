#include "runtime/data/cifar_files.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "runtime/data/data_file.hpp"
#include "runtime/data/formats.hpp"
#include "runtime/data/memory_dataset.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

constexpr Extent kExtent{32, 32, 3};
constexpr std::size_t kPlane = 32 * 32, kImage = 3 * kPlane, kRecord = 1 + kImage;
constexpr std::uint64_t kMaxRecords = 1'000'000;  // the original files hold 10000 each

constexpr std::array<std::string_view, 5> kTrainFiles{"data_batch_1.bin", "data_batch_2.bin",
                                                      "data_batch_3.bin", "data_batch_4.bin",
                                                      "data_batch_5.bin"};
constexpr std::array<std::string_view, 1> kTestFiles{"test_batch.bin"};
constexpr std::array<std::string_view, 10> kClasses{
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

Status append_file(const fs::path& path, ImageSet& set) {
  OMNI_TRY(DataFile file, DataFile::open(path));
  const std::uint64_t records = file.bytes_on_disk() / kRecord;
  if (file.compressed()) return file.complain("is compressed", "gunzip it");
  if (records == 0 || file.bytes_on_disk() % kRecord != 0 || records > kMaxRecords)
    return file.complain(
        fmt::format("{} bytes are not 1 to {} records of {} bytes", file.bytes_on_disk(),
                    kMaxRecords, kRecord),
        "not CIFAR-10's binary version, or truncated; fetch cifar-10-binary.tar.gz again");
  set.labels.reserve(set.labels.size() + records);
  set.pixels.reserve(set.pixels.size() + records * kImage);
  std::array<std::uint8_t, kRecord> record{};
  for (std::uint64_t i = 0; i < records; ++i) {
    OMNI_CHECK(file.read(record));
    if (record[0] >= kClasses.size())
      return file.complain(fmt::format("record {} has label {}", i, record[0]),
                           "not CIFAR-10's binary version, or damaged");
    set.labels.push_back(record[0]);
    for (std::size_t pixel = 0; pixel < kPlane; ++pixel)
      for (std::size_t channel = 0; channel < 3; ++channel)
        set.pixels.push_back(record[1 + channel * kPlane + pixel]);
  }
  return file.expect_end();
}

Result<std::unique_ptr<Dataset>> read_split(const fs::path& folder,
                                            std::span<const std::string_view> files) {
  ImageSet set{.extent = kExtent,
               .classes = static_cast<int>(kClasses.size()),
               .class_names = {kClasses.begin(), kClasses.end()},
               .origin = folder};
  for (const std::string_view name : files) OMNI_CHECK(append_file(folder / name, set));
  return std::unique_ptr<Dataset>(std::make_unique<MemoryDataset>(std::move(set)));
}

Result<DatasetPair> open_cifar10(const DatasetRequest& request) {
  if (const auto folder = find_in_data_folder({"cifar10", "cifar-10-batches-bin"}, is_cifar_folder))
    return open_cifar_folder(*folder, request.test);
  return Error{ErrorKind::usage, "cifar10", "not found in $OMNIVORE_DATA",
               "unpack cifar-10-binary.tar.gz and set OMNIVORE_DATA to the folder that holds "
               "cifar-10-batches-bin, or give that folder itself"};
}

const DataFormatRegistration cifar10(
    {.order = 11, .name = "cifar10", .form = "cifar10", .open = open_cifar10, .installed = true});

const DataFormatRegistration cifar_folder(
    {.order = 21,
     .name = "CIFAR-10",
     .form = "a folder with CIFAR-10 files (data_batch_1.bin, ...)",
     .is = [](const DatasetRequest& request) { return is_cifar_folder(request.source); },
     .open =
         [](const DatasetRequest& request) {
           return open_cifar_folder(request.source, request.test);
         }});

}  // namespace

bool is_cifar_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kTrainFiles[0], ignored);
}

Result<DatasetPair> open_cifar_folder(const fs::path& folder, bool with_test) {
  DatasetPair pair;
  OMNI_TRY(pair.train, read_split(folder, kTrainFiles));
  if (with_test) {
    OMNI_TRY(pair.test, read_split(folder, kTestFiles));
  }
  return pair;
}

}  // namespace omni
