#include "perf/trace/record_parser.hpp"

// Without simdjson's throwing conversions, code that does not check a value does not compile.
#define SIMDJSON_EXCEPTIONS 0

#include <fmt/format.h>
#include <simdjson.h>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/files.hpp"

namespace omni::perf {
namespace {

// These functions read values in untrusted JSON. Each returns what is wrong with a value, or "".
namespace json {

using Value = simdjson::ondemand::value;
using Problem = std::string;  // continues "the key ..."; empty: none

constexpr std::size_t kLongestText = 4096;
constexpr std::size_t kMaxTexts = 64;
constexpr std::uint32_t kMaxId = 1U << 24;
constexpr std::int64_t kMaxCount = 1'000'000'000'000'000'000;
constexpr double kMaxNumber = 1e24;
// The latest time is three years in nanoseconds, so that sums of many times do not overflow.
constexpr trace::Nanoseconds kLatest = 100'000'000'000'000'000;

template <class T>
Problem whole(Value& value, T& target, std::int64_t min, std::int64_t max) {
  std::int64_t number = 0;
  if (value.get_int64().get(number)) return "is no whole number";
  if (number < min || number > max)
    return fmt::format("is {}, which is not within {} and {}", number, min, max);
  target = static_cast<T>(number);
  return {};
}

Problem id(Value& value, auto& target) { return whole(value, target, 0, kMaxId - 1); }

inline Problem time(Value& value, trace::Nanoseconds& target) {
  return whole(value, target, 0, kLatest);
}

Problem number(Value& value, double& target, double min, double max) {
  if (value.get_double().get(target)) return "is no number";
  if (!(target >= min && target <= max))
    return fmt::format("is {}, which is not within {} and {}", target, min, max);
  return {};
}

Problem count(Value& value, auto& target) { return whole(value, target, 0, kMaxCount); }

Problem amount(Value& value, double& target) { return number(value, target, 0, kMaxNumber); }

// Reads a number, or NaN for null.
Problem number_or_null(Value& value, double& target, double min, double max) {
  target = std::numeric_limits<double>::quiet_NaN();
  bool nothing = false;
  if (value.is_null().get(nothing)) return "is no number";
  return nothing ? Problem() : number(value, target, min, max);
}

Problem text(Value& value, std::string& target, std::size_t longest = kLongestText) {
  std::string_view letters;
  if (value.get_string().get(letters)) return "is no text";
  if (letters.size() > longest) return fmt::format("is longer than {} bytes", longest);
  target = letters;
  return {};
}

// Calls read(item) for the items of an array, and returns its first problem. Returns `not_items` if
// an item cannot be parsed.
Problem items(Value& value, const char* not_items, auto read) {
  simdjson::ondemand::array list;
  if (value.get_array().get(list)) return "is no list";
  for (auto entry : list) {
    Value item;
    if (entry.get(item)) return not_items;
    if (Problem problem = read(item); !problem.empty()) return problem;
  }
  return {};
}

Problem texts(Value& value, std::vector<std::string>& target) {
  return items(value, "is no list of texts", [&](Value& item) -> Problem {
    if (target.size() == kMaxTexts) return fmt::format("has more than {} entries", kMaxTexts);
    return text(item, target.emplace_back());
  });
}

Problem ids(Value& value, std::vector<std::int32_t>& target) {
  return items(value, "is no list of numbers",
               [&](Value& item) { return id(item, target.emplace_back()); });
}

Problem task_times(Value& value, trace::TaskTimes& target) {
  const std::array steps = {&target.submitted, &target.ready,       &target.pop_start,
                            &target.popped,    &target.fetch_start, &target.fetch_end,
                            &target.start,     &target.end,         &target.released};
  constexpr const char* kNotNine = "does not hold nine times";
  std::size_t count = 0;
  Problem problem = items(value, kNotNine, [&](Value& item) -> Problem {
    if (count == steps.size()) return kNotNine;
    if (Problem wrong = time(item, *steps[count]); !wrong.empty()) return wrong;
    if (count > 0 && *steps[count] < *steps[count - 1])
      return fmt::format("goes back in time from {} to {}", *steps[count - 1], *steps[count]);
    ++count;
    return {};
  });
  return problem.empty() && count != steps.size() ? kNotNine : problem;
}

Problem accesses(Value& value, trace::AccessMode mode, std::vector<trace::Access>& target) {
  return items(value, "is no list of numbers", [&](Value& item) {
    return id(item, target.emplace_back(trace::Access{.data = 0, .mode = mode}).data);
  });
}

}  // namespace json

using json::Problem, json::Value, json::kMaxCount, json::kMaxNumber;
using trace::AccessMode;

static_assert(LineSource::kPadding >= simdjson::SIMDJSON_PADDING);

template <class R>
struct Key {
  std::string_view name;
  bool required;
  Problem (*read)(Value&, R&);
};

template <class R>
using Keys = std::vector<Key<R>>;

// A TaskLine is a task while the keys of its line are read.
struct TaskLine : trace::Task {
  std::vector<trace::Access>* touched = nullptr;

