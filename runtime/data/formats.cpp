#include "runtime/data/formats.hpp"

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace omni {
namespace {

namespace fs = std::filesystem;

std::vector<DataFormat>& all_formats() {
  static std::vector<DataFormat> all;
  return all;
}

// Returns whether `source` names the format: "synthetic:100" names "synthetic[:IMAGES]".
bool is_named(const DataFormat& format, std::string_view source) {
  const bool takes_numbers = format.form.size() > format.name.size();
  return (takes_numbers ? source.substr(0, source.find(':')) : source) == format.name;
}

}  // namespace

DataFormatRegistration::DataFormatRegistration(DataFormat format) {
  const auto at = std::ranges::lower_bound(all_formats(), format.order, {}, &DataFormat::order);
  all_formats().insert(at, format);
}

const std::vector<DataFormat>& data_formats() { return all_formats(); }

const DataFormat* format_of(const DatasetRequest& request) {
  const auto found = std::ranges::find_if(all_formats(), [&](const DataFormat& format) {
    return format.is != nullptr ? format.is(request) : is_named(format, request.source);
  });
  return found == all_formats().end() ? nullptr : &*found;
}

std::string known_sources() {
  std::string text;
  for (const DataFormat& format : all_formats()) {
    if (!text.empty()) text += format.is == nullptr ? ", " : "; or ";
    text += format.form;
  }
  return text;
}

TwoFiles two_files(const DatasetRequest& request) {
  std::error_code ignored;
  const std::string& source = request.source;
  const std::size_t comma = fs::exists(source, ignored) ? source.npos : source.find(',');
  return {source.substr(0, comma), comma == source.npos ? "" : source.substr(comma + 1)};
}

std::optional<fs::path> find_in_data_folder(std::initializer_list<const char*> folders,
                                            bool (*is_wanted)(const fs::path&)) {
  const char* root = std::getenv("OMNIVORE_DATA");
  if (root == nullptr || *root == '\0') return std::nullopt;
  for (const char* folder : folders)
    if (is_wanted(fs::path(root) / folder)) return fs::path(root) / folder;
  return std::nullopt;
}

}  // namespace omni
