// What the page knows of a trace, as JSON: see perf/report/page/decode.js.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "perf/report/metrics_file.hpp"
#include "perf/trace/dependencies.hpp"

namespace omni::perf {

nlohmann::ordered_json page_data(const Trace& trace, const Dependencies& dependencies,
                                 const std::vector<MetricsLine>& metrics);

}  // namespace omni::perf
