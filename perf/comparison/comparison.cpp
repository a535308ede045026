#include "perf/comparison/comparison.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace omni::perf {
namespace {

double seconds_to(const Training& training, double target, bool simulated) {
  const MetricsLine* line = training.reached(target, simulated);
  return line != nullptr ? seconds_of(*line, simulated) : kNever;
}

StrategyRow row_of(const std::string& strategy, const std::vector<Training>& trainings,
                   double target, bool simulated) {
  StrategyRow row{.strategy = strategy};
  std::vector<double> epochs, seconds, updates, speeds, accuracies, all_seconds;
  for (const Training& training : trainings) {
    if (training.strategy != strategy) continue;
    ++row.trainings;
    row.diverged += training.outcome == Outcome::diverged;
    row.failed += training.outcome == Outcome::failed;
    all_seconds.push_back(seconds_to(training, target, simulated));
    if (const MetricsLine* line = training.reached(target, simulated)) {
      ++row.reached;
      epochs.push_back(line->epoch);
      seconds.push_back(seconds_of(*line, simulated));
      updates.push_back(line->iteration);
    }
    if (training.outcome != Outcome::trained || training.evaluations.empty()) continue;
    const MetricsLine& last = training.evaluations.back();
    const double time = seconds_of(last, simulated);
    if (time > 0) speeds.push_back(last.images / time);
    accuracies.push_back(last.test_accuracy);
  }
  row.epochs = spread_of(epochs);
  row.seconds = spread_of(seconds);
  row.updates = spread_of(updates);
  row.images_per_second = spread_of(speeds);
  row.accuracy = spread_of(accuracies);
  if (!all_seconds.empty()) row.median_seconds = median_of(all_seconds);
  return row;
}

Lead lead_of(const std::string& best, const std::string& other,
             const std::vector<Training>& trainings, double target, bool simulated) {
  Lead lead{.over = other};
  for (const Training& one : trainings)
    for (const Training& two : trainings) {
      if (one.strategy != best || two.strategy != other || one.seed != two.seed) continue;
      const double mine = seconds_to(one, target, simulated),
                   theirs = seconds_to(two, target, simulated);
      ++lead.seeds;
      lead.ahead += mine < theirs;
      lead.behind += mine > theirs;
    }
  if (lead.seeds > 1) lead.p = sign_test(lead.ahead, lead.behind);
  return lead;
}

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

const MetricsLine* Training::reached(double target, bool simulated) const {
  const auto found = std::ranges::find_if(evaluations, [&](const auto& line) {
    return line.test_accuracy >= target && std::isfinite(seconds_of(line, simulated));
  });
  return found == evaluations.end() ? nullptr : &*found;
}

double seconds_of(const MetricsLine& line, bool simulated) {
  return simulated ? line.simulated_seconds : line.seconds;
}

bool are_simulated(const std::vector<MetricsLine>& evaluations) {
  return std::ranges::any_of(evaluations,
                             [](const auto& line) { return !std::isnan(line.simulated_seconds); });
}

std::vector<MetricsLine> evaluations_in(const std::vector<MetricsLine>& metrics) {
  std::vector<MetricsLine> evaluations;
  for (const MetricsLine& line : metrics)
    if (!std::isnan(line.test_accuracy) && std::isfinite(line.seconds)) evaluations.push_back(line);
  return evaluations;
}

Comparison compare(const std::vector<std::string>& strategies,
                   const std::vector<Training>& trainings, double target) {
  Comparison comparison{.target = target};
  for (const Training& training : trainings)
    comparison.simulated |= are_simulated(training.evaluations);
  const bool simulated = comparison.simulated;
  for (const Training& training : trainings)
    for (const MetricsLine& line : training.evaluations)
      comparison.left_out += std::isnan(seconds_of(line, simulated));
  for (const std::string& strategy : strategies)
    comparison.rows.push_back(row_of(strategy, trainings, target, simulated));
  double least = kNever;
  for (const StrategyRow& row : comparison.rows)
    if (row.median_seconds < least) {
      least = row.median_seconds;
      comparison.best = row.strategy;
    }
  for (const std::string& strategy : strategies)
    if (!comparison.best.empty() && strategy != comparison.best)
      comparison.leads.push_back(lead_of(comparison.best, strategy, trainings, target, simulated));
  return comparison;
}

double sign_test(int ahead, int behind) {
  const int tosses = ahead + behind;
  double tail = 0;
  for (int heads = std::max(ahead, behind); heads <= tosses; ++heads)
    tail += std::exp(std::lgamma(tosses + 1) - std::lgamma(heads + 1) -
                     std::lgamma(tosses - heads + 1) - tosses * std::log(2));
  return std::min(1.0, 2 * tail);
}

Json evaluation_json(const MetricsLine& line) {
  Json json{{"iteration", number(line.iteration)},
            {"epoch", number(line.epoch)},
            {"images", number(line.images)},
            {"time", number(line.seconds)}};
  if (!std::isnan(line.simulated_seconds)) json["simulated_time"] = line.simulated_seconds;
  json["test_accuracy"] = number(line.test_accuracy);
  return json;
}

Json training_json(const Training& training, double target, bool simulated) {
  const auto outcome = std::ranges::find_if(
      kOutcomes, [&](const auto& each) { return each.first == training.outcome; });
  const MetricsLine* reached = training.reached(target, simulated);
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
  Json json{{"clock", comparison.simulated ? "virtual" : "real"},
            {"left_out", comparison.left_out},
            {"strategies", Json::array()}};
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
    json["trainings"].push_back(training_json(training, comparison.target, comparison.simulated));
  return json;
}

}  // namespace omni::perf
