#include "perf/comparison/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace omni::perf {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double seconds_to(const Training& training, double target) {
  const MetricsLine* line = training.reached(target);
  return line != nullptr ? seconds_of(*line) : kNever;
}

StrategyRow row_of(const std::string& strategy, const std::vector<Training>& trainings,
                   double target) {
  StrategyRow row{.strategy = strategy};
  std::vector<double> epochs, seconds, updates, speeds, accuracies, all_seconds;
  for (const Training& training : trainings) {
    if (training.strategy != strategy) continue;
    ++row.trainings;
    row.diverged += training.outcome == Outcome::diverged;
    row.failed += training.outcome == Outcome::failed;
    all_seconds.push_back(seconds_to(training, target));
    if (const MetricsLine* line = training.reached(target)) {
      ++row.reached;
      epochs.push_back(line->epoch);
      seconds.push_back(seconds_of(*line));
      updates.push_back(line->iteration);
    }
    if (training.outcome != Outcome::trained || training.evaluations.empty()) continue;
    const MetricsLine& last = training.evaluations.back();
    if (seconds_of(last) > 0) speeds.push_back(last.images / seconds_of(last));
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
             const std::vector<Training>& trainings, double target) {
  Lead lead{.over = other};
  for (const Training& one : trainings)
    for (const Training& two : trainings) {
      if (one.strategy != best || two.strategy != other || one.seed != two.seed) continue;
      const double mine = seconds_to(one, target), theirs = seconds_to(two, target);
      ++lead.seeds;
      lead.ahead += mine < theirs;
      lead.behind += mine > theirs;
    }
  if (lead.seeds > 1) lead.p = sign_test(lead.ahead, lead.behind);
  return lead;
}

}  // namespace

const MetricsLine* Training::reached(double target) const {
  const auto found = std::ranges::find_if(
      evaluations, [&](const auto& line) { return line.test_accuracy >= target; });
  return found == evaluations.end() ? nullptr : &*found;
}

double seconds_of(const MetricsLine& line) {
  return std::isnan(line.simulated_seconds) ? line.seconds : line.simulated_seconds;
}

std::vector<MetricsLine> evaluations_in(const std::vector<MetricsLine>& metrics) {
  std::vector<MetricsLine> evaluations;
  for (const MetricsLine& line : metrics)
    if (!std::isnan(line.test_accuracy) && std::isfinite(seconds_of(line)))
      evaluations.push_back(line);
  return evaluations;
}

Comparison compare(const std::vector<std::string>& strategies,
                   const std::vector<Training>& trainings, double target) {
  Comparison comparison{.target = target};
  for (const Training& training : trainings)
    for (const MetricsLine& line : training.evaluations)
      comparison.simulated |= !std::isnan(line.simulated_seconds);
  for (const std::string& strategy : strategies)
    comparison.rows.push_back(row_of(strategy, trainings, target));
  double least = kNever;
  for (const StrategyRow& row : comparison.rows)
    if (row.median_seconds < least) {
      least = row.median_seconds;
      comparison.best = row.strategy;
    }
  for (const std::string& strategy : strategies)
    if (!comparison.best.empty() && strategy != comparison.best)
      comparison.leads.push_back(lead_of(comparison.best, strategy, trainings, target));
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

}  // namespace omni::perf
