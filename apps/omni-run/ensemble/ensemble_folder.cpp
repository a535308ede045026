#include "apps/omni-run/ensemble/ensemble_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/checkpoint/run_lock.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestFile = 16 << 20;
constexpr std::size_t kLongestName = 200, kLongestText = 4096, kMostWords = 1024;
constexpr std::string_view kFormat = "omnivore-ensemble";
constexpr int kFormatVersion = 1;
constexpr const char* kRemedy = "omni-run ensemble writes it";
constexpr std::array<std::pair<MemberState, std::string_view>, 6> kStates{
    {{MemberState::running, "running"},
     {MemberState::finished, "finished"},
     {MemberState::diverged, "diverged"},
     {MemberState::stopped, "stopped"},
     {MemberState::dropped, "dropped"},
     {MemberState::failed, "failed"}}};

Error wrong_file(const std::string& where, std::string what, std::string hint = kRemedy) {
  return {ErrorKind::data, where, std::move(what), std::move(hint)};
}

// Returns whether the text is one line of printable UTF-8, so that JSON and messages hold it
// unchanged.
bool is_plain(const std::string& text, std::size_t longest) {
  return !text.empty() && text.size() <= longest && one_line(text) == text;
}

bool names_a_folder(const std::string& name) {
  const bool is_taken = name == kEnsembleFile || name == "rungs.json" || name == "rounds.json" ||
                        name == "finals.json" || name == "curves.html" || name == "lock";
  return is_plain(name, kLongestName) && name.front() != '.' && !is_taken &&
         name.find('/') == name.npos;
}

// Reads one member; the error is what is wrong with it.
class MemberReader {
 public:
  MemberReader(const nlohmann::json& json, std::string where)
      : json_(json), where_(std::move(where)) {}

  Result<EnsembleMember> read() {
    if (!json_.is_object()) return wrong_file(where_, "is no object");
    EnsembleMember member;
    OMNI_TRY(member.name, text("name"));
    OMNI_TRY(member.net, text("net"));
    if (json_.contains("solver")) {
      OMNI_TRY(member.solver, text("solver"));
    }
    OMNI_TRY(member.options, words("options"));
    OMNI_TRY(const std::string state, text("state"));
    const auto known = std::ranges::find(kStates, state, &decltype(kStates)::value_type::second);
    if (known == kStates.end()) return wrong_value("state");
    member.state = known->first;
    const nlohmann::json& iteration = value("iteration");
    if (!iteration.is_number_unsigned()) return wrong_value("iteration");
    member.iteration = iteration.get<std::uint64_t>();
    OMNI_TRY(member.loss, number("loss"));
    OMNI_TRY(member.accuracy, number("accuracy"));
    if (member.accuracy && !(*member.accuracy >= 0 && *member.accuracy <= 1))
      return wrong_value("accuracy");
    if (json_.contains("error")) {
      OMNI_TRY(member.error, text("error"));
    }
    return member;
  }

 private:
  const nlohmann::json& value(const char* key) const {
    static const nlohmann::json none;
    const auto found = json_.find(key);
    return found != json_.end() ? *found : none;
  }
  Error wrong_value(const char* key) const {
    return wrong_file(where_, json_.contains(key) ? fmt::format("'{}' is {}", key,
                                                                shown_name(json_text(json_[key])))
                                                  : fmt::format("lacks '{}'", key));
  }
  Result<std::string> text(const char* key) const {
    if (!value(key).is_string()) return wrong_value(key);
    return value(key).get<std::string>();
  }
  Result<std::vector<std::string>> words(const char* key) const {
    const nlohmann::json& list = value(key);
    if (!list.is_array() || list.size() > kMostWords ||
        !std::ranges::all_of(list, [](const nlohmann::json& each) { return each.is_string(); }))
      return wrong_value(key);
    return list.get<std::vector<std::string>>();
  }
  Result<std::optional<double>> number(const char* key) const {
    const nlohmann::json& found = value(key);
    if (found.is_null()) return std::optional<double>();
    if (!found.is_number() || !std::isfinite(found.get<double>())) return wrong_value(key);
    return std::optional(found.get<double>());
  }

  const nlohmann::json& json_;
  std::string where_;
};

nlohmann::ordered_json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? nlohmann::ordered_json(*value) : nullptr;
}

Result<RunLock> wait_for_lock(const fs::path& folder) {
  for (int tries = 0;; ++tries) {
    auto held = RunLock::acquire(folder);
    if (held || tries == 500) return held;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // 10 s in all; a write takes less
  }
}

// The state of a run is the first of these that a member has.
MemberState state_of_all(const std::vector<EnsembleMember>& members) {
  for (const MemberState state : {MemberState::failed, MemberState::running, MemberState::stopped,
                                  MemberState::finished, MemberState::diverged})
    if (std::ranges::find(members, state, &EnsembleMember::state) != members.end()) return state;
  return MemberState::dropped;
}

}  // namespace

std::string lasting_name(const std::string& file) {
  std::error_code ignored;
  return fs::exists(file, ignored) ? fs::absolute(file).string() : file;
}

