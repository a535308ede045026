#include "perf/report/metrics_file.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/files.hpp"

namespace omni::perf {
namespace {

constexpr std::size_t kMostLines = 500'000;  // more than a page can draw

double number(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : kAbsent;
}

// A RunningTime is the total of a clock that begins at 0 with every start of the program.
struct RunningTime {
  double before = 0, last = 0;
  double in_all(double now) {
    if (now < last) before += last;
    if (now >= 0) last = now;
    return now + before;
  }
};

}  // namespace

MetricsLine metrics_line(const nlohmann::json& object) {
  return {.iteration = number(object, "iteration"),
          .seconds = number(object, "time"),
          .loss = number(object, "loss"),
          .loss_average = number(object, "loss_average"),
          .accuracy = number(object, "accuracy"),
          .images_per_second = number(object, "images_per_second"),
          .test_loss = number(object, "test_loss"),
          .test_accuracy = number(object, "test_accuracy"),
          .epoch = number(object, "epoch"),
          .images = number(object, "images"),
          .simulated_seconds = number(object, "simulated_time")};
}

Result<std::vector<MetricsLine>> read_metrics(const std::filesystem::path& path) {
  OMNI_TRY(LineSource text, open_lines(path));
  std::vector<MetricsLine> lines;
  RunningTime real, simulated;
  for (;;) {
    OMNI_TRY(const std::optional<LineSource::Line> line, text.next());
    if (!line || line->too_long) break;  // from here on the file is not ours
    const nlohmann::json object = nlohmann::json::parse(line->text, nullptr, false);
    if (!object.is_object()) continue;
    MetricsLine found = metrics_line(object);
    if (!(found.iteration >= 0)) continue;
    found.seconds = real.in_all(found.seconds);
    found.simulated_seconds = simulated.in_all(found.simulated_seconds);
    if (lines.size() == kMostLines) {  // keeps every second line, which a page shows as well
      for (std::size_t i = 0; i < kMostLines / 2; ++i) lines[i] = lines[2 * i];
      lines.resize(kMostLines / 2);
    }
    lines.push_back(found);
  }
  if (lines.empty())
    return Error{ErrorKind::data, path.string(), "holds no metrics",
                 "give the file that omni-run --metrics wrote"};
  return lines;
}

nlohmann::json curves(const std::vector<MetricsLine>& lines, std::size_t most) {
  const std::size_t step = lines.size() / most + 1;
  nlohmann::json json = nlohmann::json::array();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const MetricsLine& line = lines[i];
    const bool evaluation = !std::isnan(line.test_loss) || !std::isnan(line.test_accuracy);
    if (i % step != 0 && !evaluation) continue;
    json.push_back({line.iteration, line.seconds, line.loss, line.loss_average, line.accuracy,
                    line.images_per_second, line.test_loss, line.test_accuracy,
                    line.simulated_seconds});
  }
  return {{"every", step}, {"lines", json}};
}

}  // namespace omni::perf
