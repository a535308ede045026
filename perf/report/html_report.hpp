// A trace as one HTML file that needs nothing but a browser: timeline, idle time, kernels,
// roofline, staleness, memory, and the curves of a metrics file.
#pragma once

#include <string>
#include <vector>

#include "perf/report/metrics_file.hpp"
#include "perf/trace/dependencies.hpp"

namespace omni::perf {

// Names in a trace are not trusted: they are text in the page, whatever they contain.
std::string html_report(const Trace& trace, const Dependencies& dependencies,
                        const std::vector<MetricsLine>& metrics);

}  // namespace omni::perf
