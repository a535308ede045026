#include "runtime/data/images/image_list.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "runtime/checksum.hpp"
#include "runtime/data/data_file.hpp"
#include "runtime/data/formats.hpp"
#include "runtime/data/images/image.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostClasses = 1 << 20;
// To look for every image of a million takes minutes on a network's disk. This many, spread over
// the list, show a wrong folder; a single file that lacks is named when it is its turn.
constexpr std::size_t kLookedFor = 100;

constexpr std::string_view kBlanks = " \t\r";

bool is_text(std::string_view line) {
  return std::ranges::none_of(line, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < ' ' && byte != '\t') || byte == 0x7F;
  });
}

Status look_for(const ImageList& list, double damaged) {
  const std::size_t count = list.paths.size(), looked_for = std::min(count, kLookedFor);
  std::size_t missing = 0, first = 0;
  for (std::size_t i = 0; i < looked_for; ++i) {
    const std::size_t index = looked_for == 1 ? 0 : i * (count - 1) / (looked_for - 1);
    std::error_code ignored;
    if (fs::is_regular_file(list.folder / list.paths[index], ignored)) continue;
    if (missing++ == 0) first = index;
  }
  if (missing <= damaged_of(looked_for, damaged)) return {};
  return at_line(
      list.file, first,
      fmt::format("there is no file {}", shown_name((list.folder / list.paths[first]).string())),
      fmt::format("the folder follows from the first path; {} of {} lines were looked at",
                  looked_for, count));
}

Status settle_folder(ImageList& list, std::span<const fs::path> folders) {
  std::size_t index = 0;  // of the first relative path
  while (index < list.paths.size() && list.paths[index].starts_with('/')) ++index;
  if (index < list.paths.size()) {
    const std::string relative(list.paths[index]);
    OMNI_TRY(list.folder, find_folder_of(relative, line_of(list.file, index), folders));
  }
  return {};
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

const DataFormatRegistration labelled_lists(
    {.order = 40,  // any files
     .name = "lists",
     .form = "two lists of 'path label' lines: train.txt,val.txt",
     .is =
         [](const DatasetRequest& request) {
           const bool one = std::filesystem::is_regular_file(request.source);
           return !two_files(request).second.empty() || (one && !request.test);
         },
     .open =
         [](const DatasetRequest& request) {
           const auto [train, test] = two_files(request);
           return open_labelled_lists(train, test, request.test);
         }});

}  // namespace

LabelFinder::LabelFinder(const std::vector<std::string>& labels) {
  std::set<std::size_t> lengths;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    numbers_.emplace(labels[i], static_cast<int>(i));
    lengths.insert(labels[i].size());
  }
  lengths_.assign(lengths.begin(), lengths.end());
}

// Every part of the path that is as long as a label is looked up: with a thousand labels of one
// length that is a thousand times faster than a search for each.
Result<int> LabelFinder::find(std::string_view path, const std::string& where) const {
  std::set<int> anywhere, folders;
  for (const std::size_t length : lengths_)
    for (std::size_t at = 0; at + length <= path.size(); ++at) {
      const auto found = numbers_.find(path.substr(at, length));
      if (found == numbers_.end()) continue;
      anywhere.insert(found->second);
      const bool begins = at == 0 || path[at - 1] == '/';
      const bool ends = at + length < path.size() && path[at + length] == '/';
      if (begins && ends) folders.insert(found->second);
    }
  const std::set<int>& candidates = folders.empty() ? anywhere : folders;
  if (candidates.size() == 1) return *candidates.begin();

  const auto name = [this](int number) {
    const auto is_it = [number](const auto& each) { return each.second == number; };
    return shown_name(std::ranges::find_if(numbers_, is_it)->first);
  };
  if (candidates.empty())
    return Error{ErrorKind::data, where, fmt::format("no label is part of {}", shown_name(path)),
                 "the class is the label in the path: check labels= of the .data file"};
  return Error{ErrorKind::data, where,
               fmt::format("{} and {} are both part of {}", name(*candidates.begin()),
                           name(*candidates.rbegin()), shown_name(path)),
               "put each class into a folder of its name, or give lists of 'path label' lines"};
}

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

int ImageList::most_label() const { return *std::ranges::max_element(labels); }

std::string line_of(const fs::path& file, std::size_t index) {
  return fmt::format("{}:{}", file.string(), index + 1);
}

Error at_line(const fs::path& file, std::size_t index, std::string what, std::string hint) {
  return {ErrorKind::data, line_of(file, index), std::move(what), std::move(hint)};
}

