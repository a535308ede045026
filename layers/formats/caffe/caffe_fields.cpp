#include "layers/formats/caffe/caffe_fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>

#include "layers/formats/caffe/caffe.pb.h"
#include "runtime/log.hpp"
#include "runtime/nearest.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace pb = google::protobuf;

constexpr int kDeepest = 32;  // messages in messages; a net needs 5
constexpr int kNoColumn = -1;

std::string_view after(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  return at == text.npos ? "" : text.substr(at + mark.size());
}

std::string_view between_quotes(std::string_view text) {
  const std::string_view rest = after(text, "\"");
  return rest.substr(0, rest.find('"'));
}

// Returns the names of the fields of a message type, which the .proto file of `message` declares.
std::vector<std::string_view> fields_of(const pb::Message& message, std::string_view full_name) {
  std::vector<std::string_view> names;
  const pb::Descriptor* type =
      message.GetDescriptor()->file()->pool()->FindMessageTypeByName(std::string(full_name));
  for (int i = 0; type != nullptr && i < type->field_count(); ++i)
    names.push_back(type->field(i)->name());
  return names;
}

// FirstProblem keeps the first error, and the first thing that the parser skips with a warning,
// such as an unknown field.
class FirstProblem final : public pb::io::ErrorCollector {
 public:
  FirstProblem(std::string_view file, const pb::Message& message)
      : file_(file), message_(message) {}

  void AddError(int line, int column, const std::string& what) override {
    if (error) error = refusal(line, column, what, "write NAME: VALUE or NAME { ... }");
  }
  void AddWarning(int line, int column, const std::string& what) override {
    const std::string_view type = between_quotes(what), rest = after(what, "has no field named");
    if (!unknown) return;
    if (rest.empty()) {
      unknown = refusal(line, column, what, "remove it");
      return;
    }
    const std::string_view name = between_quotes(rest);
    const std::vector<std::string_view> names = fields_of(message_, type);
    const std::string_view near = nearest(name, names);
    unknown = Error{ErrorKind::usage, place(line, column),
                    fmt::format("{} has no field {}, or it is not supported",
                                type.substr(type.rfind('.') + 1), shown_name(name)),
                    near.empty() ? fmt::format("known: {}", fmt::join(names, " "))
                                 : fmt::format("did you mean '{}'?", near)};
  }
  Error refusal(int line, int column, const std::string& what,
                const char* hint = "is this a prototxt file?") const {
    std::string said = what;
    while (said.ends_with('.')) said.pop_back();
    return {ErrorKind::usage, place(line, column), said, hint};
  }

  Status error{}, unknown{};

 private:
  std::string place(int line, int column) const {
    return column == kNoColumn ? fmt::format("{}:{}", file_, line + 1)
                               : fmt::format("{}:{}:{}", file_, line + 1, column + 1);
  }
  std::string_view file_;
  const pb::Message& message_;
};

// Returns the line of a bracket that is nested too deeply. The parser calls itself for each nested
// message, so deep nesting would overflow the stack.
std::optional<int> too_deep(std::string_view text) {
  int line = 0, depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      quote = 0;
    } else if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '{' || c == '<' || c == '[') {
      if (++depth > kDeepest) return line;
    } else if (c == '}' || c == '>' || c == ']') {
      --depth;
    }
  }
  return {};
}

bool is_number(const pb::FieldDescriptor& field) {
  return field.cpp_type() == pb::FieldDescriptor::CPPTYPE_FLOAT;
}

// Returns the value as text, without the name of the field. `index` selects a value of a repeated
// field.
std::string value_of(const pb::Message& message, const pb::FieldDescriptor& field, int index) {
  std::string value;
  pb::TextFormat::PrintFieldValueToString(message, &field, index, &value);
  return value;
}

bool has_default(const pb::Message& message, const pb::FieldDescriptor& field) {
  if (field.is_repeated() || field.cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) return false;
  const std::unique_ptr<pb::Message> empty(message.New());
  return value_of(message, field, -1) == value_of(*empty, field, -1);
}

}  // namespace

void CaffeText::tell_in_vain() const {
  if (!in_vain.empty()) log::warn_once("{}: without effect: {}", file, fmt::join(in_vain, "; "));
}