std::string_view text_of(MemberState state) {
  return std::ranges::find(kStates, state, &decltype(kStates)::value_type::first)->second;
}

fs::path member_weights(const fs::path& folder, const EnsembleMember& member) {
  return folder / member.name / "net.weights";
}

Status check_members(const std::vector<EnsembleMember>& members, const std::string& where) {
  if (members.empty()) return wrong_file(where, "has no members");
  if (members.size() > kMostMembers)
    return wrong_file(where, fmt::format("has {} members, at most {} are possible", members.size(),
                                         kMostMembers));
  std::set<std::string_view> names;
  for (const EnsembleMember& member : members) {
    const std::string shown = shown_name(member.name);
    if (!names_a_folder(member.name))
      return wrong_file(
          where, fmt::format("the member {} cannot have a folder of this name", shown),
          fmt::format("names have 1 to {} bytes, no / and no dot in front", kLongestName));
    if (!names.insert(member.name).second)
      return wrong_file(where, fmt::format("has two members {}", shown), "name each member once");
    const auto is_word = [](const std::string& word) {
      return word.empty() || is_plain(word, kLongestText);
    };
    if (!is_plain(member.net, kLongestText) || !is_word(member.solver) ||
        !std::ranges::all_of(member.options, is_word))
      return wrong_file(where,
                        fmt::format("the net or the options of {} hold control characters, are no "
                                    "UTF-8, or have more than {} bytes",
                                    shown, kLongestText),
                        "rename the files that they name");
  }
  return {};
}

Result<std::vector<EnsembleMember>> read_ensemble(const fs::path& folder) {
  const fs::path path = folder / kEnsembleFile;
  const std::string where = path.string();
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    return Error{
        ErrorKind::usage, folder.string(),
        fs::exists(folder, ignored) ? fmt::format("holds no {}", kEnsembleFile) : "no such folder",
        "name the run folder of omni-run ensemble"};
  OMNI_TRY(const std::string text, read_file(path, kLargestFile));
  const nlohmann::json file = nlohmann::json::parse(text, nullptr, false);
  if (!file.is_object() || !file.contains("format") || file["format"] != kFormat)
    return wrong_file(where, "describes no ensemble");
  if (!file.contains("version") || file["version"] != kFormatVersion)
    return wrong_file(
        where,
        fmt::format("has a version that this program does not know; it knows {}", kFormatVersion),
        "read it with the program that wrote it");
  if (!file.contains("members") || !file["members"].is_array())
    return wrong_file(where, "lacks the list 'members'");
  std::vector<EnsembleMember> members;
  for (const nlohmann::json& each : file["members"]) {
    OMNI_TRY(EnsembleMember member,
             MemberReader(each, fmt::format("{}: member {}", where, members.size() + 1)).read());
    members.push_back(std::move(member));
  }
  OMNI_CHECK(check_members(members, where));
  return members;
}

Status update_ensemble(const fs::path& folder, const std::vector<EnsembleMember>& members,
                       const std::vector<bool>& are_own) {
  OMNI_TRY(const RunLock lock, wait_for_lock(folder));
  std::vector<EnsembleMember> all = members;
  if (const auto there = read_ensemble(folder);
      there &&
      std::ranges::equal(*there, members, {}, &EnsembleMember::name, &EnsembleMember::name))
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!are_own[i]) all[i] = (*there)[i];
  return write_ensemble(folder, all);
}

Status fail_running(const fs::path& folder, const std::vector<bool>& are_own,
                    const std::string& reason) {
  OMNI_TRY(const RunLock lock, wait_for_lock(folder));
  OMNI_TRY(std::vector<EnsembleMember> all, read_ensemble(folder));
  for (std::size_t i = 0; i < std::min(all.size(), are_own.size()); ++i)
    if (are_own[i] && all[i].state == MemberState::running) {
      all[i].state = MemberState::failed;
      all[i].error = reason;
    }
  return write_ensemble(folder, all);
}

Status write_ensemble(const fs::path& folder, const std::vector<EnsembleMember>& members) {
  const fs::path path = folder / kEnsembleFile;
  OMNI_CHECK(check_members(members, path.string()));
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const EnsembleMember& member : members) {
    nlohmann::ordered_json each{{"name", member.name}, {"net", member.net}};
    if (!member.solver.empty()) each["solver"] = member.solver;
    each.update({{"options", member.options},
                 {"state", text_of(member.state)},
                 {"iteration", member.iteration},
                 {"loss", number_or_null(member.loss)},
                 {"accuracy", number_or_null(member.accuracy)}});
    if (!member.error.empty()) each["error"] = one_line(member.error);
    list.push_back(std::move(each));
  }
  const MemberState state = state_of_all(members);
  nlohmann::ordered_json file{
      {"format", kFormat}, {"version", kFormatVersion}, {"state", text_of(state)}};
  if (state == MemberState::failed)
    file["error"] = one_line(std::ranges::find(members, state, &EnsembleMember::state)->error);
  file["members"] = std::move(list);
  return write_file_atomically(path, json_text(file, 1) + "\n");
}

}  // namespace omni
