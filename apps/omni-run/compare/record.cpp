#include "apps/omni-run/compare/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "perf/comparison/comparison_json.hpp"
#include "perf/report/page_parts.hpp"
#include "runtime/files.hpp"
#include "runtime/own_command.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kFile = "compare.json";
constexpr std::uint64_t kLargestRecord = 256 << 20;

}  // namespace

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
    if (theirs != found["asked"].end() && *theirs == nlohmann::json(mine)) continue;
    const std::string other = theirs == found["asked"].end() ? "" : json_text(*theirs);
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
    seeds_ = std::max(seeds_, training->seed);  // what is done stays
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

perf::Comparison ComparisonRecord::comparison() const {
  return perf::compare(strategies_, trainings_, target_);
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

}  // namespace omni
