// omni-run explain prints what --auto tried, what it chose and why, and how long that took.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/omni-run/commands.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/training/metrics_log.hpp"

namespace omni {
namespace {

using Decision = nlohmann::json;

double figure_of(const Decision& line, const char* key) {
  return line.contains(key) && line[key].is_number() ? line[key].get<double>() : 0;
}

std::string shown_text(const Decision& line, const char* key) {
  return line.contains(key) && line[key].is_string() ? shown_name(line[key].get<std::string>())
                                                     : "";
}

bool is_chosen(const Decision& line) { return line.value("chosen", Decision(false)) == true; }

std::string step_text(const Decision& line, const char* key) {
  return line[key].is_number() ? fmt::format("{:.2g}", figure_of(line, key)) : "no step";
}

std::string groups_in_words(double groups) {
  return fmt::format("{:.0f} group{}", groups, groups == 1 ? "" : "s");
}

void print_trial(const Decision& trial) {
  const std::string loss = trial.contains("score")
                               ? fmt::format("{:.4g} +- {:.2g}", figure_of(trial, "score"),
                                             figure_of(trial, "score_error"))
                               : "-";
  log::result("{} {:>5} {:>6.0f} {:>8.3g} {:>10.3g} {:>18} {:>10.0f} {:>8.2f}  {}\n",
              is_chosen(trial) ? '*' : ' ', figure_of(trial, "trial"), figure_of(trial, "groups"),
              figure_of(trial, "momentum"), figure_of(trial, "learning_rate"), loss,
              figure_of(trial, "iterations"), figure_of(trial, "seconds"),
              shown_text(trial, "reason"));
}

// Returns the decisions in a metrics file, in their order.
Result<std::vector<Decision>> decisions_in(const std::string& file) {
  OMNI_CHECK(require_there(file));
  OMNI_TRY(LineSource lines, open_lines(file));
  std::vector<Decision> found;
  for (int number = 1;; ++number) {
    OMNI_TRY(const std::optional<LineSource::Line> line, lines.next());
    if (!line) return found;
    std::optional<Decision> object =
        metrics_object(*line, number == 1);  // JSON null: an incomplete line
    if (!object)
      return Error{ErrorKind::data, fmt::format("{}:{}", file, number), "is no line of metrics",
                   "give the file of --metrics"};
    for (const char* kind : {"trial", "timed_groups", "planned_groups", "returned_to", "swept_from",
                             "discarded_iterations"})
      if (object->contains(kind)) {
        found.push_back(std::move(*object));
        break;
      }
  }
}

}  // namespace

Status explain_command(const ExplainArguments& arguments) {
  std::error_code none;
  const bool folder = std::filesystem::is_directory(arguments.metrics, none);
  const std::string file = folder ? arguments.metrics + "/metrics.jsonl" : arguments.metrics;
  OMNI_TRY(const std::vector<Decision> decisions, decisions_in(file));
  if (arguments.common.json) {
    log::result("{}\n", Decision(decisions).dump(1));
    return {};
  }
  if (decisions.empty()) {
    log::result("{}: no decisions (trainings with --auto or --groups auto make some)\n",
                shown_name(file));
    return {};
  }
  std::optional<double> search;
  double trials = 0, discarded = 0, seconds = 0, returns = 0;
  for (const Decision& each : decisions) {
    const double at = figure_of(each, "iteration");
    if (each.contains("planned_groups")) {
      const double penalty = figure_of(each, "statistical_penalty");
      log::result("iteration {:.0f}: {}: {:.3f} ms x {} updates{}\n", at,
                  groups_in_words(figure_of(each, "planned_groups")),
                  1e3 * figure_of(each, "predicted_seconds"),
                  penalty > 0 ? fmt::format("{:.2f}", penalty) : "unmeasured",
                  is_chosen(each) ? ", chosen" : "");
    } else if (each.contains("timed_groups")) {
      log::result("iteration {:.0f}: with {} {:.3f} ms{}\n", at,
                  groups_in_words(figure_of(each, "timed_groups")),
                  1e3 * figure_of(each, "seconds_per_iteration"),
                  is_chosen(each) ? "; more are hardly faster" : "");
    } else if (each.contains("returned_to")) {
      ++returns;
      log::result("iteration {:.0f}: back to the parameters of iteration {:.0f}, rate {:.3g}: {}\n",
                  at, figure_of(each, "returned_to"), figure_of(each, "learning_rate"),
                  shown_text(each, "reason"));
    } else if (each.contains("swept_from")) {
      log::result(
          "iteration {:.0f}: {:.0f} iterations with a growing step, from {:.2g} on: the loss is "
          "lowest at {}, it diverges at {}\n",
          at, figure_of(each, "iterations"), figure_of(each, "swept_from"),
          step_text(each, "best_step"), step_text(each, "failing_step"));
    } else if (each.contains("discarded_iterations")) {
      discarded = figure_of(each, "discarded_iterations");
    } else {
      if (search != at)
        log::result(
            "iteration {:.0f}: search\n{} {:>5} {:>6} {:>8} {:>10} {:>18} {:>10} {:>8}  {}\n", at,
            ' ', "trial", "groups", "momentum", "rate", "loss", "iterations", "seconds",
            "decision");
      search = at;
      ++trials;
      seconds += figure_of(each, "seconds");
      print_trial(each);
    }
  }
  log::result(
      "* chosen: its training was kept\n{:.0f} trials took {:.2f} s and discarded {:.0f} "
      "iterations; earlier parameters were restored {:.0f} times\n",
      trials, seconds, discarded, returns);
  return {};
}

}  // namespace omni
