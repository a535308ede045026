// A trace as one file for another program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "perf/report/metrics_file.hpp"
#include "perf/trace/dependencies.hpp"
#include "runtime/result.hpp"

namespace omni::perf {

// In the Trace Event Format, which Perfetto and Chromium's own viewer open: a process per rank, a
// thread per worker, a slice per task, an arrow per dependency. Streams: the whole text is never in
// memory.
Status export_chrome(const Trace& trace, const Dependencies& dependencies,
                     const std::filesystem::path& path);

// Numbers in a page: a column of integers as text, a few bytes each. 100,000 tasks of twenty
// numbers would be 15 MB as JSON; like this they are 3. Sign in the lowest bit, seven bits a byte,
// the smallest first (the highest bit: more follow), then base64. perf/report/page/decode.js reads
// it.
class PackedColumn {
 public:
  void add(std::int64_t value);
  void add_delta(std::int64_t value) {  // the difference to the one before
    add(value - last_);
    last_ = value;
  }
  std::string text() const;

 private:
  std::string bytes_;
  std::int64_t last_ = 0;
};

// For a browser, and nothing but it: timeline, idle time, kernels, roofline, staleness, memory, and
// the curves of a metrics file. Names in a trace are not trusted: they are text in the page,
// whatever they contain.
std::string html_report(const Trace& trace, const Dependencies& dependencies,
                        const std::vector<MetricsLine>& metrics);

// The files of perf/report/page; embed.cmake writes these definitions when building.
extern const std::string_view kPageTemplate, kPageStyle, kPageScript;
extern const std::string_view kComparisonTemplate, kComparisonScript;

// A whole page: the template with the style, the data and the script in their places.
std::string filled_page(std::string_view page_template, std::string_view json,
                        std::string_view script);

}  // namespace omni::perf
