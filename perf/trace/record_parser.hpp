// The parser reads a line of a trace file, which has one record. It checks what the line alone can
// show: JSON, keys, types, ranges, and the order of times.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/trace/records.hpp"

namespace omni::perf {

struct UnknownRecord {};  // later versions may have more kinds of records

using Record = std::variant<UnknownRecord, trace::Header, trace::Worker, trace::Codelet,
                            trace::Layer, trace::Data, trace::Eligible, trace::Peak, trace::Task,
                            trace::IterationStart, trace::Wait, trace::Transfer, trace::Exchange,
                            trace::Meeting, trace::Counter, trace::End>;

struct BadLine {
  std::string what;
};

class RecordParser {
 public:
  RecordParser();
  ~RecordParser();
  RecordParser(const RecordParser&) = delete;
  RecordParser& operator=(const RecordParser&) = delete;

  // LineSource::kPadding bytes after the line must be readable. A task's accesses are valid until
  // the next call.
  std::variant<Record, BadLine> parse(std::string_view line);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace omni::perf