Result<CaffeText> parse_caffe_text(std::string_view text, std::string_view file,
                                   std::unique_ptr<pb::Message> message) {
  FirstProblem problem(file, *message);
  if (text.size() > kMostTextBytes)
    return problem.refusal(0, kNoColumn, fmt::format("larger than {} bytes", kMostTextBytes));
  if (text.find('\0') != text.npos) return problem.refusal(0, kNoColumn, "a NUL byte");
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (const auto deep = too_deep(text))
    return problem.refusal(*deep, kNoColumn,
                           fmt::format("more than {} messages in each other", kDeepest));
  CaffeText parsed{.file = std::string(file),
                   .message = std::move(message),
                   .places = std::make_unique<pb::TextFormat::ParseInfoTree>()};
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&problem);
  parser.WriteLocationsTo(parsed.places.get());
  parser.AllowUnknownField(true);
  parser.SetRecursionLimit(kDeepest);
  const bool done = parser.ParseFromString(std::string(text), parsed.message.get());
  OMNI_CHECK(problem.error);
  if (!done) return problem.refusal(0, kNoColumn, "cannot be parsed");
  parsed.unknown = std::move(problem.unknown);
  return parsed;
}

CaffeFields::CaffeFields(CaffeText& text, Status& status)
    : text_(&text), status_(&status), message_(text.message.get()), places_(text.places.get()) {}

const pb::FieldDescriptor* CaffeFields::field(std::string_view name) const {
  return message_->GetDescriptor()->FindFieldByName(std::string(name));
}

int CaffeFields::count(std::string_view name) const {
  const pb::FieldDescriptor* of = field(name);
  if (of == nullptr) return 0;
  if (of->is_repeated()) return message_->GetReflection()->FieldSize(*message_, of);
  return message_->GetReflection()->HasField(*message_, of) ? 1 : 0;
}

bool CaffeFields::has(std::string_view name) const { return count(name) > 0; }

bool CaffeFields::has_field(std::string_view name) const { return field(name) != nullptr; }

bool CaffeFields::is_repeated(std::string_view name) const { return field(name)->is_repeated(); }

bool CaffeFields::is_old_layer() const { return has_field("blobs_lr"); }

std::string CaffeFields::text_of_type() const {
  return is_old_layer() ? word("type") : text("type");
}

int CaffeFields::whole(std::string_view name, std::int64_t low, std::int64_t high, int index) {
  const pb::FieldDescriptor* of = field(name);
  const pb::Reflection& reflection = *message_->GetReflection();
  const auto get = [&](auto single, auto repeated) {
    return of->is_repeated()
               ? static_cast<std::int64_t>((reflection.*repeated)(*message_, of, index))
               : static_cast<std::int64_t>((reflection.*single)(*message_, of));
  };
  std::int64_t value = 0;
  switch (of->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      value = get(&pb::Reflection::GetUInt32, &pb::Reflection::GetRepeatedUInt32);
      break;
    case pb::FieldDescriptor::CPPTYPE_INT64:
      value = get(&pb::Reflection::GetInt64, &pb::Reflection::GetRepeatedInt64);
      break;
    default: value = get(&pb::Reflection::GetInt32, &pb::Reflection::GetRepeatedInt32);
  }
  if (value >= low && value <= high) return static_cast<int>(value);
  refuse(name, fmt::format("{}: {} is out of range", name, value),
         fmt::format("expected a whole number from {} to {}", low, high), index);
  return static_cast<int>(low);
}

float CaffeFields::real(std::string_view name, float low, float high, int index) {
  const pb::FieldDescriptor* of = field(name);
  const pb::Reflection& reflection = *message_->GetReflection();
  const float value = of->is_repeated() ? reflection.GetRepeatedFloat(*message_, of, index)
                                        : reflection.GetFloat(*message_, of);
  if (value >= low && value <= high) return value;
  const bool any_high = high == std::numeric_limits<float>::max();
  refuse(name, fmt::format("{}: {} is out of range", name, value),
         any_high ? fmt::format("expected a number of at least {}", low)
                  : fmt::format("expected a number from {} to {}", low, high),
         index);
  return low;
}

bool CaffeFields::flag(std::string_view name, int index) const {
  const pb::FieldDescriptor* of = field(name);
  const pb::Reflection& reflection = *message_->GetReflection();
  return of->is_repeated() ? reflection.GetRepeatedBool(*message_, of, index)
                           : reflection.GetBool(*message_, of);
}

