// This header reads texts of protobuf messages. For each field it knows where in the text it is
// written. Fields are found by name, so the old and the new form of a layer are read alike.
#pragma once

#include <google/protobuf/text_format.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

inline constexpr std::uint64_t kMostTextBytes = 1 << 20;

// A CaffeText is a text that was parsed: the message, and the problems that the parser found.
struct CaffeText {
  std::string file;
  std::unique_ptr<google::protobuf::Message> message{};
  std::unique_ptr<google::protobuf::TextFormat::ParseInfoTree> places{};
  Status unknown{};                          // the first thing that the parser skipped
  std::vector<std::string> in_vain{};        // "test_iter (line 3: a test takes all test images)"
  std::vector<std::string> set_elsewhere{};  // fields that the command line sets

  // Warns of fields without effect. Each field is mentioned once.
  void tell_in_vain() const;
};

// Parses the text into the message. Errors say file, line and column.
Result<CaffeText> parse_caffe_text(std::string_view text, std::string_view file,
                                   std::unique_ptr<google::protobuf::Message> message);

// CaffeFields are the fields of a message. The first refusal is kept. After a refusal, all values
// that are read are defaults.
class CaffeFields {
 public:
  explicit CaffeFields(CaffeText& text, Status& status);

  bool has(std::string_view name) const;        // it is set; a repeated field: has values
  bool has_field(std::string_view name) const;  // messages of this type have it
  bool is_repeated(std::string_view name) const;
  bool is_old_layer() const;         // one of V1
  std::string text_of_type() const;  // of a layer; in the old form in capitals
  int count(std::string_view name) const;
  // These functions read a field. `index` selects a value of a repeated field.
  int whole(std::string_view name, std::int64_t low, std::int64_t high, int index = -1);
  float real(std::string_view name, float low = std::numeric_limits<float>::lowest(),
             float high = std::numeric_limits<float>::max(), int index = -1);
  bool flag(std::string_view name, int index = -1) const;
  std::string text(std::string_view name, int index = -1) const;
  std::string word(std::string_view name) const;  // of an enum
  CaffeFields nested(std::string_view name, int index = -1) const;

  // Returns a place like "lenet.prototxt:12: layer 'conv1'", without a layer outside of layers:
  // that of the field if the text has it, otherwise that of the message. For a field that the
  // command line sets it is "command line".
  std::string where(std::string_view name = "", int index = -1) const;
  const std::string& file() const { return text_->file; }
  bool is_commanded(std::string_view name) const;  // the command line sets it
  void refuse(std::string_view name, std::string what, std::string hint, int index = -1);
  bool failed() const { return !*status_; }
  // Refuses fields that are not supported, and numbers that are not valid. Notes the fields without
  // effect.
  void check();
  // Returns the name of a field that is set and whose name has this ending, except `known` ones; ""
  // if there is none.
  std::string other_field(std::string_view ending,
                          const std::vector<std::string_view>& known) const;
  // Returns the message on one line, except the fields `without`. Equal messages give the same
  // text.
  std::string normalised(const std::vector<std::string_view>& without = {}) const;

 private:
  const google::protobuf::FieldDescriptor* field(std::string_view name) const;
  int line(std::string_view name, int index) const;
  CaffeText* text_;
  Status* status_;
  const google::protobuf::Message* message_;
  const google::protobuf::TextFormat::ParseInfoTree* places_;
  int line_ = 1;
  std::string layer_;  // ": layer 'conv1'"
};

}  // namespace omni
