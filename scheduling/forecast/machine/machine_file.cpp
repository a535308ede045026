#include "scheduling/forecast/machine/machine_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "runtime/files.hpp"
#include "runtime/nearest.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// The following functions parse the JSON text.

using Json = nlohmann::ordered_json;

constexpr std::size_t kDeepest = 8, kMostChildren = 4096, kMostReason = 100;

// ReadSoFar counts the lines that the JSON library has read.
struct ReadSoFar {
  int line = 1;
  char last = 0;
};
struct LineCounter {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char& operator*() const { return *at; }
  LineCounter& operator++() {
    so_far->last = *at++;
    so_far->line += so_far->last == '\n';
    return *this;
  }
  bool operator==(const LineCounter& other) const { return at == other.at; }
  bool operator!=(const LineCounter& other) const { return at != other.at; }

  const char* at;
  ReadSoFar* so_far;
};

// Returns the reason from a message of the JSON library. Such a message is "[...] parse error at
// line 3, column 7: syntax error while parsing object - unexpected ...".
std::string reason_in(std::string_view text) {
  for (const std::string_view mark : {"] ", " - "})
    if (const auto start = text.find(mark); start != text.npos)
      text.remove_prefix(start + mark.size());
  return one_line(text.substr(0, std::min(text.find("; last read"), kMostReason)));
}

// A LinedJson is a JSON document with the line of each value, as the library keeps no lines. A
// value with a key has the key's line.
struct LinedJson {
  Json root{};
  std::map<const Json*, int> lines{};

  // Notes the lines of a node and of its children. `next` points to the node's line; the children's
  // lines follow.
  void note_lines(const Json& node, std::vector<int>::const_iterator& next) {
    lines[&node] = *next++;
    for (const Json& child : node)
      if (node.is_structured()) note_lines(child, next);
  }
};

// Refuses invalid JSON, a key that appears twice, and excessive depth or length.
Status parse_json(std::string_view text, const std::string& where, LinedJson& json) {
  struct Open {
    std::set<std::string> keys{};
    std::size_t children = 0;
  };
  std::vector<Open> open;  // the objects and lists that are not closed, from the root
  std::vector<int> lines;  // lines of all values, in the order of the text
  ReadSoFar so_far;
  std::optional<Error> problem;
  const auto refuse = [&](std::string what, int line) {
    if (!problem)
      problem = Error{ErrorKind::data, fmt::format("{}:{}", where, line), std::move(what), ""};
    return false;
  };
  const auto note = [&, has_key = false](int, Json::parse_event_t event,
                                         const Json& value) mutable {
    using Event = Json::parse_event_t;
    if (problem) return false;
    if (event == Event::object_end || event == Event::array_end) return open.pop_back(), true;
    const bool is_key = event == Event::key;
    const std::string key = is_key ? value.get<std::string>() : "";
    if (is_key && !open.back().keys.insert(key).second)
      return refuse(fmt::format("{} appears twice", shown_name(key)), so_far.line);
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (opens && open.size() == kDeepest)
      return refuse(fmt::format("deeper than {} levels", kDeepest), so_far.line);
    if (!std::exchange(has_key, is_key)) {
      if (!open.empty() && open.back().children++ == kMostChildren)
        return refuse(fmt::format("more than {} entries", kMostChildren), so_far.line);
      lines.push_back(so_far.line);
    }
    if (opens) open.emplace_back();
    return true;
  };
  const LineCounter begin{text.data(), &so_far}, end{begin.at + text.size(), &so_far};
  try {
    json.root = Json::parse(begin, end, note);
  } catch (const Json::parse_error& error) {
    const auto good = text.substr(0, std::max<std::size_t>(error.byte, 1) - 1);
    refuse("is not JSON: " + reason_in(error.what()),
           1 + static_cast<int>(std::ranges::count(good, '\n')));
  } catch (const Json::out_of_range& error) {  // the character after the number is read
    refuse("is not JSON: " + reason_in(error.what()), so_far.line - (so_far.last == '\n'));
  }
  if (text.find('\0') != text.npos)
    refuse("is not JSON: holds a zero byte", 1);  // the library takes the byte for the end
  if (problem) return *std::move(problem);
  auto next = lines.cbegin();
  json.note_lines(json.root, next);
  return {};
}

// The following functions read the machine from the JSON document.

using Words = std::span<const std::string_view>;

constexpr std::uint64_t kMostBytes = 1 << 20;
constexpr double kMostDevices = 4096;

constexpr std::string_view kKinds[] = {"gpu", "cpu", "node"};
constexpr std::string_view kLaws[] = {"constant", "exponential", "lognormal"};
constexpr std::string_view kFileKeys[] = {"name", "devices", "link"};
constexpr std::string_view kLinkKeys[] = {"seconds", "bytes_per_second"};
constexpr std::string_view kDeviceKeys[] = {
    "kind",      "count",  "seconds", "merged_share", "overhead", "flops_per_second",
    "half_size", "spread", "memory",  "roofline",     "gain",     "serves"};