std::string CaffeFields::text(std::string_view name, int index) const {
  const pb::FieldDescriptor* of = field(name);
  const pb::Reflection& reflection = *message_->GetReflection();
  return of->is_repeated() ? reflection.GetRepeatedString(*message_, of, index)
                           : reflection.GetString(*message_, of);
}

std::string CaffeFields::word(std::string_view name) const {
  return message_->GetReflection()->GetEnum(*message_, field(name))->name();
}

CaffeFields CaffeFields::nested(std::string_view name, int index) const {
  const pb::FieldDescriptor* of = field(name);
  assert(of != nullptr);
  CaffeFields inner = *this;
  inner.line_ = line(name, index);
  if (places_ != nullptr)
    inner.places_ =
        has(name) ? places_->GetTreeForNested(of, of->is_repeated() ? index : -1) : nullptr;
  const pb::Reflection& reflection = *message_->GetReflection();
  inner.message_ = of->is_repeated() ? &reflection.GetRepeatedMessage(*message_, of, index)
                                     : &reflection.GetMessage(*message_, of);
  if (inner.field("bottom") != nullptr)
    inner.layer_ = fmt::format(": layer {}", shown_name(inner.text("name")));
  return inner;
}

int CaffeFields::line(std::string_view name, int index) const {
  const pb::FieldDescriptor* of = field(name);
  if (of == nullptr || places_ == nullptr || !has(name)) return line_;
  const int first = of->is_repeated() ? std::max(index, 0) : -1;
  const int found = places_->GetLocation(of, first).line;
  return found < 0 ? line_ : found + 1;
}

bool CaffeFields::is_commanded(std::string_view name) const {
  return std::ranges::find(text_->set_elsewhere, name) != text_->set_elsewhere.end();
}

std::string CaffeFields::where(std::string_view name, int index) const {
  if (is_commanded(name)) return "command line";
  return fmt::format("{}:{}{}", text_->file, line(name, index), layer_);
}

void CaffeFields::refuse(std::string_view name, std::string what, std::string hint, int index) {
  if (failed()) return;
  *status_ = Error{ErrorKind::usage, where(name, index), std::move(what), std::move(hint)};
}

void CaffeFields::check() {
  std::vector<const pb::FieldDescriptor*> set;
  const pb::Reflection& reflection = *message_->GetReflection();
  reflection.ListFields(*message_, &set);
  for (const pb::FieldDescriptor* of : set) {
    const std::string& name = of->name();
    const int values = of->is_repeated() ? reflection.FieldSize(*message_, of) : 1;
    const bool plain = has_default(*message_, *of);
    const bool is_message = of->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE;
    const std::string& refused = of->options().GetExtension(caffe::refused);
    if (!refused.empty() && !plain)
      refuse(name,
             is_message ? fmt::format("{} is not supported", name)
                        : fmt::format("{}: {} is not supported", name,
                                      value_of(*message_, *of, of->is_repeated() ? 0 : -1)),
             refused);
    if (const std::string& why = of->options().GetExtension(caffe::in_vain); !why.empty() && !plain)
      text_->in_vain.push_back(fmt::format("{} (line {}: {})", name, line(name, 0), why));
    for (int i = 0; i < values && is_number(*of); ++i) {
      const float value = of->is_repeated() ? reflection.GetRepeatedFloat(*message_, of, i)
                                            : reflection.GetFloat(*message_, of);
      if (!std::isfinite(value))
        refuse(name, fmt::format("{}: {} is not a finite number", name, value), "expected a number",
               i);
    }
    for (int i = 0; i < values && is_message && refused.empty(); ++i)
      nested(name, of->is_repeated() ? i : -1).check();
  }
}

std::string CaffeFields::other_field(std::string_view ending,
                                     const std::vector<std::string_view>& known) const {
  std::vector<const pb::FieldDescriptor*> set;
  message_->GetReflection()->ListFields(*message_, &set);
  for (const pb::FieldDescriptor* of : set)
    if (of->name().ends_with(ending) && std::ranges::find(known, of->name()) == known.end())
      return of->name();
  return "";
}

std::string CaffeFields::normalised(const std::vector<std::string_view>& without) const {
  const std::unique_ptr<pb::Message> kept(message_->New());
  kept->CopyFrom(*message_);
  for (const std::string_view name : without)
    if (const pb::FieldDescriptor* of = field(name))
      kept->GetReflection()->ClearField(kept.get(), of);
  pb::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(*kept, &text);
  return text;
}

}  // namespace omni
