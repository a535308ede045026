#include "scheduling/training/metrics_log.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/slurm_job.hpp"

namespace omni {
namespace {

// Returns null for a number that is not finite, as JSON has no NaN and readers must be able to
// parse the file.
nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

nlohmann::ordered_json common(const StepReport& report) {
  nlohmann::ordered_json object{{"iteration", report.iteration},
                                {"epoch", metrics_number(report.epoch)},
                                {"images", report.images},
                                {"time", number(report.seconds)}};
  if (report.simulated_seconds) object["simulated_time"] = number(*report.simulated_seconds);
  return object;
}

Error no_metrics(const std::filesystem::path& path) {
  return {ErrorKind::usage, path.string(), "holds lines that are no metrics",
          "name another file with --metrics"};
}

// Deletes the lines of iterations after `iteration`. Returns the iteration of the last evaluation
// that is left; 0 means that none is.
Result<std::uint64_t> drop_after(const std::filesystem::path& path, std::uint64_t iteration) {
  OMNI_TRY(LineSource lines, open_lines(path));
  OMNI_TRY(AtomicFile kept, AtomicFile::create(path));
  std::uint64_t tested = 0;
  for (bool first = true;; first = false) {
    OMNI_TRY(const std::optional<LineSource::Line> line, lines.next());
    if (!line) {
      OMNI_CHECK(kept.commit());
      return tested;
    }
    const auto object = metrics_object(*line, first);
    if (!object) return no_metrics(path);
    if (!object->is_object()) continue;  // cut short by a crash
    const auto done = object->at("iteration").get<std::uint64_t>();
    if (done > iteration) continue;
    const std::size_t end = line->text.find_last_not_of('\0') + 1;
    OMNI_CHECK(kept.write(std::string(line->text.substr(0, end)) + "\n"));
    if (object->contains("test_loss")) tested = done;
  }
}

Status require_metrics(const std::filesystem::path& path) {
  OMNI_TRY(LineSource lines, open_lines(path));
  for (bool first = true;; first = false) {
    OMNI_TRY(const std::optional<LineSource::Line> line, lines.next());
    if (!line) return {};
    if (!metrics_object(*line, first)) return no_metrics(path);
  }
}

// Returns the bytes in a file; 0 for pipes and devices, which have no size and can always be
// written.
std::uintmax_t bytes_in(const std::filesystem::path& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none) ? std::filesystem::file_size(path, none) : 0;
}

// Renames the metrics file to keep it. It may be the only trace of an earlier run that saved no
// checkpoint.
Status set_aside(const std::filesystem::path& path) {
  std::error_code none;
  const std::string file = std::filesystem::canonical(path, none);  // a link to the file stays
  std::string kept = file + ".1";
  for (int number = 2; exists(std::filesystem::symlink_status(kept, none)); ++number)
    kept = fmt::format("{}.{}", file, number);
  OMNI_CHECK(rename_durably(file, kept));
  log::info("{} held metrics already: they are in {} now", path.string(), kept);
  return {};
}

}  // namespace

nlohmann::json metrics_number(double value) { return number(shown_single(value)); }

std::optional<nlohmann::json> metrics_object(const LineSource::Line& line, bool first) {
  constexpr std::string_view kBeginning = "{\"iteration\":";
  // After a crash, an incomplete last line can end in zeros in place of what was not yet written.
  const std::string_view text =
      line.ended ? line.text : line.text.substr(0, line.text.find_last_not_of('\0') + 1);
  if (!line.ended && text.empty() && !first) return nlohmann::json();
  const std::string_view beginning = text.substr(0, kBeginning.size());
  if (beginning.empty() || !kBeginning.starts_with(beginning)) return std::nullopt;
  nlohmann::json object =
      nlohmann::json::parse(line.too_long ? "" : text, nullptr, /*allow_exceptions=*/false);
  if (object.is_object() && object["iteration"].is_number_unsigned()) return object;
  if (!line.ended) return nlohmann::json();
  return std::nullopt;
}

Status MetricsLog::check(const std::filesystem::path& path, bool resumes) {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return try_writing(path, 0);
  if (bytes_in(path) == 0) return {};
  OMNI_CHECK(require_metrics(path));
  if (resumes) return {};
  return Error{ErrorKind::usage, path.string(), "holds metrics of another run",
               "name another file, or remove this one; --resume continues it"};
}

