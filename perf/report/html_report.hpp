// This header writes a trace as one page for a browser, which needs no other file.
#pragma once

#include <string>
#include <vector>

#include "perf/report/metrics_file.hpp"
#include "perf/trace/dependencies.hpp"
#include "perf/trace/trace.hpp"

namespace omni::perf {

// The page shows timeline, idle time, kernels, roofline, staleness, memory, and the curves of a
// metrics file. Names in a trace are not trusted: whatever they hold, the page shows them as text.
std::string html_report(const Trace& trace, const Dependencies& dependencies,
                        const std::vector<MetricsLine>& metrics);

}  // namespace omni::perf
