#include "apps/omni-run/compare/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include "apps/omni-perf/document.hpp"
#include "perf/report/page.hpp"
#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/own_command.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

// Returns the words of a command line that choose a strategy.
Words words_of(std::string_view name, std::optional<int> groups) {
  Words words{"--strategy", std::string(name)};
  if (groups) words.insert(words.end(), {"--groups", std::to_string(*groups)});
  return words;
}

Error refused_strategy(std::string_view text, std::string what, std::string hint) {
  return {ErrorKind::usage, "--strategies", shown_name(text) + " " + std::move(what),
          std::move(hint)};
}

Result<NamedStrategy> parse_strategy(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto found = find_strategy(name);
  if (!found) return refused_strategy(text, "is no strategy", found.error().hint);
  const StrategyType* const type = *found;
  const bool given = colon != text.npos;
  if (given && type->most_groups == 1)
    return refused_strategy(text, "has no groups to count", std::string(name));
  // The other strategies use as many groups as there are workers.
  if (!given && type->most_groups > 1 && type->usual_groups == 1)
    return refused_strategy(text, "lacks its number of groups", fmt::format("{}:4", name));
  if (!given) return NamedStrategy{std::string(name), words_of(name, {})};
  const auto groups = count_in(text.substr(colon + 1), kMostGroups);
  if (!groups)
    return refused_strategy(text, fmt::format("does not name 1 to {} groups", kMostGroups),
                            fmt::format("{}:4", name));
  return NamedStrategy{fmt::format("{}:{}", name, *groups), words_of(name, groups)};
}

// Parses a strategy with the size of its mini-batches, as "sync@512".
Result<NamedStrategy> parse_with_batch(std::string_view text) {
  const std::size_t at = text.find('@');
  OMNI_TRY(NamedStrategy strategy, parse_strategy(text.substr(0, at)));
  if (at == text.npos) return strategy;
  const auto batch = count_in(text.substr(at + 1), kMostImages);
  if (!batch)
    return refused_strategy(text, fmt::format("names no mini-batch of 1 to {} images", kMostImages),
                            fmt::format("{}@64", strategy.name));
  strategy.name += fmt::format("@{}", *batch);
  strategy.words.insert(strategy.words.end(), {"--batch", std::to_string(*batch)});
  return strategy;
}

constexpr const char* kFile = "compare.json";
constexpr std::uint64_t kLargestRecord = 256 << 20;

using perf::Format;

