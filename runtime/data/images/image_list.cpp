#include "runtime/data/images/image_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include "runtime/data/data_file.hpp"
#include "runtime/data/formats.hpp"
#include "runtime/data/images/file_dataset.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostClasses = 1 << 20;
constexpr std::string_view kBlanks = " \t\r";

bool is_text(std::string_view line) {
  return std::ranges::none_of(line, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < ' ' && byte != '\t') || byte == 0x7F;
  });
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

const DataFormatRegistration labelled_lists(
    {.order = 40,  // the last, as it accepts any files
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

// Looks up every part of the path that is as long as some label. With a thousand labels of one
// length that is a thousand times as fast as a search for each label.
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

}  // namespace omni