constexpr std::string_view kRooflineKeys[] = {"fp32", "tf32", "bf16", "bytes_per_second",
                                              "seconds_per_task"};

struct Range {
  double least, most;
  bool whole = false;

  bool holds(double number) const {
    return number >= least && number <= most && (!whole || number == std::floor(number));
  }
  std::string text() const {
    return fmt::format("a {}number from {} to {}", whole ? "whole " : "", least, most);
  }
};
constexpr Range kSharers{2, kMostDevices, true}, kGains{0.01, kMostDevices};
constexpr Range kTimes{1e-12, 1e6}, kRates{1, 1e30}, kSizes{1, 1e9, true};

std::string one_of(std::string_view word, Words known) {
  const std::string_view near = nearest(word, known);
  return near.empty() ? fmt::format("one of: {}", fmt::join(known, " "))
                      : fmt::format("did you mean \"{}\"?", near);
}

// MachineReader reads the whole machine. It keeps the first problem, and goes on with another value
// for one that it refuses.
class MachineReader {
 public:
  MachineReader(const LinedJson& json, const std::string& where) : json_(json), where_(where) {}

  Result<Machine> read() {
    const Json& file = json_.root;
    Machine machine;
    check_object(file, "the file", kFileKeys);
    machine.name = text(file, "name", R"("name": "two GPUs", say)");
    const Json* const devices = find(file, "devices");
    const bool some = devices != nullptr && devices->is_array();
    if (!some || devices->empty())
      refuse(devices != nullptr ? *devices : file, "\"devices\" is to be a list of devices",
             R"("devices": [{"kind": "gpu", "count": 2, "flops_per_second": 5e12}], say)");
    if (some)
      for (const Json& each : *devices) add_devices(each, machine.devices);
    const auto serving = std::ranges::count(machine.devices, true, &Machine::Device::serves_merged);
    if (serving > 1 || (some && serving == std::ssize(machine.devices)))
      refuse(*devices, "one device may serve merged layers, and another is to compute",
             "leave out \"serves\"");
    if (const Json* const link = find(file, "link")) {
      check_object(*link, "a link", kLinkKeys);
      machine.link.seconds = number(*link, "seconds", {0, kTimes.most}, 0);
      machine.link.bytes_per_second = number(*link, "bytes_per_second", kRates);
    }
    if (problem_) return std::move(*problem_);
    return machine;
  }

 private:
  static const Json* find(const Json& object, std::string_view key) {  // null: no such key
    const auto place = object.find(key);
    return place == object.end() ? nullptr : &*place;
  }
  void refuse(const Json& at, std::string what, std::string hint) {
    if (!problem_)
      problem_ = Error{ErrorKind::data, fmt::format("{}:{}", where_, json_.lines.at(&at)),
                       std::move(what), std::move(hint)};
  }

  void check_object(const Json& node, std::string_view said, Words keys) {
    if (!node.is_object())
      refuse(node, fmt::format("{} is to be an object", said),
             fmt::format("{{\"{}\": ...}}", keys.front()));
    else
      for (const auto& [key, each] : node.items())
        if (std::ranges::find(keys, key) == keys.end())
          refuse(each, fmt::format("unknown key {} of {}", shown_name(key), said),
                 one_of(key, keys));
  }

  std::string text(const Json& object, std::string_view key, std::string hint) {
    const Json* const node = find(object, key);
    if (node != nullptr && node->is_string() && *node != "") return node->get<std::string>();
    refuse(node != nullptr ? *node : object, fmt::format("\"{}\" is to be a text", key),
           std::move(hint));
    return "";
  }

  double checked(const Json& node, const Range& range, std::string_view said) {
    if (node.is_number() && range.holds(node)) return node;
    refuse(node, fmt::format("{} is out of range", said), range.text());
    return 1;
  }
  double number(const Json& object, std::string_view key, const Range& range,
                std::optional<double> fallback = std::nullopt) {
    if (const Json* const node = find(object, key))
      return checked(*node, range, fmt::format("\"{}\"", key));
    if (!fallback) refuse(object, fmt::format("\"{}\" is missing", key), range.text());
    return fallback.value_or(1);
  }

  // Returns the position of a word among the known words.
  std::size_t choice(const Json& node, std::string_view key, const std::string& word, Words known) {
    const auto place = std::ranges::find(known, word);
    if (place != known.end()) return place - known.begin();
    refuse(node, fmt::format("{} is no \"{}\"", shown_name(word), key), one_of(word, known));
    return 0;
  }

