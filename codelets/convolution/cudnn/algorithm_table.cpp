#include "codelets/convolution/cudnn/algorithm_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/tasks/session.hpp"

namespace omni {
namespace {

using nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::uint64_t kMostBytes = 16 << 20;

std::string file_name(std::string device, std::size_t version) {
  std::replace_if(
      device.begin(), device.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  return fmt::format("cudnn-{}-{}.json", device, version);
}

}  // namespace

AlgorithmTable::AlgorithmTable(const std::filesystem::path& folder, std::string device,
                               std::size_t version)
    : path_(folder / file_name(device, version)), device_(std::move(device)), version_(version) {
  if (const Status status = read(); !status)
    log::warn("{}; convolution algorithms are measured anew", status.error().message());
}

AlgorithmTable& AlgorithmTable::shared(const std::string& device, std::size_t version) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::unique_ptr<AlgorithmTable>> tables;
  const std::filesystem::path folder = default_model_folder();
  const std::scoped_lock lock(mutex);
  std::unique_ptr<AlgorithmTable>& table = tables[folder / file_name(device, version)];
  if (!table) table = std::make_unique<AlgorithmTable>(folder, device, version);
  return *table;
}

std::optional<AlgorithmChoice> AlgorithmTable::choose(
    const std::string& key, const std::function<bool(const AlgorithmChoice&)>& works,
    const std::function<std::optional<AlgorithmChoice>()>& measure) {
  const std::scoped_lock lock(mutex_);
  if (const auto known = choices_.find(key); known != choices_.end() && works(known->second))
    return known->second;
  const std::optional<AlgorithmChoice> found = measure();
  if (!found) return std::nullopt;
  choices_[key] = *found;
  if (const Status status = write(); !status && !told_) {
    log::warn("{}; the next run measures convolution algorithms again", status.error().message());
    told_ = true;
  }
  return found;
}

Status AlgorithmTable::read() {
  std::error_code none;
  if (!std::filesystem::exists(path_, none)) return {};
  OMNI_TRY(const std::string text, read_file(path_, kMostBytes));
  const auto refuse = [&](std::string what) {
    return Error{ErrorKind::data, path_.string(), std::move(what), ""};
  };
  const ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) return refuse("not a JSON object");
  const auto is = [&](const char* name, const ordered_json& value) {
    const auto at = json.find(name);
    return at != json.end() && *at == value;
  };
  if (!is("format", kFormat) || !is("device", device_) || !is("cudnn", version_))
    return refuse(fmt::format("not for format {}, {}, cuDNN {}", kFormat, device_, version_));
  const auto list = json.find("algorithms");
  if (list == json.end() || !list->is_object()) return refuse("lists no algorithms");
  std::map<std::string, AlgorithmChoice> choices;
  for (const auto& [key, value] : list->items()) {
    if (!value.is_array() || value.size() != 2 || !value[0].is_number_integer() ||
        !value[1].is_number_integer())
      return refuse(fmt::format("{} is not followed by two numbers", shown_name(key)));
    choices[key] = {value[0].get<int>(), value[1].get<int>()};
  }
  choices_ = std::move(choices);
  return {};
}

Status AlgorithmTable::write() const {
  ordered_json list = ordered_json::object();
  for (const auto& [key, choice] : choices_) list[key] = {choice.algorithm, choice.math};
  const ordered_json json{
      {"format", kFormat}, {"device", device_}, {"cudnn", version_}, {"algorithms", list}};
  std::error_code none;  // shows in what follows
  std::filesystem::create_directories(path_.parent_path(), none);
  return write_file_atomically(
      path_, json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace omni
