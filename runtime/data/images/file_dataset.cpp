#include "runtime/data/images/file_dataset.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>

#include "runtime/checksum.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// This many files, spread over the list, suffice to notice a wrong folder. To look for a million
// files would take minutes on a network's disk. A single missing file is noticed when it is read.
constexpr std::size_t kLookedFor = 100;

Status look_for(const ImageList& list, double damaged) {
  const std::size_t count = list.paths.size(), looked_for = std::min(count, kLookedFor);
  std::size_t missing = 0, first = 0;
  for (std::size_t i = 0; i < looked_for; ++i) {
    const std::size_t index = looked_for == 1 ? 0 : i * (count - 1) / (looked_for - 1);
    std::error_code ignored;
    if (std::filesystem::is_regular_file(list.folder / list.paths[index], ignored)) continue;
    if (missing++ == 0) first = index;
  }
  if (missing <= damaged_of(looked_for, damaged)) return {};
  return at_line(
      list.file, first,
      fmt::format("there is no file {}", shown_name((list.folder / list.paths[first]).string())),
      fmt::format("the folder follows from the first path; {} of {} lines were looked at",
                  looked_for, count));
}

std::string fingerprint(const ImageList& list) {
  Checksum checksum;
  for (std::size_t i = 0; i < list.paths.size(); ++i) {
    checksum.update(std::as_bytes(std::span(list.paths[i])));
    const std::string label = fmt::format(" {}\n", list.labels[i]);
    checksum.update(std::as_bytes(std::span(label)));
  }
  return checksum_text(checksum.value());
}

}  // namespace

FileDataset::FileDataset(ImageList list, int classes, std::vector<std::string> class_names,
                         std::filesystem::path origin)
    : list_(std::move(list)),
      classes_(classes),
      class_names_(std::move(class_names)),
      origin_(std::move(origin)) {}

Status FileDataset::read(std::size_t index, LeastSize least, Image& image) const {
  OMNI_CHECK(check_index(*this, index));
  Result<Image> decoded = read_image(staged_.empty() ? original(index) : copy(index), least);
  if (!decoded && !staged_.empty()) decoded = read_image(original(index), least);
  if (!decoded) return in_list(index, std::move(decoded.error()));
  image = std::move(*decoded);
  return {};
}

Error FileDataset::in_list(std::size_t index, Error error) const {
  if (!list_.file.empty())
    error.where = fmt::format("{}: {}", line_of(list_.file, index), error.where);
  return error;
}

Status FileDataset::look_for_files(double damaged) const {
  return list_.file.empty() ? Status() : look_for(list_, damaged);
}

std::string FileDataset::description() const {
  return fmt::format("{} image files, {} classes, from {}", size(), classes_, origin_.string());
}

std::string FileDataset::place_of_label(std::size_t index) const {
  return list_.file.empty() || !class_names_.empty() ? "" : line_of(list_.file, index);
}

std::uint64_t FileDataset::bytes_of(std::size_t index) const {
  std::error_code none;
  const std::uintmax_t bytes = file_size(original(index), none);
  return none ? 0 : bytes;
}

Result<std::uint64_t> FileDataset::content_checksum(std::size_t index) const {
  OMNI_TRY(const std::string bytes, read_file(original(index), UINT64_MAX));
  Checksum checksum;
  checksum.update(std::as_bytes(std::span(bytes)));
  return checksum.value();
}

std::filesystem::path FileDataset::copy(std::size_t index) const {
  return staged_ / std::to_string(index / 1000) / std::to_string(index % 1000);
}

Status FileDataset::stage(const std::filesystem::path& place, bool skips) {
  if (!staged_.empty()) return {};  // another training of this data has staged it
  const std::string prefix = fmt::format("omnivore-{}-images-", ::geteuid());
  delete_unlocked_folders(place, prefix);
  std::string name = place / (prefix + "XXXXXX");
  std::error_code problem(mkdtemp(name.data()) == nullptr ? errno : 0, std::generic_category());
  if (problem)
    return Error{ErrorKind::usage, place.string(), "cannot hold copies: " + problem.message(),
                 "set SLURM_TMPDIR or TMPDIR, or leave out --stage"};
  staged_ = name;
  lock_.emplace(lock_folder(staged_));
  const Status copied = copy_files(skips);
  if (!copied) unstage();
  return copied;
}

void FileDataset::unstage() {
  std::error_code none;
  if (!staged_.empty()) remove_all(staged_, none);
  staged_.clear();
  lock_.reset();
}

Status FileDataset::copy_files(bool skips) {
  const std::string name = staged_.string();
  std::error_code problem;
  std::size_t left = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    if (i * 10 / size() != (i + 1) * 10 / size())
      log::info("staging: {} of {} files in {}", i + 1, size(), name);
    create_directories(copy(i).parent_path(), problem);
    const bool is_place = !problem;
    if (!problem) copy_file(original(i), copy(i), problem);
    if (problem && problem != std::errc::no_space_on_device && is_place && skips) {
      ++left;  // read() tries again, and says what is wrong
      continue;
    }
    if (problem == std::errc::no_space_on_device)
      return Error{ErrorKind::failed, name, "has no room for the data", "leave out --stage"};
    if (problem)
      return in_list(i, {ErrorKind::data, original(i).string(),
                         fmt::format("cannot be copied to {}: {}", name, problem.message()), ""});
  }
  if (left > 0)
    log::warn("staging: {} of {} files cannot be copied; they are read where they are", left,
              size());
  return {};
}

DatasetPair make_file_datasets(ImageList train, ImageList test, int classes,
                               const std::vector<std::string>& class_names,
                               const std::filesystem::path& origin) {
  std::string name =
      fmt::format("{}#{}", std::filesystem::canonical(origin).string(), fingerprint(train));
  const auto dataset = [&](ImageList& list) {
    return list.paths.size() == 0
               ? nullptr
               : std::make_unique<FileDataset>(std::move(list), classes, class_names, origin);
  };
  return {dataset(train), dataset(test), std::move(name)};
}

Result<DatasetPair> open_labelled_lists(const std::filesystem::path& train_file,
                                        const std::filesystem::path& test_file, bool with_test) {
  OMNI_CHECK(require_there(train_file));
  OMNI_TRY(ImageList train, read_labelled_list(train_file));
  ImageList test;
  int classes = 1 + train.most_label();
  if (with_test) {
    OMNI_CHECK(require_there(test_file));
    OMNI_TRY(test, read_labelled_list(test_file));
    classes = std::max(classes, 1 + test.most_label());
  }
  return make_file_datasets(std::move(train), std::move(test), classes, {}, train_file);
}

}  // namespace omni