Result<MetricsLog> MetricsLog::open(const std::filesystem::path& path,
                                    std::optional<std::uint64_t> resumed_iteration) {
  OMNI_CHECK(check(path, resumed_iteration.has_value()));
  std::uint64_t tested = 0;
  if (bytes_in(path) > 0) {
    if (*resumed_iteration == 0) {
      OMNI_CHECK(set_aside(path));
    } else {
      OMNI_TRY(tested, drop_after(path, *resumed_iteration));
    }
  }
  File file(std::fopen(path.c_str(), "a"));
  if (!file)
    return Error{ErrorKind::usage, path.string(),
                 std::string("cannot write the metrics: ") + std::strerror(errno), ""};
  return MetricsLog(path, std::move(file), tested);
}

Status MetricsLog::job(std::uint64_t iteration) {
  return record({{"iteration", iteration},
                 {"slurm_job", slurm::job()},
                 {"slurm_nodes", slurm::variable("SLURM_JOB_NODELIST")},
                 {"slurm_restarts", slurm::restarts()}});
}

Status MetricsLog::rank_shares(std::uint64_t iteration, const std::string& shares,
                               const std::string& nodes) {
  return record({{"iteration", iteration}, {"rank_shares", shares}, {"rank_nodes", nodes}});
}

Status MetricsLog::step(const StepReport& report) {
  nlohmann::ordered_json object = common(report);
  object["loss"] = metrics_number(report.loss);
  object["loss_average"] = metrics_number(report.average_loss);
  if (report.has_classes) {
    object["accuracy"] = metrics_number(report.accuracy);
    object["accuracy_average"] = metrics_number(report.average_accuracy);
  }
  object["learning_rate"] = metrics_number(static_cast<double>(report.learning_rate));
  object["momentum"] = metrics_number(report.momentum.explicit_part);
  object["explicit_momentum"] = metrics_number(report.momentum.explicit_part);
  if (!report.adam) {
    object["implicit_momentum"] = metrics_number(report.momentum.implicit_part);
    object["total_momentum"] = metrics_number(report.momentum.total());
  }
  object["group"] = report.group;
  object["staleness"] = report.staleness;
  object["mean_staleness"] = metrics_number(report.mean_staleness);
  if (report.fc_staleness) object["fc_staleness"] = *report.fc_staleness;
  object["images_per_second"] = metrics_number(report.images_per_second);
  object["group_samples"] = report.group_samples;
  for (const StrategyFigure& figure : report.figures) object[figure.name] = number(figure.value);
  return record(object);
}

Status MetricsLog::evaluation(const EvaluationReport& report) {
  if (has_evaluation(report.at.iteration)) return {};
  tested_ = report.at.iteration;
  nlohmann::ordered_json object = common(report.at);
  object["test_loss"] = metrics_number(report.tally.mean_loss());
  if (report.at.has_classes) {
    object["test_accuracy"] = metrics_number(report.tally.accuracy());
    object["test_top5_accuracy"] = metrics_number(report.tally.top5_accuracy());
  }
  return record(object);
}

Status MetricsLog::planned(const GroupPlan::Row& row, bool chosen, std::uint64_t iteration) {
  return record({{"iteration", iteration},
                 {"planned_groups", row.groups},
                 {"predicted_seconds", metrics_number(row.predicted)},
                 {"explicit_momentum", metrics_number(row.momentum.explicit_part)},
                 {"statistical_penalty", metrics_number(row.penalty.value_or(NAN))},
                 {"chosen", chosen}});
}

Status MetricsLog::damaged(const DamagedImage& image, bool training, std::uint64_t iteration) {
  return record({{"iteration", iteration},
                 {training ? "damaged_image" : "damaged_test_image", image.error.where},
                 {"reason", image.error.what},
                 {training ? "damaged_images" : "damaged_test_images", image.number}});
}

Status MetricsLog::record(const nlohmann::ordered_json& line) {
  if (std::fprintf(file_.get(), "%s\n", json_text(line).c_str()) < 0 ||
      std::fflush(file_.get()) != 0)
    return Error{ErrorKind::failed, path_.string(),
                 std::string("cannot write the metrics: ") + std::strerror(errno),
                 "is the disk full?"};
  return {};
}

}  // namespace omni