  Problem touches(Value& value, AccessMode mode) { return json::accesses(value, mode, *touched); }
};

Problem known_version(Value& value) {
  int version = 0;
  Problem problem = json::whole(value, version, 1, INT32_MAX);
  if (problem.empty() && version > trace::kVersion)
    return fmt::format("is {}: a newer version of Omnivore wrote this; this one reads {}", version,
                       trace::kVersion);
  return problem;
}

Problem wait_kind(Value& value, trace::Wait& wait) {
  std::string kind;
  Problem problem = json::text(value, kind);
  wait.for_all = kind == "all";
  if (problem.empty() && !wait.for_all && kind != "data") return "is neither 'all' nor 'data'";
  return problem;
}

const Keys<trace::Header> kHeader = {
    {"omnivore_trace", true, [](auto& v, auto&) { return known_version(v); }},
    {"rank", true, [](auto& v, auto& r) { return json::whole(v, r.rank, 0, 999'999); }},
    {"started", true, [](auto& v, auto& r) { return json::number(v, r.started, 0, 1e11); }},
    {"host", false, [](auto& v, auto& r) { return json::text(v, r.host); }},
    {"command", false, [](auto& v, auto& r) { return json::text(v, r.command, 1U << 16); }},
    {"starpu", false, [](auto& v, auto& r) { return json::text(v, r.starpu); }},
    {"scheduler", false, [](auto& v, auto& r) { return json::text(v, r.scheduler); }},
    {"net", false, [](auto& v, auto& r) { return json::text(v, r.net); }},
    {"batch", false, [](auto& v, auto& r) { return json::whole(v, r.batch, 0, INT32_MAX); }}};

const Keys<trace::Worker> kWorker = {
    {"worker", true, [](auto& v, auto& r) { return json::id(v, r.id); }},
    {"name", true, [](auto& v, auto& r) { return json::text(v, r.name); }},
    {"kind", true, [](auto& v, auto& r) { return json::text(v, r.kind); }},
    {"node", false, [](auto& v, auto& r) { return json::id(v, r.node); }}};

const Keys<trace::Codelet> kCodelet = {
    {"codelet", true, [](auto& v, auto& r) { return json::id(v, r.id); }},
    {"name", true, [](auto& v, auto& r) { return json::text(v, r.name); }},
    {"color", false, [](auto& v, auto& r) { return json::whole(v, r.color, 0, UINT32_MAX); }},
    {"implementations", true, [](auto& v, auto& r) { return json::texts(v, r.implementations); }}};

const Keys<trace::Layer> kLayer = {
    // A trace has a list of layers by id, so a large id would take much memory.
    {"layer", true, [](auto& v, auto& r) { return json::whole(v, r.id, 0, 65535); }},
    {"type", true, [](auto& v, auto& r) { return json::text(v, r.type); }},
    {"detail", false, [](auto& v, auto& r) { return json::text(v, r.detail); }}};

const Keys<trace::Data> kData = {
    {"data", true, [](auto& v, auto& r) { return json::id(v, r.id); }},
    {"name", true, [](auto& v, auto& r) { return json::text(v, r.name); }},
    {"bytes", false, [](auto& v, auto& r) { return json::count(v, r.bytes); }}};

const Keys<trace::Eligible> kEligible = {
    {"eligible", true, [](auto& v, auto& r) { return json::id(v, r.id); }},
    {"workers", true, [](auto& v, auto& r) { return json::ids(v, r.workers); }}};

const Keys<trace::Peak> kPeak = {
    {"peak", true, [](auto& v, auto& r) { return json::text(v, r.what); }},
    {"kind", true, [](auto& v, auto& r) { return json::text(v, r.kind); }},
    {"per_worker", true, [](auto& v, auto& r) { return json::amount(v, r.per_worker); }},
    {"together", true, [](auto& v, auto& r) { return json::amount(v, r.together); }}};

const Keys<TaskLine> kTask = {
    {"task", true, [](auto& v, auto& r) { return json::count(v, r.id); }},
    {"codelet", true, [](auto& v, auto& r) { return json::id(v, r.codelet); }},
    {"impl", true, [](auto& v, auto& r) { return json::id(v, r.implementation); }},
    {"worker", true, [](auto& v, auto& r) { return json::id(v, r.worker); }},
    {"eligible", false, [](auto& v, auto& r) { return json::id(v, r.eligible); }},
    {"layer", false, [](auto& v, auto& r) { return json::whole(v, r.layer, -1, 65535); }},
    {"slice", false, [](auto& v, auto& r) { return json::whole(v, r.slice, -1, INT32_MAX); }},
    {"group", false, [](auto& v, auto& r) { return json::whole(v, r.group, -1, INT32_MAX); }},
    {"iteration", false,
     [](auto& v, auto& r) { return json::whole(v, r.iteration, -1, kMaxCount); }},
    {"times", true, [](auto& v, auto& r) { return json::task_times(v, r.times); }},
    {"predicted", false,
     [](auto& v, auto& r) { return json::number_or_null(v, r.predicted, 0, 1e18); }},
    {"flops", false, [](auto& v, auto& r) { return json::amount(v, r.flops); }},
    {"bytes", false, [](auto& v, auto& r) { return json::amount(v, r.bytes); }},
    {"reads", false, [](auto& v, auto& r) { return r.touches(v, AccessMode::read); }},
    {"writes", false, [](auto& v, auto& r) { return r.touches(v, AccessMode::write); }},
    {"updates", false, [](auto& v, auto& r) { return r.touches(v, AccessMode::update); }},
    {"adds", false, [](auto& v, auto& r) { return r.touches(v, AccessMode::add); }}};

const Keys<trace::IterationStart> kIteration = {
    {"iteration", true, [](auto& v, auto& r) { return json::count(v, r.iteration); }},
    {"at", true, [](auto& v, auto& r) { return json::time(v, r.at); }}};

const Keys<trace::Wait> kWait = {
    {"wait", true, [](auto& v, auto& r) { return wait_kind(v, r); }},
    {"from", true, [](auto& v, auto& r) { return json::time(v, r.from); }},
    {"to", true, [](auto& v, auto& r) { return json::time(v, r.to); }}};

const Keys<trace::Transfer> kTransfer = {
    {"transfer", true, [](auto& v, auto& r) { return json::count(v, r.bytes); }},
    {"count", false, [](auto& v, auto& r) { return json::count(v, r.count); }},
    {"from_rank", false, [](auto& v, auto& r) { return json::id(v, r.from_rank); }},
    {"from_node", true, [](auto& v, auto& r) { return json::id(v, r.from_node); }},
    {"to_node", true, [](auto& v, auto& r) { return json::id(v, r.to_node); }},
    {"from", true, [](auto& v, auto& r) { return json::time(v, r.from); }},
    {"to", true, [](auto& v, auto& r) { return json::time(v, r.to); }}};

const Keys<trace::Exchange> kExchange = {
    {"exchange", true, [](auto& v, auto& r) { return json::count(v, r.iteration); }},
    {"group", false, [](auto& v, auto& r) { return json::id(v, r.group); }},
    {"staleness", true, [](auto& v, auto& r) { return json::count(v, r.staleness); }},
    {"at", true, [](auto& v, auto& r) { return json::time(v, r.at); }}};

const Keys<trace::Meeting> kMeeting = {
    {"meeting", true, [](auto& v, auto& r) { return json::count(v, r.number); }},
    {"groups", true, [](auto& v, auto& r) { return json::id(v, r.groups); }},
    {"at", true, [](auto& v, auto& r) { return json::time(v, r.at); }}};

const Keys<trace::Counter> kCounter = {
    {"counter", true, [](auto& v, auto& r) { return json::text(v, r.name); }},
    {"at", true, [](auto& v, auto& r) { return json::time(v, r.at); }},
    {"value", true,
     [](auto& v, auto& r) { return json::number_or_null(v, r.value, -kMaxNumber, kMaxNumber); }}};

const Keys<trace::End> kEnd = {
    {"end", true, [](auto& v, auto& r) { return json::time(v, r.at); }},
    {"tasks", true, [](auto& v, auto& r) { return json::count(v, r.tasks); }}};

using Fields = simdjson::ondemand::object;
using Field = simdjson::ondemand::field;
constexpr const char* kNoJson = "is no line of JSON";

// Reads the fields of a record. Returns what is wrong, or nothing.
template <class R>
std::string read_fields(const Keys<R>& keys, Fields& object, R& record) {
  std::uint32_t seen = 0;
  std::size_t expected = 0;  // the next key in the table's order, which lines mostly have
  for (auto entry : object) {
    Field field;
    std::string_view name;
    if (std::move(entry).get(field) || field.unescaped_key().get(name)) return kNoJson;
    std::size_t key = expected;
    while (key < keys.size() && keys[key].name != name) ++key;
    if (key == keys.size())
      for (key = 0; key < keys.size() && keys[key].name != name;) ++key;
    if (key == keys.size()) continue;
    expected = key + 1;
    const std::uint32_t bit = 1U << key;
    if ((seen & bit) != 0) return fmt::format("'{}' is there twice", name);
    seen |= bit;
    if (Problem problem = keys[key].read(field.value(), record); !problem.empty())
      return fmt::format("'{}' {}", keys[key].name, problem);
  }
  for (std::size_t key = 0; key < keys.size(); ++key)
    if (keys[key].required && (seen & (1U << key)) == 0)
      return fmt::format("'{}' is missing", keys[key].name);
  return {};
}

}  // namespace

struct RecordParser::State {
  simdjson::ondemand::parser parser;
  std::vector<trace::Access> accesses;

  template <class R>
  std::variant<Record, BadLine> read(const Keys<R>& keys, Fields& object) {
    R record{};
    if constexpr (std::is_same_v<R, TaskLine>) {
      accesses.clear();
      record.touched = &accesses;
    }
    std::string problem = read_fields(keys, object, record);
    if constexpr (requires { record.from; })
      if (problem.empty() && record.from > record.to)
        problem = fmt::format("ends at {}, before it starts at {}", record.to, record.from);
    if (!problem.empty()) return BadLine{std::move(problem)};
    if constexpr (std::is_same_v<R, TaskLine>) {
      record.accesses = accesses;
      return Record(static_cast<const trace::Task&>(record));
    } else {
      return Record(std::move(record));
    }
  }

  // The first key of a line says the kind of the record.
  std::variant<Record, BadLine> read_kind(std::string_view kind, Fields& object) {
    std::variant<Record, BadLine> result = Record(UnknownRecord{});
    const auto is = [&](const auto& keys) {
      if (kind != keys[0].name) return false;
      result = read(keys, object);
      return true;
    };
    (void)(is(kTask) || is(kHeader) || is(kWorker) || is(kCodelet) || is(kLayer) || is(kData) ||
           is(kEligible) || is(kPeak) || is(kIteration) || is(kWait) || is(kTransfer) ||
           is(kExchange) || is(kMeeting) || is(kCounter) || is(kEnd));
    return result;
  }
};

RecordParser::RecordParser() : state_(std::make_unique<State>()) {}
RecordParser::~RecordParser() = default;

std::variant<Record, BadLine> RecordParser::parse(std::string_view line) {
  simdjson::ondemand::document document;
  Fields object;
  const simdjson::padded_string_view padded(line.data(), line.size(),
                                            line.size() + LineSource::kPadding);
  if (state_->parser.iterate(padded).get(document) || document.get_object().get(object))
    return BadLine{kNoJson};
  std::string_view kind;
  for (auto entry : object) {
    Field first;
    if (std::move(entry).get(first) || first.unescaped_key().get(kind)) return BadLine{kNoJson};
    break;
  }
  bool rewound = false;
  if (object.reset().get(rewound)) return BadLine{kNoJson};
  auto result = state_->read_kind(kind, object);
  if (std::holds_alternative<Record>(result) &&
      !std::holds_alternative<UnknownRecord>(std::get<Record>(result)) &&
      !document.current_location().error())
    return BadLine{"goes on after its JSON object"};
  return result;
}

}  // namespace omni::perf
