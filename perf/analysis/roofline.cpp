#include "perf/analysis/roofline.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace omni::perf {
namespace {

std::vector<trace::Peak> highest(const std::vector<trace::Peak>& all) {
  std::vector<trace::Peak> peaks;
  for (const trace::Peak& peak : all) {
    const auto found = std::ranges::find_if(peaks, [&](const trace::Peak& known) {
      return known.what == peak.what && known.kind == peak.kind;
    });
    if (found == peaks.end())
      peaks.push_back(peak);
    else if (peak.per_worker > found->per_worker)
      *found = peak;
  }
  return peaks;
}

double peak_of(const Roofline& roofline, std::string_view what, std::string_view kind) {
  for (const trace::Peak& peak : roofline.peaks)
    if (peak.what == what && peak.kind == kind) return peak.per_worker;
  return 0;
}

void place(const Roofline& roofline, RooflineRow& row) {
  const double gemm = peak_of(roofline, "gemm", row.kind);
  const double copy = peak_of(roofline, "copy", row.kind);
  row.intensity = row.bytes > 0 ? row.flops / row.bytes : std::numeric_limits<double>::infinity();
  row.attained = ratio(row.flops > 0 ? row.flops : row.bytes, row.seconds.total);
  row.bound = "unknown";
  if (row.flops <= 0 && row.bytes <= 0) return;  // its cost is not stated
  if (row.flops <= 0) {
    row.roof = copy;
    if (copy > 0) row.bound = "memory";
  } else if (gemm > 0 && (copy > 0 || row.bytes <= 0)) {
    const bool memory = row.bytes > 0 && row.intensity * copy < gemm;
    row.roof = memory ? row.intensity * copy : gemm;
    row.bound = memory ? "memory" : "compute";
  }
  if (row.roof <= 0) return;
  row.fraction = row.attained / row.roof;
  row.lost = std::max(0.0, row.seconds.total * (1 - row.fraction));
}

}  // namespace

Roofline analyse_roofline(const Trace& trace, bool by_layer) {
  Roofline result;
  result.peaks = highest(trace.peaks);
  for (KernelRow& kernel : analyse_kernels(trace, by_layer).rows)
    place(result, result.rows.emplace_back(std::move(kernel)));
  std::ranges::stable_sort(result.rows, std::ranges::greater(), &RooflineRow::lost);
  return result;
}

}  // namespace omni::perf
