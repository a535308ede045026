#include "perf/report/metrics_file.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/files.hpp"

namespace omni::perf {
namespace {

constexpr std::uint64_t kLimit = 1 << 30;

double number(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : kAbsent;
}

}  // namespace

Result<std::vector<MetricsLine>> read_metrics(const std::filesystem::path& path) {
  OMNI_TRY(const std::string text, read_file(path, kLimit));
  std::vector<MetricsLine> lines;
  double before = 0, last = 0;  // "time" begins anew with every start of the program
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object()) continue;
    MetricsLine found{.iteration = number(object, "iteration"),
                      .seconds = number(object, "time"),
                      .loss = number(object, "loss"),
                      .loss_average = number(object, "loss_average"),
                      .accuracy = number(object, "accuracy"),
                      .images_per_second = number(object, "images_per_second"),
                      .test_loss = number(object, "test_loss"),
                      .test_accuracy = number(object, "test_accuracy")};
    if (!(found.iteration >= 0)) continue;
    if (found.seconds < last) before += last;
    if (found.seconds >= 0) last = found.seconds;
    found.seconds += before;
    lines.push_back(found);
  }
  if (lines.empty())
    return Error{ErrorKind::data, path.string(), "holds no metrics",
                 "give the file that omni-run --metrics wrote"};
  return lines;
}

}  // namespace omni::perf
