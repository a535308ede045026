#include "scheduling/arrivals/machine_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "runtime/files.hpp"
#include "runtime/nearest.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// ---- the text ----

// JSON as a tree with line numbers, which the JSON library does not keep.
struct JsonNode {
  enum class Type { object, array, text, number, other };
  Type type = Type::other;
  int line = 1;       // of the key; without a key, of the value
  std::string key{};  // in an object
  std::string text{};
  double number = 0;
  std::vector<JsonNode> children{};

  const JsonNode* find(std::string_view name) const {  // null: there is none
    const auto place = std::ranges::find(children, name, &JsonNode::key);
    return place == children.end() ? nullptr : &*place;
  }
};

using nlohmann::json;

constexpr std::size_t kDeepest = 8, kMostChildren = 4096, kMostReason = 100;

// Counts the lines that the library has read.
struct LineCounter {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char& operator*() const { return *at; }
  LineCounter& operator++() {
    *line += *at++ == '\n';
    return *this;
  }
  bool operator==(const LineCounter& other) const { return at == other.at; }
  bool operator!=(const LineCounter& other) const { return at != other.at; }

  const char* at;
  int* line;
};

class TreeBuilder final : public json::json_sax_t {
 public:
  explicit TreeBuilder(std::string_view all) : text_(all) {}

  JsonNode root;
  std::string problem;
  int line = 1, problem_line = 1;

