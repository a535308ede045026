// Puts the records of one process into a trace: ids of the file become indices, and what a record
// refers to must have been defined before.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "perf/trace/record_parser.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

// The codelets of all ranks, by name: ranks share a codelet of the same name.
using CodeletIndex = std::unordered_map<std::string, std::uint32_t>;

class RankBuilder {
 public:
  RankBuilder(Trace& trace, CodeletIndex& codelets);

  // What is wrong, or nothing. The first record must be the header.
  std::string add(Record&& record);
  // After the last record: brings the tasks into order. Again what is wrong, or nothing.
  std::string finish();

  bool has_header() const { return has_header_; }
  bool ended() const { return ended_; }

 private:
  struct Codelet {
    std::uint32_t index;
    std::vector<std::uint32_t> implementations;
  };
  using Ids = std::unordered_map<std::uint32_t, std::uint32_t>;

  template <class Kept>
  std::string keep(std::vector<Kept>& all, Kept&& one) {
    one.rank = rank_;
    all.push_back(std::move(one));
    return {};
  }

  std::string take(UnknownRecord&&) { return {}; }
  std::string take(trace::Header&& header);
  std::string take(trace::Worker&& worker);
  std::string take(trace::Codelet&& codelet);
  std::string take(trace::Layer&& layer);
  std::string take(trace::Data&& data);
  std::string take(trace::Eligible&& eligible);
  std::string take(trace::Peak&& peak);
  std::string take(trace::Task&& task);
  std::string take(trace::IterationStart&& iteration);
  std::string take(trace::Wait&& wait) { return keep(trace_.waits, std::move(wait)); }
  std::string take(trace::Transfer&& one) { return keep(trace_.transfers, std::move(one)); }
  std::string take(trace::Exchange&& one) { return keep(trace_.exchanges, std::move(one)); }
  std::string take(trace::Meeting&& one) { return keep(trace_.meetings, std::move(one)); }
  std::string take(trace::Counter&& counter);
  std::string take(trace::End&& end);

  Trace& trace_;
  CodeletIndex& codelet_index_;
  std::size_t first_task_;
  std::int32_t rank_ = 0;
  bool has_header_ = false, ended_ = false;
  Ids workers_, data_, eligible_;
  std::unordered_map<std::uint32_t, Codelet> codelets_;
  std::unordered_set<std::int64_t> iterations_;  // begun
  std::vector<bool> layers_;                     // defined by this rank
};

}  // namespace omni::perf
