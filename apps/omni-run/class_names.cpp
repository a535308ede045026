#include "apps/omni-run/class_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

#include "runtime/data/images/image_list.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// The names in a checkpoint take at most this many bytes, as its header has a bounded length.
constexpr std::size_t kMostBytes = 4 << 20;

// Returns the name as files have it: on one line, without blanks around it; never empty.
std::string stored_form(const std::string& name, std::size_t output) {
  const std::string line = one_line(name);
  const std::string_view text = trim(line);
  return text.empty() ? fmt::format("class {}", output) : std::string(text);
}

}  // namespace

std::vector<std::string> class_names_of(const Dataset& data, const Net& net) {
  std::vector<std::string> names = data.class_names();
  if (names.empty()) return names;
  names.resize(net.classes());
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = stored_form(names[i], i);
    bytes += names[i].size() + 1;
  }
  if (bytes <= kMostBytes) return names;
  log::warn("the names of the classes take {} bytes: more than {} are stored nowhere", bytes,
            kMostBytes);
  return {};
}

std::filesystem::path names_file(const std::filesystem::path& weights) {
  return weights.string() + ".names";
}

Status check_names_beside(const std::filesystem::path& weights) {
  const std::filesystem::path file = names_file(weights);
  std::error_code none;
  if (std::filesystem::exists(weights, none) || !std::filesystem::exists(file, none)) return {};
  return Error{ErrorKind::usage, file.string(),
               "is there already, and would be overwritten by the names of the classes",
               "name other weights with --save-weights"};
}

Status write_names_beside(const std::filesystem::path& weights,
                          const std::vector<std::string>& names) {
  const std::filesystem::path file = names_file(weights);
  if (!names.empty())
    return write_file_atomically(file, fmt::format("{}\n", fmt::join(names, "\n")));
  std::error_code failure;
  if (std::filesystem::remove(file, failure))
    log::info("removed {}: it named the classes of the weights before", file.string());
  if (!failure) return {};
  return Error{ErrorKind::failed, file.string(), failure.message(), "it is of other weights"};
}

std::vector<std::string> names_beside(const std::filesystem::path& weights) {
  const std::filesystem::path file = names_file(weights);
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  auto names = read_class_names(file, std::nullopt);
  if (names) return std::move(*names);
  log::warn("{}; the classes are not named by it", names.error().message());
  return {};
}

Result<std::vector<std::string>> read_names(const std::string& file, const Net& net) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    return Error{ErrorKind::usage, "--names " + file, "no such file", "one name per line"};
  OMNI_TRY(auto names, read_class_names(file, std::nullopt));
  if (std::ssize(names) == net.classes()) return names;
  return Error{ErrorKind::data, file,
               fmt::format("has {} names, the net {} outputs", names.size(), net.classes()),
               "one name per line, in the order of the classes"};
}

std::vector<std::string> settle_names(std::vector<std::string> given, const Dataset* data,
                                      std::vector<std::string> stored, const Net& net,
                                      const std::string& weights) {
  const std::size_t outputs = net.classes();
  if (!stored.empty() && stored.size() != outputs) {
    log::warn("{}: {} names of classes are stored with it, the net has {} outputs: not used",
              weights, stored.size(), outputs);
    stored.clear();
  }
  if (given.empty() && data != nullptr) {
    given = data->class_names();
    for (std::size_t i = 0; i < std::min(given.size(), stored.size()); ++i)
      if (stored_form(given[i], i) != stored[i]) {
        log::warn("{}: was trained with {} as class {}, which is {} in these data", weights,
                  shown_name(stored[i]), i, shown_name(given[i]));
        break;
      }
  }
  if (given.empty()) given = std::move(stored);
  while (given.size() < outputs) given.push_back(fmt::format("class {}", given.size()));
  return given;
}

}  // namespace omni
