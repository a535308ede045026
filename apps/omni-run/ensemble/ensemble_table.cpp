#include "apps/omni-run/ensemble/ensemble_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/json_text.hpp"
#include "runtime/log.hpp"

namespace omni {

void print_ensemble(const std::vector<EnsembleMember>& members,
                    const std::vector<std::size_t>& shown, const BestMember& best, bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::size_t width = 6;
  for (const std::size_t member : shown) width = std::max(width, members[member].name.size());
  std::string table = fmt::format("{:{}}  {:>9}  {:>10}  {:>10}  {:>13}\n", "member", width,
                                  "state", "iterations", "test loss", "test accuracy");
  for (const std::size_t member : shown) {
    const EnsembleMember& each = members[member];
    const auto number = [](const std::optional<double>& value, double factor, const char* unit) {
      return value ? fmt::format("{:.4g}{}", factor * *value, unit) : std::string("-");
    };
    table +=
        fmt::format("{:{}}  {:>9}  {:>10}  {:>10}  {:>13}\n", each.name, width, text_of(each.state),
                    each.iteration, number(each.loss, 1, ""), number(each.accuracy, 100, " %"));
    nlohmann::ordered_json line{
        {"name", each.name}, {"state", text_of(each.state)}, {"iterations", each.iteration}};
    if (each.loss) line["test_loss"] = *each.loss;
    if (each.accuracy) line["test_accuracy"] = *each.accuracy;
    if (!each.error.empty()) line["error"] = each.error;
    all.push_back(std::move(line));
  }
  nlohmann::ordered_json summary{{"members", all}};
  if (best.best >= 0) {
    table += fmt::format("best: {}", members[best.best].name);
    summary["best"] = members[best.best].name;
    if (best.next >= 0) {
      table += fmt::format("; the loss of {} is {:.4f} +- {:.4f} higher on the same images",
                           members[best.next].name, best.ahead.mean, best.ahead.error);
      summary["next"] = members[best.next].name;
      summary["ahead"] = {{"loss", best.ahead.mean}, {"error", best.ahead.error}};
    }
    table += '\n';
  }
  if (json)
    log::result("{}\n", json_text(summary));
  else
    log::result("{}", table);
}

}  // namespace omni