  void add_devices(const Json& node, std::vector<Machine::Device>& devices) {
    check_object(node, "a device", kDeviceKeys);
    Machine::Device device;
    const Json* const kind = find(node, "kind");
    const std::string word = text(node, "kind", "one of: gpu cpu node");
    if (kind != nullptr)
      device.kind = static_cast<Machine::Kind>(choice(*kind, "kind", word, kKinds));
    if (find(node, "memory") != nullptr) device.memory = number(node, "memory", {1, 0x1p53, true});
    if (const Json* const table = find(node, "seconds"))
      read_seconds(node, *table, device);
    else
      read_rate(node, device);
    if (const Json* const share = find(node, "merged_share")) {
      if (device.seconds.empty())
        refuse(*share, "\"merged_share\" without a table of \"seconds\"", "leave it out");
      device.merged_share = number(node, "merged_share", {0, 1});
    }
    if (const Json* const spread = find(node, "spread")) read_spread(*spread, device);
    if (const Json* const roofline = find(node, "roofline")) read_roofline(*roofline, device);
    if (const Json* const gain = find(node, "gain"))
      read_table(*gain, "gain", kSharers, kGains, R"("gain": {"2": 1.5, "4": 1.8}, say)",
                 device.gain);
    if (const Json* const serves = find(node, "serves")) {
      device.serves_merged = *serves == "merged";
      if (!device.serves_merged)
        refuse(*serves, "\"serves\" names no layers", R"("serves": "merged")");
    }
    const double left = kMostDevices - static_cast<double>(devices.size());
    const double count = number(node, "count", {1, kMostDevices, true}, 1);
    if (count > left)
      refuse(node, fmt::format("more than {} devices in all", kMostDevices), "leave some out");
    else
      devices.insert(devices.end(), static_cast<std::size_t>(count), device);
  }

  // Reads a table whose keys are whole numbers.
  void read_table(const Json& table, std::string_view key, const Range& keys, const Range& values,
                  std::string hint, std::map<std::uint64_t, double>& into) {
    if (!table.is_object() || table.empty())
      refuse(table, fmt::format("\"{}\" is to be a table", key), std::move(hint));
    else
      for (const auto& [name, entry] : table.items()) {
        const auto number = number_in<std::uint64_t>(name).value_or(0);
        if (!keys.holds(static_cast<double>(number)))
          refuse(entry, fmt::format("{} is no key of \"{}\"", shown_name(name), key), keys.text());
        const double value = checked(entry, values, fmt::format("a value of \"{}\"", key));
        if (!into.emplace(number, value).second)
          refuse(entry, fmt::format("{} appears twice in \"{}\"", number, key),
                 "leave one of them out");
      }
  }

  void read_seconds(const Json& node, const Json& table, Machine::Device& device) {
    for (const char* const key : {"overhead", "flops_per_second", "half_size"})
      if (const Json* const other = find(node, key))
        refuse(*other, fmt::format("\"{}\" beside a table of \"seconds\"", key),
               "leave one of them out");
    read_table(table, "seconds", kSizes, kTimes, R"("seconds": {"16": 0.01, "32": 0.016}, say)",
               device.seconds);
  }

  void read_rate(const Json& node, Machine::Device& device) {
    if (find(node, "flops_per_second") == nullptr)
      refuse(node, "the device has neither \"seconds\" nor \"flops_per_second\"",
             R"("flops_per_second": 5e12, say)");
    device.flops_per_second = number(node, "flops_per_second", kRates);
    device.overhead = number(node, "overhead", {0, kTimes.most}, 0);
    device.half_size = number(node, "half_size", {0, kSizes.most}, 0);
  }

  void read_spread(const Json& node, Machine::Device& device) {
    if (node.is_object()) {
      check_object(node, "a spread", Words(kLaws).last(1));
      device.law = Machine::Law::lognormal;
      device.sigma = number(node, "lognormal", {0, 2});
      return;
    }
    if (!node.is_string() || node == "lognormal")
      refuse(node, "\"spread\" is to be a law",
             R"(one of: "constant" "exponential" {"lognormal": 0.1})");
    else
      device.law = static_cast<Machine::Law>(choice(node, "spread", node, Words(kLaws).first(2)));
  }

  void read_roofline(const Json& node, Machine::Device& device) {
    check_object(node, "a roofline", kRooflineKeys);
    Machine::Roofline roofline;
    for (std::size_t precision = 0; precision < roofline.products.size(); ++precision)
      roofline.products[precision] = number(node, kRooflineKeys[precision], kRates);
    roofline.bytes_per_second = number(node, "bytes_per_second", kRates);
    roofline.seconds_per_task = number(node, "seconds_per_task", {0, kTimes.most}, 0);
    if (device.memory < 0x1p30)
      refuse(node, "\"roofline\" without a \"memory\" of 1 GiB or more", "\"memory\": 8e10, say");
    device.roofline = roofline;
  }

  const LinedJson& json_;
  const std::string& where_;
  std::optional<Error> problem_;
};

}  // namespace

Result<Machine> parse_machine(std::string_view text, const std::string& where) {
  LinedJson json;
  OMNI_CHECK(parse_json(text, where, json));
  return MachineReader(json, where).read();
}

Result<Machine> read_machine_file(const std::filesystem::path& path) {
  OMNI_TRY(const std::string text, read_file(path, kMostBytes));
  return parse_machine(text, path.string());
}

}  // namespace omni