Status for_each_line(const fs::path& file, bool gaps,
                     const std::function<Status(std::string_view, std::size_t)>& visit) {
  OMNI_TRY(LineSource source, open_data_lines(file));
  std::size_t entries = 0;
  for (std::size_t index = 0;; ++index) {
    OMNI_TRY(const std::optional<LineSource::Line> found, source.next());
    if (!found) break;
    std::string_view text = found->text;
    if (index == 0 && text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    const std::string_view line = trim(text);
    if (!is_text(line) || found->too_long)
      return at_line(file, index, is_text(line) ? "is too long" : "is no text",
                     "is this the right file?");
    if (line.empty()) continue;
    if (!gaps && index != entries) return at_line(file, entries, "an empty line", "remove it");
    OMNI_CHECK(visit(line, index));
    ++entries;
  }
  if (entries == 0) return Error{ErrorKind::data, file.string(), "is empty", ""};
  return {};
}

Result<std::vector<std::string>> read_class_names(const fs::path& file,
                                                  std::optional<int> classes) {
  std::vector<std::string> names;
  const std::size_t wanted = classes.value_or(kMostClasses);
  OMNI_CHECK(for_each_line(file, false, [&](std::string_view line, std::size_t index) -> Status {
    if (names.size() < wanted)
      names.emplace_back(line);
    else if (!classes)
      return at_line(file, index, fmt::format("is beyond {} classes", kMostClasses),
                     "is this the right file?");
    return {};
  }));
  return names;
}

Result<fs::path> find_folder_of(const std::string& name, const std::string& where,
                                std::span<const fs::path> folders) {
  std::error_code ignored;
  if (fs::path(name).is_absolute()) return fs::path();
  std::string tried = fmt::format("the working directory {}", fs::current_path().string());
  if (fs::exists(name, ignored)) return fs::current_path();
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / name, ignored)) return folder;
    tried += " and " + folder.string();
  }
  return Error{ErrorKind::data, where, fmt::format("there is no {}", shown_name(name)),
               "looked for in " + tried};
}

Result<ImageList> read_labelled_list(const fs::path& file) {
  ImageList list{.file = file};
  OMNI_CHECK(for_each_line(file, false, [&](std::string_view line, std::size_t index) -> Status {
    const std::size_t blank = line.find_last_of(kBlanks);
    const std::int32_t label =
        blank == line.npos ? -1 : number_in<std::int32_t>(line.substr(blank + 1)).value_or(-1);
    if (label < 0 || label == std::numeric_limits<std::int32_t>::max())
      return at_line(file, index, "does not end with a label",
                     "each line is a path, a blank, and the number of the class, from 0 on; paths "
                     "that hold the names of their classes belong to a Darknet .data file");
    list.labels.push_back(label);
    list.paths.push_back(trim(line.substr(0, blank)));
    return {};
  }));
  OMNI_CHECK(settle_folder(list, std::array{fs::absolute(file).parent_path()}));
  return list;
}

Result<ImageList> read_path_list(const fs::path& file, const LabelFinder& labels,
                                 const fs::path& data_folder) {
  ImageList list{.file = file};
  OMNI_CHECK(for_each_line(file, false, [&](std::string_view line, std::size_t index) -> Status {
    OMNI_TRY(const int label, labels.find(line, line_of(file, index)));
    list.labels.push_back(label);
    list.paths.push_back(line);
    return {};
  }));
  OMNI_CHECK(settle_folder(list, std::array{fs::absolute(file).parent_path(), data_folder}));
  return list;
}

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

std::filesystem::path FileDataset::copy(std::size_t index) const {
  return staged_ / std::to_string(index / 1000) / std::to_string(index % 1000);
}

Status FileDataset::stage(const std::filesystem::path& place, bool skips) {
  const std::string prefix = fmt::format("omnivore-{}-images-", ::geteuid());
  delete_unlocked_folders(place, prefix);
  std::string name = place / (prefix + "XXXXXX");
  std::error_code problem(mkdtemp(name.data()) == nullptr ? errno : 0, std::generic_category());
  if (problem)
    return Error{ErrorKind::usage, place.string(), "cannot hold copies: " + problem.message(),
                 "set SLURM_TMPDIR or TMPDIR, or leave out --stage"};
  staged_ = name;
  lock_.emplace(lock_folder(staged_));
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

FileDataset::~FileDataset() {
  std::error_code none;
  if (!staged_.empty()) remove_all(staged_, none);
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
