#include "apps/omni-run/slurm/sbatch_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/lower_case.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {
namespace {

constexpr std::int64_t kMostMinutes = std::int64_t{1} << 31;
constexpr std::uint64_t kMostTasks = 4'000'001;  // Slurm's largest MaxArraySize

// Returns the number if the text has only digits, and the number is below 2^31.
std::optional<std::int64_t> number_of(std::string_view text) {
  const auto number = number_in<std::int64_t>(text);
  return number && text.front() != '-' && *number < kMostMinutes ? number : std::nullopt;
}

// Returns a number of nodes; "2k" is 2048.
std::optional<int> nodes_of(std::string_view text) {
  std::int64_t factor = 1;
  if (text.ends_with('k')) factor = 1 << 10;
  if (text.ends_with('m')) factor = 1 << 20;
  if (factor > 1) text.remove_suffix(1);
  const auto number = number_of(text);
  if (!number || *number < 1 || *number * factor > (1 << 24)) return std::nullopt;
  return static_cast<int>(*number * factor);
}

// Returns the number of tasks in "3", "0-7" or "0-7:2".
std::optional<std::uint64_t> tasks_of_range(std::string_view text) {
  const std::size_t dash = text.find('-'), colon = text.find(':');
  const auto first = number_of(text.substr(0, dash));
  if (dash == text.npos) return first ? std::optional(std::uint64_t{1}) : std::nullopt;
  const auto last = number_of(text.substr(dash + 1, colon - std::min(colon, dash + 1)));
  const auto step =
      colon == text.npos ? std::optional(std::int64_t{1}) : number_of(text.substr(colon + 1));
  if (!first || !last || !step || *last < *first || *step < 1) return std::nullopt;
  if (*last >= static_cast<std::int64_t>(kMostTasks)) return std::nullopt;
  return (*last - *first) / *step + 1;
}

bool is_size(std::string_view text) {
  if (text.ends_with('B') || text.ends_with('b')) text.remove_suffix(1);
  if (!text.empty() && std::string_view("KMGTkmgt").find(text.back()) != text.npos)
    text.remove_suffix(1);
  return number_of(text).has_value();
}

// Returns whether the text is a list of "name", "name:2", "name:type:2" or "name:type:100G". Only
// sbatch knows the valid names.
bool is_gres(std::string_view text) {
  return std::ranges::all_of(split(text, ','), [](std::string_view entry) {
    const auto parts = split(entry, ':');
    const auto counts = [](std::string_view count) {
      if (!count.empty() && std::string_view("KMGTPkmgtp").find(count.back()) != count.npos)
        count.remove_suffix(1);
      return number_of(count).has_value();
    };
    const bool counted = parts.size() < 3 || counts(parts[2]);
    return parts.size() <= 3 && counted && std::ranges::none_of(parts, &std::string_view::empty);
  });
}

// Returns whether the text can follow #SBATCH without quotes. There quotes, backslashes and # are
// special.
bool is_name(std::string_view text) {
  return text.find_first_of(" \t'\"\\#") == text.npos && one_line(text) == text;
}

struct Grammar {
  const char* option;
  bool (*takes)(std::string_view);
  const char *what, *todo;
};

constexpr std::array kGrammar{
    Grammar{"--nodes", [](std::string_view text) { return node_range(text).has_value(); },
            "is no number of nodes", "as in 4, or 2-4"},
    Grammar{"--time", [](std::string_view text) { return seconds_of_limit(text).has_value(); },
            "is no time",
            "minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, "
            "days-hours:minutes:seconds, or UNLIMITED"},
    Grammar{"--array", [](std::string_view text) { return tasks_of_array(text).has_value(); },
            "are no numbers of tasks", "as in 0-7, 1,3,5-7, 0-15:4, or 0-15%4, four at a time"},
    Grammar{"--gpus", [](std::string_view text) { return numbers_of_gpus(text).has_value(); },
            "is no number of GPUs",
            "as for sbatch: 2, or h100:2; the numbers of GPUs come behind --: -- --gpus 0,1"},
    Grammar{"--gpus-per-node",
            [](std::string_view text) { return numbers_of_gpus(text).has_value(); },
            "is no number of GPUs", "as in 2, or h100:2"},
    Grammar{"--gres", is_gres, "is no list of resources", "as in gpu:2, or gpu:h100:2"},
    Grammar{"--mem", is_size, "is no size", "as in 16G; a number alone is in MiB, 0 is all"},
    Grammar{"--cpus-per-task",
            [](std::string_view text) { return number_of(text).value_or(0) > 0; },
            "is no number of cores", "as in 8"}};

}  // namespace

std::optional<NodeRange> node_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto least = nodes_of(text.substr(0, dash));
  const auto most = dash == text.npos ? least : nodes_of(text.substr(dash + 1));
  if (!least || !most || *most < *least) return std::nullopt;
  return NodeRange{*least, *most};
}

