#include "apps/omni-run/compare/table.hpp"

#include <fmt/format.h>

#include "apps/omni-perf/document.hpp"

namespace omni {
namespace {

using perf::Format;
using perf::Spread;

std::string range(const Spread& spread, auto text) {
  if (spread.count == 0) return "-";
  if (spread.min == spread.max) return text(spread.mean);
  return fmt::format("{} ({} to {})", text(spread.mean), text(spread.min), text(spread.max));
}

std::string reached(const perf::StrategyRow& row) {
  std::string text = fmt::format("{} of {}", row.reached, row.trainings);
  if (row.diverged > 0) text += fmt::format(", {} diverged", row.diverged);
  if (row.failed > 0) text += fmt::format(", {} failed", row.failed);
  return text;
}

std::string certainty(const perf::Lead& lead) {
  const std::string seeds =
      fmt::format("ahead of {} in {} of {} seeds", lead.over, lead.ahead, lead.seeds);
  return lead.seeds > 1 ? fmt::format("{} (sign test: p = {:.2g})", seeds, lead.p)
                        : seeds + " (how sure: not known)";
}

}  // namespace

std::string comparison_table(const perf::Comparison& comparison) {
  const auto number = [](double value) { return fmt::format("{:.4g}", value); };
  const auto whole = [](double value) { return fmt::format("{:.0f}", value); };
  const auto seconds = [](double value) { return perf::shown(value, Format::seconds); };
  const auto share = [](double value) { return fmt::format("{:.2f} %", 100 * value); };
  perf::Table table{
      .key = "strategies",
      .title = fmt::format("to a test accuracy of {}, mean over seeds (lowest to highest)",
                           comparison.target),
      .columns = {{"", "strategy", Format::text},
                  {"", "reached", Format::text},
                  {"", "epochs", Format::number},
                  {"", comparison.simulated ? "simulated time" : "time", Format::number},
                  {"", "updates", Format::number},
                  {"", "images/s", Format::number},
                  {"", "final accuracy", Format::number}}};
  double median = 0;
  for (const perf::StrategyRow& row : comparison.rows) {
    table.rows.push_back({row.strategy, reached(row), range(row.epochs, number),
                          range(row.seconds, seconds), range(row.updates, whole),
                          range(row.images_per_second, whole), range(row.accuracy, share)});
    if (row.strategy == comparison.best) median = row.median_seconds;
  }
  perf::Document document{.facts = {}, .tables = {std::move(table)}, .notes = {}};
  if (comparison.best.empty())
    document.notes.push_back("no strategy reached the target with most of its seeds");
  else
    document.notes.push_back(
        fmt::format("best by median time: {}, {}", comparison.best, seconds(median)));
  for (const perf::Lead& lead : comparison.leads) document.notes.push_back("  " + certainty(lead));
  return perf::as_text(document);
}

}  // namespace omni
