// A comparison as JSON: the file compare.json, the answer of --json, the data of the page.
#pragma once

#include <nlohmann/json.hpp>

#include "perf/comparison/comparison.hpp"

namespace omni::perf {

// In the form of the metrics file, so that metrics_line() reads it again.
nlohmann::ordered_json evaluation_json(const MetricsLine& line);

nlohmann::ordered_json training_json(const Training& training, double target);
Result<Training> read_training(const nlohmann::json& object);

// The members "clock", "strategies", "best", "leads" and "trainings".
nlohmann::ordered_json comparison_json(const Comparison& comparison,
                                       const std::vector<Training>& trainings);

}  // namespace omni::perf