std::optional<std::int64_t> seconds_of_limit(std::string_view text) {
  const std::string word = lower_case(text);
  if (word == "unlimited" || word == "infinite" || word == "-1") return 0;
  const std::size_t dash = text.find('-');
  const bool has_days = dash != text.npos;
  std::vector<std::int64_t> numbers;
  if (has_days) {
    const auto days = number_of(text.substr(0, dash));
    if (!days) return std::nullopt;
    numbers.push_back(*days);
    text.remove_prefix(dash + 1);
  }
  for (const std::string_view part : split(text, ':')) {
    const auto number = number_of(part);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  if (numbers.size() > (has_days ? 4 : 3)) return std::nullopt;
  // Completes the numbers to days, hours, minutes and seconds. Without days, one or two numbers
  // begin with minutes.
  if (!has_days) numbers.insert(numbers.begin(), numbers.size() < 3 ? 2 : 1, 0);
  numbers.resize(4);
  const std::int64_t minutes =
      (numbers[0] * 24 + numbers[1]) * 60 + numbers[2] + (numbers[3] + 59) / 60;
  if (minutes >= kMostMinutes) return std::nullopt;
  return minutes * 60;  // Slurm rounds up to minutes
}

std::optional<std::uint64_t> tasks_of_array(std::string_view text) {
  const std::size_t limit = text.find('%');
  if (limit != text.npos && !number_of(text.substr(limit + 1))) return std::nullopt;
  std::uint64_t tasks = 0;
  for (const std::string_view range : split(text.substr(0, limit), ',')) {
    const auto count = tasks_of_range(range);
    if (!count) return std::nullopt;
    tasks += *count;
  }
  return tasks;
}

std::optional<std::vector<int>> numbers_of_gpus(std::string_view text) {
  std::vector<int> numbers;
  for (const std::string_view entry : split(text, ',')) {
    const std::size_t colon = entry.find(':');
    const auto number = number_of(colon == entry.npos ? entry : entry.substr(colon + 1));
    if (colon == 0 || !number || *number < 1 || *number > 1'000'000) return std::nullopt;
    numbers.push_back(static_cast<int>(*number));
  }
  return numbers;
}

std::optional<std::string> gpus_divided(std::string_view text, int nodes) {
  std::string divided;
  for (const std::string_view entry : split(text, ',')) {
    const std::size_t type = entry.find(':') + 1;  // 0: no type
    const auto number = number_of(entry.substr(type)).value_or(1);
    if (number % nodes != 0) return std::nullopt;
    divided +=
        fmt::format("{}{}{}", divided.empty() ? "" : ",", entry.substr(0, type), number / nodes);
  }
  return divided;
}

int gpus_of_gres(std::string_view text) {
  int gpus = 0;
  for (const std::string_view entry : split(text, ',')) {
    const auto parts = split(entry, ':');
    if (parts.front() == "gpu")
      gpus += static_cast<int>(parts.size() == 1 ? 1 : number_of(parts.back()).value_or(1));
  }
  return gpus;
}

std::optional<std::string> for_sbatch_line(std::string_view value) {
  // Slurm 22.05 accepts a backslash here, but fails in a folder with one in its name.
  if (one_line(value) != value || value.find('\\') != value.npos) return std::nullopt;
  if (is_name(value)) return std::string(value);
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::uint64_t last_task(std::string_view text) {
  std::uint64_t last = 0;
  for (std::string_view range : split(text.substr(0, text.find('%')), ',')) {
    range = range.substr(0, range.find(':'));
    const std::size_t dash = range.find('-');
    const auto end = number_of(dash == range.npos ? range : range.substr(dash + 1));
    last = std::max(last, static_cast<std::uint64_t>(end.value_or(0)));
  }
  return last;
}

Result<std::vector<SbatchOptions>> take_components(std::vector<std::string>& words,
                                                   const SbatchOptions& known) {
  std::vector<SbatchOptions> components;
  std::vector<std::string> others;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      others.insert(others.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    if (words[i] != ":") {
      others.push_back(words[i]);
      continue;
    }
    SbatchOptions& own = components.emplace_back();
    for (; i + 1 < words.size(); ++i) {
      const std::size_t equals = words[i + 1].find('=');
      const std::string option = words[i + 1].substr(0, equals);
      if (!known.contains(option)) break;
      if (equals == std::string::npos && i + 2 == words.size())
        return Error{ErrorKind::usage, option, "lacks its value", "as for sbatch"};
      own[option] = equals == std::string::npos ? words[++i + 1] : words[i + 1].substr(equals + 1);
    }
    if (own.empty())
      return Error{ErrorKind::usage, ":", "no option of sbatch follows it",
                   "--nodes 1 : --nodes 4 --cpus-per-task 16, say"};
  }
  words = std::move(others);
  return components;
}

Status check_grammar(const SbatchOptions& options) {
  for (const auto& [option, value] : options) {
    const auto own = std::ranges::find(kGrammar, option, &Grammar::option);
    if (own != kGrammar.end() && !own->takes(value))
      return Error{ErrorKind::usage, fmt::format("{} {}", option, shown_name(value)), own->what,
                   own->todo};
    if (!is_name(value))
      return Error{ErrorKind::usage, fmt::format("{} {}", option, shown_name(value)),
                   "holds a character that an #SBATCH line reads otherwise",
                   "letters, digits and the like"};
  }
  return {};
}

}  // namespace omni
