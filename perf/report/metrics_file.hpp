// The metrics file that omni-run wrote beside a trace: one JSON object per line.
#pragma once

#include <filesystem>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "runtime/result.hpp"

namespace omni::perf {

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

// What a line does not say is kAbsent.
struct MetricsLine {
  double iteration = kAbsent, seconds = kAbsent;  // seconds of all starts of the run together
  double loss = kAbsent, loss_average = kAbsent, accuracy = kAbsent, images_per_second = kAbsent;
  double test_loss = kAbsent, test_accuracy = kAbsent;
  double epoch = kAbsent, images = kAbsent;
  double simulated_seconds = kAbsent;  // of a virtual clock
};

MetricsLine metrics_line(const nlohmann::json& object);

// Lines that are no JSON objects with an iteration are left out: the last one of a killed run is.
Result<std::vector<MetricsLine>> read_metrics(const std::filesystem::path& path);

}  // namespace omni::perf