std::string range(const perf::Spread& spread, auto text) {
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

std::string NamedStrategy::file_name() const {
  std::string text = name;
  std::ranges::replace(text, ':', '-');
  std::ranges::replace(text, '@', '-');
  return text;
}

Result<std::vector<NamedStrategy>> parse_strategies(std::string_view list) {
  std::vector<NamedStrategy> strategies;
  for (const std::string_view each : split(list, ',')) {
    OMNI_TRY(NamedStrategy strategy, parse_with_batch(each));
    if (std::ranges::find(strategies, strategy.name, &NamedStrategy::name) != strategies.end())
      return refused_strategy(strategy.name, "is there twice", "name each strategy once");
    strategies.push_back(std::move(strategy));
  }
  return strategies;
}

Result<ComparisonRecord> ComparisonRecord::open(const CompareArguments& arguments,
                                                const std::vector<NamedStrategy>& strategies) {
  const fs::path folder = arguments.out.empty()
                              ? fs::path("omni-compare") / fs::path(arguments.net).stem()
                              : fs::path(arguments.out);
  std::error_code failure;
  fs::create_directories(folder / "runs", failure);
  if (failure)
    return Error{ErrorKind::usage, folder.string(), "cannot make the folder: " + failure.message(),
                 "name a writable one with --out"};
  OMNI_TRY(RunLock lock, RunLock::acquire(folder));
  ComparisonRecord record(folder, std::move(lock));
  for (const NamedStrategy& strategy : strategies) record.strategies_.push_back(strategy.name);
  record.target_ = arguments.target;
  record.seeds_ = arguments.seeds;
  record.asked_ = {{"net", arguments.net},
                   {"data", arguments.data},
                   {"strategies", record.strategies_},
                   {"classes", arguments.classes},
                   {"epochs", arguments.epochs},
                   {"arrivals", arguments.arrivals},
                   {"machine", arguments.machine},
                   {"options", arguments.options}};
  if (fs::exists(folder / kFile, failure)) OMNI_CHECK(record.read());
  return record;
}

Status ComparisonRecord::read() {
  const fs::path file = folder_ / kFile;
  OMNI_TRY(const std::string text, read_file(file, kLargestRecord));
  const auto found = nlohmann::json::parse(text, nullptr, false);
  const bool known = found.is_object() && found.contains("asked") && found["asked"].is_object() &&
                     found.contains("trainings") && found["trainings"].is_array();
  if (!known)
    return Error{ErrorKind::data, file.string(), "is no comparison", "name another --out"};
  for (const auto& [key, mine] : asked_.items()) {
    const auto theirs = found["asked"].find(key);
    const bool told = theirs != found["asked"].end();
    // A key that an older program did not know counts as an option that was not given.
    if ((told ? *theirs : nlohmann::json("")) == nlohmann::json(mine)) continue;
    const std::string other = told ? json_text(*theirs) : "";
    return Error{ErrorKind::usage, folder_.string(),
                 fmt::format("holds another comparison: {} was {}, not {}", key, shown_name(other),
                             shown_name(json_text(mine))),
                 "name another --out"};
  }
  for (const auto& each : found["trainings"]) {
    auto training = perf::read_training(each);
    if (!training) {
      training.error().where = file.string();
      return std::move(training.error());
    }
    seeds_ = std::max(seeds_, training->seed);  // trainings that are done are kept
    if (training->outcome != perf::Outcome::failed) trainings_.push_back(std::move(*training));
  }
  return {};
}

bool ComparisonRecord::has(const std::string& strategy, int seed) const {
  return std::ranges::any_of(trainings_, [&](const perf::Training& training) {
    return training.strategy == strategy && training.seed == seed;
  });
}

Status ComparisonRecord::add(perf::Training training) {
  trainings_.push_back(std::move(training));
  return write();
}

Status ComparisonRecord::write() const {
  const Json all = json();
  OMNI_CHECK(write_file_atomically(folder_ / kFile, json_text(all, 1) + "\n"));
  return write_file_atomically(
      folder_ / "compare.html",
      perf::filled_page(perf::kComparisonTemplate, json_text(all), perf::kComparisonScript));
}

Json ComparisonRecord::json() const {
  Json all{{"omnivore_comparison", 1},
           {"command", for_shell(own_words())},
           {"asked", asked_},
           {"target", target_},
           {"seeds", seeds_}};
  all.update(perf::comparison_json(comparison(), trainings_));
  return all;
}

std::string comparison_table(const perf::Comparison& comparison) {
  const auto number = [](double value) { return fmt::format("{:.4g}", value); };
  const auto whole = [](double value) { return fmt::format("{:.0f}", value); };
  const auto seconds = [](double value) { return perf::shown(value, Format::seconds); };
  const auto share = [](double value) { return fmt::format("{:.2f} %", 100 * value); };
  const std::string time = comparison.simulated ? "simulated time" : "time";
  perf::Table table{
      .key = "strategies",
      .title = fmt::format("to a test accuracy of {}, mean over seeds (lowest to highest)",
                           comparison.target),
      .columns = {
          perf::column::text("", "strategy"), perf::column::text("", "reached"),
          perf::column::number("", "epochs"), perf::column::number("", time.c_str()),
          perf::column::number("", "updates"),
          perf::column::number("", comparison.simulated ? "images/simulated s" : "images/s"),
          perf::column::number("", "final accuracy")}};
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
        fmt::format("best by median {}: {}, {}", time, comparison.best, seconds(median)));
  for (const perf::Lead& lead : comparison.leads) document.notes.push_back("  " + certainty(lead));
  if (comparison.left_out > 0)
    document.notes.push_back(
        fmt::format("left out: evaluations without a simulated time: {}; a target may have been "
                    "reached in one of them",
                    comparison.left_out));
  return perf::as_text(document);
}

}  // namespace omni
