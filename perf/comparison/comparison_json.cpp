#include "perf/comparison/comparison_json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

namespace omni::perf {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<Outcome, const char*>, 3> kOutcomes{
    {{Outcome::trained, "trained"}, {Outcome::diverged, "diverged"}, {Outcome::failed, "failed"}}};

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json spread(const Spread& found) {
  if (found.count == 0) return nullptr;
  return {{"mean", found.mean}, {"min", found.min}, {"max", found.max}, {"median", found.median}};
}

Json row_json(const StrategyRow& row) {
  return {{"strategy", row.strategy},
          {"trainings", row.trainings},
          {"reached", row.reached},
          {"diverged", row.diverged},
          {"failed", row.failed},
          {"epochs", spread(row.epochs)},
          {"time", spread(row.seconds)},
          {"updates", spread(row.updates)},
          {"images_per_second", spread(row.images_per_second)},
          {"test_accuracy", spread(row.accuracy)},
          {"median_time", number(row.median_seconds)}};
}

}  // namespace

Json evaluation_json(const MetricsLine& line) {
  Json json{{"iteration", number(line.iteration)},
            {"epoch", number(line.epoch)},
            {"images", number(line.images)},
            {"time", number(line.seconds)}};
  if (!std::isnan(line.simulated_seconds)) json["simulated_time"] = line.simulated_seconds;
  json["test_accuracy"] = number(line.test_accuracy);
  return json;
}

Json training_json(const Training& training, double target) {
  const auto outcome = std::ranges::find_if(
      kOutcomes, [&](const auto& each) { return each.first == training.outcome; });
  const MetricsLine* reached = training.reached(target);
  Json json{{"strategy", training.strategy},
            {"seed", training.seed},
            {"outcome", outcome->second},
            {"reached", reached != nullptr ? evaluation_json(*reached) : Json(nullptr)},
            {"evaluations", Json::array()}};
  for (const MetricsLine& line : training.evaluations)
    json["evaluations"].push_back(evaluation_json(line));
  return json;
}

Result<Training> read_training(const nlohmann::json& object) {
  const Error unlike{ErrorKind::data, "", "holds a training that compare did not write", ""};
  if (!object.is_object()) return unlike;
  for (const char* key : {"strategy", "seed", "outcome", "evaluations"})
    if (!object.contains(key)) return unlike;
  const auto &strategy = object["strategy"], &seed = object["seed"], &outcome = object["outcome"],
             &evaluations = object["evaluations"];
  const auto known =
      std::ranges::find_if(kOutcomes, [&](const auto& each) { return outcome == each.second; });
  if (!strategy.is_string() || !seed.is_number_integer() || known == kOutcomes.end() ||
      !evaluations.is_array())
    return unlike;
  Training training{.strategy = strategy.get<std::string>(),
                    .seed = seed.get<int>(),
                    .outcome = known->first,
                    .evaluations = {}};
  for (const auto& each : evaluations)
    if (each.is_object()) training.evaluations.push_back(metrics_line(each));
  return training;
}

Json comparison_json(const Comparison& comparison, const std::vector<Training>& trainings) {
  Json json{{"clock", comparison.simulated ? "virtual" : "real"}, {"strategies", Json::array()}};
  for (const StrategyRow& row : comparison.rows) json["strategies"].push_back(row_json(row));
  json["best"] = comparison.best.empty() ? Json(nullptr) : Json(comparison.best);
  json["leads"] = Json::array();
  for (const Lead& lead : comparison.leads)
    json["leads"].push_back({{"over", lead.over},
                             {"ahead", lead.ahead},
                             {"behind", lead.behind},
                             {"seeds", lead.seeds},
                             {"p", number(lead.p)}});
  json["trainings"] = Json::array();
  for (const Training& training : trainings)
    json["trainings"].push_back(training_json(training, comparison.target));
  return json;
}

}  // namespace omni::perf
