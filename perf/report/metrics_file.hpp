// This header reads a metrics file, in which omni-run writes one JSON object per line.
#pragma once

#include <filesystem>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "runtime/result.hpp"

namespace omni::perf {

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

// A MetricsLine is one line. A number that the line does not have is kAbsent.
struct MetricsLine {
  double iteration = kAbsent;
  double seconds = kAbsent;  // over all starts of the run
  double loss = kAbsent, loss_average = kAbsent, accuracy = kAbsent, images_per_second = kAbsent;
  double test_loss = kAbsent, test_accuracy = kAbsent;
  double epoch = kAbsent, images = kAbsent;
  double simulated_seconds = kAbsent;  // by a virtual clock
};

MetricsLine metrics_line(const nlohmann::json& object);

// Leaves out lines that are no JSON objects with an iteration, such as the last line of a killed
// run.
Result<std::vector<MetricsLine>> read_metrics(const std::filesystem::path& path);

// Returns the curves of a page: about `most` lines, including all with evaluations. In {"every",
// "lines"} each line has iteration, seconds, loss, its average, accuracy, images per second, test
// loss and accuracy, simulated seconds.
nlohmann::json curves(const std::vector<MetricsLine>& lines, std::size_t most);

}  // namespace omni::perf
