#include "runtime/data/images/image_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>

#include "runtime/files.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Tens of millions of paths.
constexpr std::uint64_t kMaxListBytes = std::uint64_t{4} << 30;
// To look for every image of a million takes minutes on a network's disk. This many, spread over
// the list, show a wrong folder; a single file that lacks is named when it is its turn.
constexpr std::size_t kLookedFor = 100;

constexpr std::string_view kBlanks = " \t\r";

bool is_text(std::string_view line) {
  return std::none_of(line.begin(), line.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < ' ' && byte != '\t') || byte == 0x7F;
  });
}

Error at_line(const fs::path& file, std::size_t index, std::string what, std::string hint) {
  return {ErrorKind::data, line_of(file, index), std::move(what), std::move(hint)};
}

Status check_paths(const ImageList& list) {
  const std::size_t count = list.paths.size(), looked_for = std::min(count, kLookedFor);
  for (std::size_t i = 0; i < looked_for; ++i) {
    const std::size_t index = looked_for == 1 ? 0 : i * (count - 1) / (looked_for - 1);
    std::error_code ignored;
    if (!fs::is_regular_file(list.folder / list.paths[index], ignored))
      return at_line(
          list.file, index,
          fmt::format("there is no file {}",
                      shown_name((list.folder / list.paths[index]).string())),
          fmt::format("the folder follows from the first path; {} of {} lines were looked at",
                      looked_for, count));
  }
  return {};
}

Status settle_folder(ImageList& list, std::span<const fs::path> folders) {
  const auto relative = std::ranges::find_if(
      list.paths, [](const std::string& path) { return !fs::path(path).is_absolute(); });
  if (relative != list.paths.end()) {
    const auto index = static_cast<std::size_t>(relative - list.paths.begin());
    OMNI_TRY(list.folder, find_folder_of(*relative, line_of(list.file, index), folders));
  }
  return check_paths(list);
}

}  // namespace

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

int ImageList::most_label() const { return *std::max_element(labels.begin(), labels.end()); }

std::string line_of(const fs::path& file, std::size_t index) {
  return fmt::format("{}:{}", file.string(), index + 1);
}

Result<std::vector<std::string>> read_lines(const fs::path& file) {
  OMNI_TRY(const std::string text, read_file(file, kMaxListBytes));
  std::string_view rest = text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  std::vector<std::string> lines;
  std::size_t filled = 0;  // lines up to the last one that is not empty
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trim(rest.substr(0, end));
    if (!is_text(line)) return at_line(file, lines.size(), "is no text", "is this the right file?");
    lines.emplace_back(line);
    if (!line.empty()) filled = lines.size();
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  lines.resize(filled);
  if (lines.empty()) return Error{ErrorKind::data, file.string(), "is empty", ""};
  return lines;
}

Result<std::vector<std::string>> read_entries(const fs::path& file) {
  OMNI_TRY(std::vector<std::string> lines, read_lines(file));
  const auto gap = std::ranges::find(lines, std::string());
  if (gap != lines.end())
    return at_line(file, static_cast<std::size_t>(gap - lines.begin()), "an empty line",
                   "remove it");
  return lines;
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
  OMNI_TRY(list.paths, read_entries(file));
  list.labels.reserve(list.paths.size());
  for (std::size_t i = 0; i < list.paths.size(); ++i) {
    std::string& line = list.paths[i];
    const std::size_t blank = line.find_last_of(kBlanks);
    std::int32_t label = -1;
    if (blank != std::string::npos) {
      const char* const last = line.data() + line.size();
      const auto [end, code] = std::from_chars(line.data() + blank + 1, last, label);
      if (code != std::errc() || end != last) label = -1;
    }
    if (label < 0 || label == std::numeric_limits<std::int32_t>::max())
      return at_line(file, i, "does not end with a label",
                     "each line is a path, a blank, and the number of the class, from 0 on; paths "
                     "that hold the names of their classes belong to a Darknet .data file");
    list.labels.push_back(label);
    line.resize(trim(std::string_view(line).substr(0, blank)).size());
  }
  OMNI_CHECK(settle_folder(list, std::array{fs::absolute(file).parent_path()}));
  return list;
}

Result<ImageList> read_path_list(const fs::path& file, const LabelFinder& labels,
                                 const fs::path& data_folder) {
  ImageList list{.file = file};
  OMNI_TRY(list.paths, read_entries(file));
  list.labels.reserve(list.paths.size());
  for (std::size_t i = 0; i < list.paths.size(); ++i) {
    OMNI_TRY(const int label, labels.find(list.paths[i], line_of(file, i)));
    list.labels.push_back(label);
  }
  OMNI_CHECK(settle_folder(list, std::array{fs::absolute(file).parent_path(), data_folder}));
  return list;
}

}  // namespace omni
