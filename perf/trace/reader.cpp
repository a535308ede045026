// This file reads the files of all ranks into one trace.
#include "perf/trace/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <system_error>

#include "perf/trace/rank_builder.hpp"
#include "perf/trace/record_parser.hpp"
#include "runtime/files.hpp"
#include "runtime/number_in.hpp"

namespace omni::perf {
namespace {

namespace fs = std::filesystem;

constexpr const char* kForeign = "is no Omnivore trace";
constexpr const char* kForeignHint = "omni-run --trace FOLDER writes one";
constexpr const char* kTruncatedHint =
    "truncated? copy it again, or rename it to .jsonl.part to read what is there";

// Reads one file, line by line, into the trace.
class FileReader {
 public:
  FileReader(Trace& trace, CodeletIndex& codelets, std::string name, bool killed)
      : trace_(trace), builder_(trace, codelets), name_(std::move(name)), killed_(killed) {}

  Status read(LineSource source) {
    while (true) {
      OMNI_TRY(const std::optional<LineSource::Line> line, source.next());
      if (!line) break;
      ++number_;
      if (!line->ended && killed_) break;  // it was being written
      if (!line->ended && number_ > 1) return problem("the line is cut off", kTruncatedHint);
      OMNI_CHECK(take(*line));
    }
    if (!builder_.has_header()) return foreign();
    if (!builder_.ended() && !killed_) return problem("the last record is missing", kTruncatedHint);
    trace_.complete &= builder_.ended();
    if (const std::string what = builder_.finish(); !what.empty())
      return Error{ErrorKind::data, name_, what, ""};
    return {};
  }

 private:
  Status take(const LineSource::Line& line) {
    if (line.too_long)
      return number_ == 1
                 ? foreign()
                 : problem(fmt::format("the line is longer than {} bytes", LineSource::kLongest));
    auto parsed = parser_.parse(line.text);
    if (number_ == 1) return take_header(parsed, line.text);
    if (auto* bad = std::get_if<BadLine>(&parsed)) return problem(std::move(bad->what));
    if (std::string what = builder_.add(std::move(std::get<Record>(parsed))); !what.empty())
      return problem(std::move(what), builder_.ended() ? kTruncatedHint : "");
    return {};
  }

  // A file whose first line is no header belongs to another program.
  Status take_header(std::variant<Record, BadLine>& parsed, std::string_view text) {
    auto* bad = std::get_if<BadLine>(&parsed);
    if (bad != nullptr && text.find("omnivore_trace") != text.npos)
      return problem(std::move(bad->what));
    if (bad != nullptr || !std::holds_alternative<trace::Header>(std::get<Record>(parsed)))
      return foreign();
    builder_.add(std::move(std::get<Record>(parsed)));
    return {};
  }

  Error problem(std::string what, std::string hint = "") const {
    return {ErrorKind::data, fmt::format("{}:{}", name_, number_), std::move(what),
            std::move(hint)};
  }
  Error foreign() const { return {ErrorKind::data, name_, kForeign, kForeignHint}; }

