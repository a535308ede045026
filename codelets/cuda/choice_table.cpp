#include "codelets/cuda/choice_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/lower_case.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/tasks/session.hpp"

namespace omni {
namespace {

using nlohmann::ordered_json;

constexpr int kFormat = 3;  // 1: convolutions had other numbers; 2: none was folded
constexpr std::uint64_t kMostBytes = 1 << 20;
constexpr const char *kFinished = "algorithms", *kUnfinished = "unfinished", *kTried = "tried";

std::string file_name(std::string device, const ChoiceTable::Library& library) {
  std::ranges::replace_if(
      device, [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  return fmt::format("{}-{}-{}.json", lower_case(library.name), device, library.version);
}

bool is_finished(const ChoiceTable::Choice& choice) {
  return choice.trials == ChoiceTable::Trials::finished;
}

}  // namespace

ChoiceTable::ChoiceTable(const std::filesystem::path& folder, std::string device, Library library,
                         const std::filesystem::path& shipped)
    : path_(folder / file_name(device, library)),
      device_(std::move(device)),
      library_(std::move(library)) {
  for (const auto& path : {path_, shipped / path_.filename()}) {
    Result<Choices> found = read(path);
    if (!found) {
      log::warn("{}; algorithms of {} are measured anew", found.error().message(), library_.name);
      continue;
    }
    for (const auto& [key, choice] : *found)
      if (const auto [at, is_new] = choices_.try_emplace(key, choice);
          !is_new && is_finished(choice) && !is_finished(at->second))
        at->second = choice;
  }
}

ChoiceTable& ChoiceTable::shared(const std::string& device, const Library& library) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::unique_ptr<ChoiceTable>> tables;
  const std::filesystem::path folder = default_model_folder();
  const std::scoped_lock lock(mutex);
  std::unique_ptr<ChoiceTable>& table = tables[folder / file_name(device, library)];
  if (!table)
    table = std::make_unique<ChoiceTable>(folder, device, library, shipped_folder() / "choices");
  return *table;
}

std::optional<ChoiceTable::Choice> ChoiceTable::choose(
    const std::string& key, const std::function<bool(const Numbers&)>& works,
    const std::function<std::optional<Choice>()>& measure) {
  std::unique_lock lock(mutex_);
  std::optional<Choice> tried;
  for (auto known = choices_.find(key);
       known != choices_.end() && (!tried || known->second.numbers != tried->numbers);
       known = choices_.find(key)) {
    tried = known->second;
    lock.unlock();  // works() may take long, as it may compile the algorithm for its device
    if (works(tried->numbers)) return tried;
    lock.lock();
  }
  std::optional<Choice> found = measure();
  if (!found || found->trials == Trials::disturbed) return found;
  choices_[key] = *found;
  own_.insert(key);
  lock.unlock();  // other keys need not wait for the disk
  write();
  return found;
}

void ChoiceTable::keep(const std::string& key, Choice choice) {
  {
    const std::lock_guard lock(mutex_);
    choices_[key] = std::move(choice);
    own_.insert(key);
  }
  write();
}

// Writes the file's choices and those of this process. Of two for the same key the finished one is
// written, else the one with more trials, else that which was measured here.
void ChoiceTable::write() {
  const std::lock_guard writing(writing_);
  Choices all;
  if (Result<Choices> others = read(path_)) all = std::move(*others);
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, choice] : choices_) {
      const auto [at, is_new] = all.try_emplace(key, choice);
      const auto rank = [](const Choice& each) {
        return std::pair(is_finished(each), is_finished(each) ? 0 : each.tried);
      };
      if (rank(choice) > rank(at->second) ||
          (rank(choice) == rank(at->second) && own_.contains(key)))
        at->second = choice;
    }
  }
  if (const Status status = write(all); !status && !warned_) {
    log::warn("{}; the next run measures algorithms of {} again", status.error().message(),
              library_.name);
    warned_ = true;
  }
}

Result<ChoiceTable::Choices> ChoiceTable::read(const std::filesystem::path& path) const {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return Choices();
  OMNI_TRY(const std::string text, read_file(path, kMostBytes));
  const auto refuse = [&](std::string what) {
    return Error{ErrorKind::data, path.string(), std::move(what), ""};
  };
  const ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) return refuse("not a JSON object");
  const auto is = [&](const std::string& name, const ordered_json& value) {
    const auto at = json.find(name);
    return at != json.end() && *at == value;
  };
  if (!is("format", kFormat) || !is("device", device_) ||
      !is(lower_case(library_.name), library_.version))
    return refuse(fmt::format("was not written for format {}, {}, {} {}", kFormat, device_,
                              library_.name, library_.version));
  const auto numbers_tried = json.find(kTried);
  if (numbers_tried != json.end() && !numbers_tried->is_object())
    return refuse(fmt::format("lists no {}", kTried));
  const auto tried = [&](const std::string& key) -> std::size_t {
    if (numbers_tried == json.end()) return 0;
    const auto at = numbers_tried->find(key);
    return at != numbers_tried->end() && at->is_number_unsigned() ? at->get<std::size_t>() : 0;
  };
  Choices choices;
  for (const auto& [name, trials] :
       {std::pair(kFinished, Trials::finished), std::pair(kUnfinished, Trials::unfinished)}) {
    const auto list = json.find(name);
    if (list == json.end() && trials == Trials::unfinished) continue;
    if (list == json.end() || !list->is_object()) return refuse(fmt::format("lists no {}", name));
    for (const auto& [key, value] : list->items()) {
      if (!value.is_array() || (library_.numbers != 0 && value.size() != library_.numbers) ||
          !std::ranges::all_of(value,
                               [](const ordered_json& each) { return each.is_number_unsigned(); }))
        return refuse(
            fmt::format("{} is not followed by {}numbers", shown_name(key),
                        library_.numbers != 0 ? fmt::format("{} ", library_.numbers) : ""));
      choices.try_emplace(
          key, Choice{value.get<Numbers>(), trials, trials == Trials::unfinished ? tried(key) : 0});
    }
  }
  return choices;
}

Status ChoiceTable::write(const Choices& choices) const {
  ordered_json json{{"format", kFormat},
                    {"device", device_},
                    {lower_case(library_.name), library_.version},
                    {kFinished, ordered_json::object()}};
  for (const auto& [key, choice] : choices) {
    json[is_finished(choice) ? kFinished : kUnfinished][key] = choice.numbers;
    if (!is_finished(choice) && choice.tried > 0) json[kTried][key] = choice.tried;
  }
  std::error_code none;  // write_file_atomically() reports errors
  std::filesystem::create_directories(path_.parent_path(), none);
  return write_file_atomically(
      path_, json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace omni
