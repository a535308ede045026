#include "scheduling/arrivals/json_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "runtime/shown_name.hpp"

namespace omni {
namespace {

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
  explicit TreeBuilder(const int& line) : line_(line) {}

  JsonNode root;
  std::string problem;
  int problem_line = 0;
  std::optional<std::size_t> bad_byte;  // where it is no JSON, instead

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
    bad_byte = position;
    return false;
  }

 private:
  bool refuse(std::string what) {
    problem = std::move(what);
    problem_line = line_;
    return false;
  }
  bool add(JsonNode::Type type) {
    std::vector<JsonNode>& children = open_.back()->children;
    if (children.size() == kMostChildren)
      return refuse(fmt::format("more than {} entries", kMostChildren));
    children.push_back({.type = type, .line = line_});
    return true;
  }
  // The node of the value that comes now: a key has made it already. Null: refused.
  JsonNode* value(JsonNode::Type type) {
    if (!open_.empty() && open_.back()->type == JsonNode::Type::array && !add(type)) return nullptr;
    JsonNode* const node = open_.empty() ? &root : &open_.back()->children.back();
    if (open_.empty()) root.line = line_;
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

  const int& line_;
  std::vector<JsonNode*> open_;  // from the root to where values go
};

}  // namespace

const JsonNode* JsonNode::find(std::string_view name) const {
  const auto place = std::ranges::find(children, name, &JsonNode::key);
  return place == children.end() ? nullptr : &*place;
}

Result<JsonNode> parse_json(std::string_view text, const std::string& where) {
  int line = 1;
  TreeBuilder builder(line);
  const char* const end = text.data() + text.size();
  if (json::sax_parse(LineCounter{text.data(), &line}, LineCounter{end, &line}, &builder) &&
      text.find('\0') == text.npos)  // the library takes a zero byte for the end
    return std::move(builder.root);
  if (builder.problem.empty()) builder.problem = "is not JSON: holds a zero byte";
  if (builder.bad_byte) {
    const std::string_view good = text.substr(0, std::max<std::size_t>(*builder.bad_byte, 1) - 1);
    builder.problem_line = 1 + static_cast<int>(std::ranges::count(good, '\n'));
  }
  return Error{ErrorKind::data, fmt::format("{}:{}", where, std::max(builder.problem_line, 1)),
               builder.problem, ""};
}

}  // namespace omni