  Trace& trace_;
  RankBuilder builder_;
  RecordParser parser_;
  std::string name_;
  bool killed_;
  std::size_t number_ = 0;
};

// Returns 3 for "rank-3.jsonl" and "rank-3.jsonl.part".
std::optional<int> rank_in(std::string name) {
  constexpr std::string_view kPrefix = "rank-", kSuffix = ".jsonl", kPart = ".part";
  if (name.ends_with(kPart)) name.resize(name.size() - kPart.size());
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  if (name.size() < kPrefix.size() + kSuffix.size()) return std::nullopt;
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  if (name.size() > 6 || (name.size() > 1 && name[0] == '0')) return std::nullopt;
  return number_in<std::uint32_t>(name);
}

Result<std::map<int, fs::path>> files_in(const fs::path& folder) {
  std::map<int, fs::path> files;
  std::error_code problem;
  fs::directory_iterator entries(folder, problem);
  for (; !problem && entries != fs::directory_iterator(); entries.increment(problem)) {
    const fs::path path = entries->path();
    const std::optional<int> rank = rank_in(path.filename().string());
    if (!rank) continue;
    if (!files.emplace(*rank, path).second)
      return Error{ErrorKind::data, folder.string(),
                   fmt::format("holds rank {} twice, of an ended and of a killed run", *rank),
                   "remove one of the two files"};
  }
  if (problem)
    return Error{ErrorKind::data, folder.string(), "cannot read the folder: " + problem.message(),
                 ""};
  if (files.empty())
    return Error{ErrorKind::data, folder.string(), "holds no rank-<n>.jsonl", kForeignHint};
  return files;
}

Status read_file_into(Trace& trace, CodeletIndex& codelets, const fs::path& path) {
  OMNI_TRY(LineSource lines, open_lines(path));
  FileReader reader(trace, codelets, path.string(), path.extension() == ".part");
  return reader.read(std::move(lines));
}

void shift(trace::TaskTimes& t, Nanoseconds by) {
  for (Nanoseconds* time : {&t.submitted, &t.ready, &t.pop_start, &t.popped, &t.fetch_start,
                            &t.fetch_end, &t.start, &t.end, &t.released})
    *time += by;
}

// Calls use(record, from, to) for all records with times, but not for tasks and counters. If a
// record has one time, `from` and `to` are the same.
void for_each_span(Trace& trace, auto use) {
  const auto use_all = [&](auto& records) {
    for (auto& each : records)
      if constexpr (requires { each.at; })
        use(each, each.at, each.at);
      else
        use(each, each.from, each.to);
  };
  const auto all = [&](auto&... lists) { (use_all(lists), ...); };
  all(trace.iterations, trace.waits, trace.transfers, trace.exchanges, trace.meetings);
}

// Puts all ranks on the clock of the one that started first.
Status align(Trace& trace, const fs::path& folder) {
  const double earliest = std::ranges::min(trace.headers, {}, &trace::Header::started).started;
  std::map<std::int32_t, Nanoseconds> by;  // by rank
  for (const trace::Header& header : trace.headers) {
    const double seconds = header.started - earliest;
    if (seconds > 86400)
      return Error{ErrorKind::data, folder.string(),
                   fmt::format("rank {} started {:.0f} hours after another one", header.rank,
                               seconds / 3600),
                   "of different runs? read one file by its name"};
    by[header.rank] = std::llround(seconds * 1e9);
  }
  for (Task& task : trace.tasks) shift(task.times, by.at(trace.workers[task.worker].rank));
  for (trace::Counter& counter : trace.counters) counter.at += by.at(counter.rank);
  for_each_span(trace, [&](auto& each, Nanoseconds& from, Nanoseconds& to) {
    from += by.at(each.rank);
    if (&to != &from) to += by.at(each.rank);
  });
  for (Worker& worker : trace.workers)
    worker.name = fmt::format("rank {}: {}", worker.rank, worker.name);
  return {};
}

// Finds when the run begins and ends. Counters are left out: they may be sampled before and after
// all else.
void find_begin_and_end(Trace& trace) {
  constexpr auto kUnseen = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds begin = kUnseen, end = 0;
  const auto happened = [&](Nanoseconds from, Nanoseconds to) {
    begin = std::min(begin, from);
    end = std::max(end, to);
  };
  for (const Task& task : trace.tasks) happened(task.times.submitted, task.times.released);
  for_each_span(trace, [&](auto&, Nanoseconds from, Nanoseconds to) { happened(from, to); });
  trace.begin = begin == kUnseen ? 0 : begin;
  trace.end = end;
}

}  // namespace

bool is_called_like_a_recording(const fs::path& path) {
  return rank_in(path.filename().string()).has_value();
}

Result<Trace> read_trace(const fs::path& path) {
  Trace trace;
  CodeletIndex codelets;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    OMNI_CHECK(read_file_into(trace, codelets, path));
  } else {
    OMNI_TRY(const auto files, files_in(path));
    for (const auto& [rank, file] : files) {
      OMNI_CHECK(read_file_into(trace, codelets, file));
      if (trace.headers.back().rank != rank)
        return Error{ErrorKind::data, file.string() + ":1",
                     fmt::format("holds rank {}", trace.headers.back().rank),
                     "renamed? a file is called after its rank"};
    }
    if (files.size() > 1) OMNI_CHECK(align(trace, path));
  }
  find_begin_and_end(trace);
  return trace;
}

Result<Trace> read_trace_text(std::string_view text, std::string_view name, bool killed) {
  Trace trace;
  CodeletIndex codelets;
  FileReader reader(trace, codelets, std::string(name), killed);
  OMNI_CHECK(reader.read(LineSource([text](std::span<char> bytes) mutable -> Result<std::size_t> {
    const std::size_t count = std::min(text.size(), bytes.size());
    std::memcpy(bytes.data(), text.data(), count);
    text.remove_prefix(count);
    return count;
  })));
  find_begin_and_end(trace);
  return trace;
}

}  // namespace omni::perf
