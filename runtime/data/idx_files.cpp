#include "runtime/data/idx_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "runtime/data/data_file.hpp"
#include "runtime/data/formats.hpp"
#include "runtime/data/memory_dataset.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// The bytes of these numbers are 0, 0, the code of the type (unsigned bytes), and the number of
// dimensions.
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

// Refuses a header that announces other than the file holds, or (of a compressed file) more than it
// plausibly holds. Call it before memory is allocated for the contents.
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

Result<DatasetPair> open_fashion_mnist(const DatasetRequest& request) {
  const fs::path packaged = "/usr/share/datasets/fashion-mnist";
  if (const auto folder = find_in_data_folder({"fashion-mnist"}, is_idx_folder))
    return open_idx_folder(*folder, request.test);
  if (is_idx_folder(packaged)) return open_idx_folder(packaged, request.test);
  return Error{ErrorKind::usage, "fashion-mnist", "not on this machine",
               "apt-get install dataset-fashion-mnist, or put its four files into "
               "$OMNIVORE_DATA/fashion-mnist"};
}

const DataFormatRegistration fashion_mnist({.order = 10,
                                            .name = "fashion-mnist",
                                            .form = "fashion-mnist",
                                            .open = open_fashion_mnist,
                                            .installed = true});

const DataFormatRegistration idx(
    {.order = 20,
     .name = "IDX",
     .form = "a folder with IDX files (train-images-idx3-ubyte[.gz], ...)",
     .is = [](const DatasetRequest& request) { return is_idx_folder(request.source); },
     .open =
         [](const DatasetRequest& request) {
           return open_idx_folder(request.source, request.test);
         }});

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

}  // namespace omni