  bool start_object(std::size_t) override { return open(JsonNode::Type::object); }
  bool start_array(std::size_t) override { return open(JsonNode::Type::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (open_.back()->find(name) != nullptr)
      return refuse(fmt::format("{} appears twice", shown_name(name)));
    if (!add(JsonNode::Type::other)) return false;
    open_.back()->children.back().key = std::move(name);
    return true;
  }
  bool string(std::string& text) override {
    JsonNode* const node = value(JsonNode::Type::text);
    if (node != nullptr) node->text = std::move(text);
    return node != nullptr;
  }
  bool number_integer(std::int64_t number) override { return set(static_cast<double>(number)); }
  bool number_unsigned(std::uint64_t number) override { return set(static_cast<double>(number)); }
  bool number_float(double number, const std::string&) override { return set(number); }
  bool null() override { return value(JsonNode::Type::other) != nullptr; }
  bool boolean(bool) override { return value(JsonNode::Type::other) != nullptr; }
  bool binary(json::binary_t&) override { return refuse("holds binary data"); }
  bool parse_error(std::size_t position, const std::string&,
                   const json::exception& error) override {
    // "[...] parse error at line 3, column 7: syntax error while parsing object - unexpected ..."
    std::string_view reason = error.what();
    for (const std::string_view mark : {"] ", " - "})
      if (const auto start = reason.find(mark); start != reason.npos)
        reason.remove_prefix(start + mark.size());
    reason = reason.substr(0, std::min(reason.find("; last read"), kMostReason));
    problem = "is not JSON: " + one_line(reason);
    const std::string_view good = text_.substr(0, std::max<std::size_t>(position, 1) - 1);
    problem_line = 1 + static_cast<int>(std::ranges::count(good, '\n'));
    return false;
  }

 private:
  bool refuse(std::string what) {
    problem = std::move(what);
    problem_line = line;
    return false;
  }
  bool add(JsonNode::Type type) {
    std::vector<JsonNode>& children = open_.back()->children;
    if (children.size() == kMostChildren)
      return refuse(fmt::format("more than {} entries", kMostChildren));
    children.push_back({.type = type, .line = line});
    return true;
  }
  // The node of the value that comes now: a key has made it already. Null: refused.
  JsonNode* value(JsonNode::Type type) {
    if (!open_.empty() && open_.back()->type == JsonNode::Type::array && !add(type)) return nullptr;
    JsonNode* const node = open_.empty() ? &root : &open_.back()->children.back();
    if (open_.empty()) root.line = line;
    node->type = type;
    return node;
  }
  bool set(double number) {
    JsonNode* const node = value(JsonNode::Type::number);
    if (node != nullptr) node->number = number;
    return node != nullptr;
  }
  bool open(JsonNode::Type type) {
    if (open_.size() == kDeepest) return refuse(fmt::format("deeper than {} levels", kDeepest));
    JsonNode* const node = value(type);
    if (node != nullptr) open_.push_back(node);
    return node != nullptr;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string_view text_;
  std::vector<JsonNode*> open_;  // from the root to where values go
};

// Refuses invalid JSON, a key that appears twice, and excessive depth or length.
Result<JsonNode> parse_json(std::string_view text, const std::string& where) {
  TreeBuilder builder(text);
  const LineCounter begin{text.data(), &builder.line}, end{begin.at + text.size(), begin.line};
  if (json::sax_parse(begin, end, &builder) &&
      text.find('\0') == text.npos)  // the library takes a zero byte for the end
    return std::move(builder.root);
  if (builder.problem.empty()) builder.problem = "is not JSON: holds a zero byte";
  return Error{ErrorKind::data, fmt::format("{}:{}", where, builder.problem_line), builder.problem,
               ""};
}

// ---- the machine in it ----

using Type = JsonNode::Type;

using Words = std::span<const std::string_view>;

constexpr std::uint64_t kMostBytes = 1 << 20;
constexpr double kMostDevices = 4096;
constexpr double kLeastSeconds = 1e-12;  // of a net without any flops, say

constexpr std::string_view kKinds[] = {"gpu", "cpu", "node"};
constexpr std::string_view kLaws[] = {"constant", "exponential", "lognormal"};
constexpr std::string_view kFileKeys[] = {"name", "devices", "link"};
constexpr std::string_view kLinkKeys[] = {"seconds", "bytes_per_second"};
constexpr std::string_view kDeviceKeys[] = {
    "kind",      "count",  "seconds", "overhead", "flops_per_second",
    "half_size", "spread", "memory",  "roofline"};
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
constexpr Range kTimes{kLeastSeconds, 1e6}, kRates{1, 1e30}, kSizes{1, 1e9, true};

std::string one_of(std::string_view word, Words known) {
  const std::string_view near = nearest(word, known);
  return near.empty() ? fmt::format("one of: {}", fmt::join(known, " "))
                      : fmt::format("did you mean \"{}\"?", near);
}

// Reads straight through. The first problem is kept, and what is refused reads as its default.
class MachineReader {
 public:
  explicit MachineReader(const std::string& where) : where_(where) {}

  Result<Machine> read(const JsonNode& file) {
    Machine machine;
    check_object(file, "the file", kFileKeys);
    machine.name = text(file, "name", R"("name": "two GPUs", say)");
    const JsonNode* const devices = file.find("devices");
    const bool some = devices != nullptr && devices->type == Type::array;
    if (!some || devices->children.empty())
      refuse(devices != nullptr ? *devices : file, "\"devices\" is to be a list of devices",
             R"("devices": [{"kind": "gpu", "count": 2, "flops_per_second": 5e12}], say)");
    if (some)
      for (const JsonNode& each : devices->children) add_devices(each, machine.devices);
    if (const JsonNode* const link = file.find("link")) {
      check_object(*link, "a link", kLinkKeys);
      machine.link.seconds = number(*link, "seconds", {0, kTimes.most}, 0);
      machine.link.bytes_per_second = number(*link, "bytes_per_second", kRates);
    }
    if (problem_) return std::move(*problem_);
    return machine;
  }

 private:
  void refuse(const JsonNode& at, std::string what, std::string hint) {
    if (!problem_)
      problem_ = Error{ErrorKind::data, fmt::format("{}:{}", where_, at.line), std::move(what),
                       std::move(hint)};
  }

  void check_object(const JsonNode& node, std::string_view said, Words keys) {
    if (node.type != Type::object)
      refuse(node, fmt::format("{} is to be an object", said),
             fmt::format("{{\"{}\": ...}}", keys.front()));
    for (const JsonNode& each : node.children)
      if (std::ranges::find(keys, each.key) == keys.end())
        refuse(each, fmt::format("unknown key {} of {}", shown_name(each.key), said),
               one_of(each.key, keys));
  }

  std::string text(const JsonNode& object, std::string_view key, std::string hint) {
    const JsonNode* const node = object.find(key);
    if (node != nullptr && node->type == Type::text && !node->text.empty()) return node->text;
    refuse(node != nullptr ? *node : object, fmt::format("\"{}\" is to be a text", key),
           std::move(hint));
    return "";
  }

  double checked(const JsonNode& node, const Range& range, std::string_view said) {
    if (node.type == Type::number && range.holds(node.number)) return node.number;
    refuse(node, fmt::format("{} is out of range", said), range.text());
    return 1;
  }
  double number(const JsonNode& object, std::string_view key, const Range& range,
                std::optional<double> fallback = std::nullopt) {
    if (const JsonNode* const node = object.find(key))
      return checked(*node, range, fmt::format("\"{}\"", key));
    if (!fallback) refuse(object, fmt::format("\"{}\" is missing", key), range.text());
    return fallback.value_or(1);
  }

  // The number of a known word.
  std::size_t choice(const JsonNode& node, const std::string& word, Words known) {
    const auto place = std::ranges::find(known, word);
    if (place != known.end()) return place - known.begin();
    refuse(node, fmt::format("{} is no \"{}\"", shown_name(word), node.key), one_of(word, known));
    return 0;
  }

  void add_devices(const JsonNode& node, std::vector<Machine::Device>& devices) {
    check_object(node, "a device", kDeviceKeys);
    Machine::Device device;
    const JsonNode* const kind = node.find("kind");
    const std::string word = text(node, "kind", "one of: gpu cpu node");
    if (kind != nullptr) device.kind = static_cast<Machine::Kind>(choice(*kind, word, kKinds));
    if (node.find("memory") != nullptr) device.memory = number(node, "memory", {1, 0x1p53, true});
    if (const JsonNode* const table = node.find("seconds"))
      read_table(node, *table, device);
    else
      read_rate(node, device);
    if (const JsonNode* const spread = node.find("spread")) read_spread(*spread, device);
    if (const JsonNode* const roofline = node.find("roofline")) read_roofline(*roofline, device);
    const double left = kMostDevices - static_cast<double>(devices.size());
    const double count = number(node, "count", {1, kMostDevices, true}, 1);
    if (count > left)
      refuse(node, fmt::format("more than {} devices in all", kMostDevices), "leave some out");
    else
      devices.insert(devices.end(), static_cast<std::size_t>(count), device);
  }

  void read_table(const JsonNode& node, const JsonNode& table, Machine::Device& device) {
    for (const char* const key : {"overhead", "flops_per_second", "half_size"})
      if (const JsonNode* const other = node.find(key))
        refuse(*other, fmt::format("\"{}\" beside a table of \"seconds\"", key),
               "leave one of them out");
    if (table.type != Type::object || table.children.empty())
      refuse(table, "\"seconds\" is to be a table by mini-batch size",
             R"("seconds": {"16": 0.01, "32": 0.016}, say)");
    for (const JsonNode& entry : table.children) {
      const auto size = number_in<std::uint64_t>(entry.key).value_or(0);
      if (!kSizes.holds(static_cast<double>(size)))
        refuse(entry, fmt::format("{} is no mini-batch size", shown_name(entry.key)),
               kSizes.text());
      const double seconds = checked(entry, kTimes, "the time in seconds");
      if (!device.seconds.emplace(size, seconds).second)
        refuse(entry, fmt::format("the size {} appears twice", size), "leave one of them out");
    }
  }

  void read_rate(const JsonNode& node, Machine::Device& device) {
    if (node.find("flops_per_second") == nullptr)
      refuse(node, "the device has neither \"seconds\" nor \"flops_per_second\"",
             R"("flops_per_second": 5e12, say)");
    device.flops_per_second = number(node, "flops_per_second", kRates);
    device.overhead = number(node, "overhead", {0, kTimes.most}, 0);
    device.half_size = number(node, "half_size", {0, kSizes.most}, 0);
  }

  void read_spread(const JsonNode& node, Machine::Device& device) {
    if (node.type == Type::object) {
      check_object(node, "a spread", Words(kLaws).last(1));
      device.law = Machine::Law::lognormal;
      device.sigma = number(node, "lognormal", {0, 2});
      return;
    }
    if (node.type != Type::text || node.text == "lognormal")
      refuse(node, "\"spread\" is to be a law",
             R"(one of: "constant" "exponential" {"lognormal": 0.1})");
    else
      device.law = static_cast<Machine::Law>(choice(node, node.text, Words(kLaws).first(2)));
  }

  void read_roofline(const JsonNode& node, Machine::Device& device) {
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

  const std::string& where_;
  std::optional<Error> problem_;
};

// At a size of a table; see Machine::seconds.
double interpolated(const std::map<std::uint64_t, double>& table, std::uint64_t samples) {
  const auto size = static_cast<double>(samples);
  const auto line = [&](auto from, auto to) {
    const auto x = static_cast<double>(from->first), width = static_cast<double>(to->first) - x;
    return from->second + (to->second - from->second) * (size - x) / width;
  };
  const auto to = table.lower_bound(samples);  // the least size that is no smaller
  const auto first = table.begin(), last = std::prev(table.end());
  if (to != table.end() && to->first == samples) return to->second;
  const double in_proportion = first->second * size / static_cast<double>(first->first);
  if (first == last) return in_proportion;
  if (to == first) return std::max(line(first, std::next(first)), in_proportion);
  if (to == table.end()) return std::max(line(std::prev(last), last), last->second);
  return line(std::prev(to), to);
}

}  // namespace

double Machine::seconds(std::size_t device, std::uint64_t samples, double flops_per_sample) const {
  const Device& each = devices[device];
  if (!each.seconds.empty()) return std::max(interpolated(each.seconds, samples), kLeastSeconds);
  const double size = static_cast<double>(samples) + each.half_size;
  return std::max(each.overhead + flops_per_sample * size / each.flops_per_second, kLeastSeconds);
}

Result<Machine> parse_machine(std::string_view text, const std::string& where) {
  OMNI_TRY(const JsonNode file, parse_json(text, where));
  return MachineReader(where).read(file);
}

Result<Machine> read_machine_file(const std::filesystem::path& path) {
  OMNI_TRY(const std::string text, read_file(path, kMostBytes));
  return parse_machine(text, path.string());
}

std::vector<std::size_t> devices_of_groups(const Machine& machine, int groups) {
  const std::size_t count = groups;
  const std::size_t used = std::min(count, machine.devices.size());
  std::vector<std::size_t> devices;
  for (std::size_t group = 0; group < count; ++group) devices.push_back(group * used / count);
  return devices;
}

}  // namespace omni
