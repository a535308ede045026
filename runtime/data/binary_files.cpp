// IDX and CIFAR-10 files, whose images are kept in memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "runtime/data/data_file.hpp"
#include "runtime/data/sources.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// 0, 0, the type code of unsigned bytes, the number of dimensions.
constexpr std::uint32_t kImagesMagic = 0x00000803, kLabelsMagic = 0x00000801;
constexpr std::uint32_t kMaxSide = 1 << 16;

constexpr std::array<std::string_view, 10> kFashionClasses{
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

Result<std::uint32_t> read_big_endian(DataFile& file) {
  std::array<std::uint8_t, 4> bytes{};
  OMNI_CHECK(file.read(bytes));
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

Status expect_magic(DataFile& file, std::uint32_t expected) {
  OMNI_TRY(const std::uint32_t magic, read_big_endian(file));
  if (magic == expected) return {};
  if (magic == kImagesMagic) return file.complain("holds images, not labels", "swapped files?");
  if (magic == kLabelsMagic) return file.complain("holds labels, not images", "swapped files?");
  return file.complain(fmt::format("not an IDX file of {}: it starts with {:#010x}, not {:#010x}",
                                   expected == kImagesMagic ? "8-bit images" : "8-bit labels",
                                   magic, expected));
}

// Refuses a header that promises more than the file can hold, before anything is allocated for it.
Status check_promise(const DataFile& file, std::uint64_t header, std::uint64_t bytes) {
  if (!file.compressed() && file.bytes_on_disk() != header + bytes)
    return file.complain(fmt::format("has {} bytes, but its header announces {}",
                                     file.bytes_on_disk(), header + bytes),
                         file.bytes_on_disk() < header + bytes
                             ? "the file is truncated; fetch it again"
                             : "trailing data; fetch the file again");
  if (file.swells_to(bytes))
    return file.complain(
        fmt::format("its header announces {} bytes, over {} times its {} compressed ones", bytes,
                    DataFile::kMaxCompression, file.bytes_on_disk()),
        "the file is damaged; fetch it again, or unpack it if that is what it holds");
  return {};
}

Result<fs::path> find_part(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const char* suffix : {"", ".gz"})
    if (fs::path path = folder / (name + suffix); fs::exists(path, ignored)) return path;
  return Error{ErrorKind::data, folder.string(), fmt::format("has no {}[.gz]", name),
               "an IDX folder holds {train,t10k}-images-idx3-ubyte and "
               "{train,t10k}-labels-idx1-ubyte, each with or without .gz"};
}

Result<ImageSet> read_split(const fs::path& folder, const std::string& split) {
  OMNI_TRY(const fs::path images_path, find_part(folder, split + "-images-idx3-ubyte"));
  OMNI_TRY(const fs::path labels_path, find_part(folder, split + "-labels-idx1-ubyte"));
  OMNI_TRY(IdxImages images, read_idx_images(images_path));
  OMNI_TRY(std::vector<std::uint8_t> labels, read_idx_labels(labels_path));
  if (labels.size() != images.count)
    return Error{ErrorKind::data, labels_path.string(),
                 fmt::format("holds {} labels, but {} holds {} images", labels.size(),
                             images_path.filename().string(), images.count),
                 "the two files do not belong together"};
  ImageSet set{.extent = images.extent,
               .pixels = std::move(images.pixels),
               .labels = std::move(labels),
               .origin = folder};
  set.classes = 1 + *std::ranges::max_element(set.labels);
  if (folder.filename() == "fashion-mnist")
    set.class_names.assign(kFashionClasses.begin(), kFashionClasses.end());
  return set;
}

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

}  // namespace

Result<IdxImages> read_idx_images(const fs::path& path, std::uint64_t limit) {
  OMNI_TRY(DataFile file, DataFile::open(path));
  OMNI_CHECK(expect_magic(file, kImagesMagic));
  OMNI_TRY(const std::uint32_t count, read_big_endian(file));
  OMNI_TRY(const std::uint32_t height, read_big_endian(file));
  OMNI_TRY(const std::uint32_t width, read_big_endian(file));
  if (count == 0) return file.complain("holds no images");
  if (height == 0 || width == 0 || height > kMaxSide || width > kMaxSide)
    return file.complain(fmt::format("images of {}x{} pixels", height, width),
                         fmt::format("sides from 1 to {} are possible", kMaxSide));
  std::uint64_t bytes = 0;
  if (!checked_multiply(std::uint64_t{height} * width, count, &bytes) || bytes > limit)
    return file.complain(
        fmt::format("{} images of {}x{} do not fit into {} bytes", count, height, width, limit),
        "images are kept in memory");
  OMNI_CHECK(check_promise(file, 16, bytes));
  OMNI_TRY(std::vector<std::uint8_t> pixels, file.read_vector(bytes));
  OMNI_CHECK(file.expect_end());
  return IdxImages{.extent = {static_cast<int>(height), static_cast<int>(width), 1},
                   .count = count,
                   .pixels = std::move(pixels)};
}

Result<std::vector<std::uint8_t>> read_idx_labels(const fs::path& path) {
  OMNI_TRY(DataFile file, DataFile::open(path));
  OMNI_CHECK(expect_magic(file, kLabelsMagic));
  OMNI_TRY(const std::uint32_t count, read_big_endian(file));
  if (count == 0) return file.complain("holds no labels");
  OMNI_CHECK(check_promise(file, 8, count));
  OMNI_TRY(std::vector<std::uint8_t> labels, file.read_vector(count));
  OMNI_CHECK(file.expect_end());
  return labels;
}

bool is_idx_folder(const fs::path& folder) {
  return static_cast<bool>(find_part(folder, "train-images-idx3-ubyte"));
}

Result<DatasetPair> open_idx_folder(const fs::path& folder, bool with_test) {
  OMNI_TRY(ImageSet train, read_split(folder, "train"));
  if (!with_test) return DatasetPair{std::make_unique<MemoryDataset>(std::move(train)), nullptr};
  OMNI_TRY(ImageSet test, read_split(folder, "t10k"));
  if (train.extent != test.extent)
    return Error{ErrorKind::data, folder.string(),
                 fmt::format("training images are {}x{}, test images {}x{}", train.extent.h,
                             train.extent.w, test.extent.h, test.extent.w),
                 "the files do not belong together"};
  train.classes = test.classes = std::max(train.classes, test.classes);
  return DatasetPair{std::make_unique<MemoryDataset>(std::move(train)),
                     std::make_unique<MemoryDataset>(std::move(test))};
}

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
