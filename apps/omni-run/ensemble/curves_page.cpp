#include "apps/omni-run/ensemble/curves_page.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "perf/report/metrics_file.hpp"
#include "perf/report/page.hpp"
#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/own_command.hpp"

namespace omni {

Status write_curves(const std::filesystem::path& folder,
                    const std::vector<EnsembleMember>& members) {
  constexpr std::size_t kLines = 50'000;  // of all members
  const auto or_null = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  nlohmann::json list = nlohmann::json::array();
  for (const EnsembleMember& each : members) {
    nlohmann::json curves{{"lines", nlohmann::json::array()}};
    const std::filesystem::path file = folder / each.name / "metrics.jsonl";
    if (std::error_code none; std::filesystem::exists(file, none))
      if (const auto lines = perf::read_metrics(file))
        curves = perf::curves(*lines, std::max<std::size_t>(100, kLines / members.size()));
    curves.update({{"name", each.name},
                   {"state", text_of(each.state)},
                   {"iteration", each.iteration},
                   {"loss", or_null(each.loss)},
                   {"accuracy", or_null(each.accuracy)}});
    list.push_back(std::move(curves));
  }
  const nlohmann::json all{{"command", for_shell(own_words())}, {"members", std::move(list)}};
  return write_file_atomically(
      folder / kCurvesPage,
      perf::filled_page(perf::kEnsembleTemplate, json_text(all), perf::kEnsembleScript));
}

}  // namespace omni
