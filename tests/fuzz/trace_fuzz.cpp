// libFuzzer reads any bytes as a trace file. They are refused with a reason, or every analysis and
// both exports accept them. make_trace SEEDS tasks=1 layers=2 slices=2 writes a file to begin with.
// Run trace_fuzz -rss_limit_mb=512 -timeout=5 CORPUS SEEDS
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "perf/analysis/bounds.hpp"
#include "perf/analysis/critical_path.hpp"
#include "perf/analysis/diff.hpp"
#include "perf/analysis/idle.hpp"
#include "perf/analysis/iterations.hpp"
#include "perf/analysis/kernels.hpp"
#include "perf/analysis/models.hpp"
#include "perf/analysis/staleness.hpp"
#include "perf/analysis/summary.hpp"
#include "perf/analysis/transfers.hpp"
#include "perf/report/chrome_export.hpp"
#include "perf/report/html_report.hpp"
#include "perf/trace/trace.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temporary_directory.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void analyse(const omni::perf::Trace& trace) {
  using namespace omni::perf;
  require(trace.begin <= trace.end);
  const Summary summary = analyse_summary(trace);
  for (const WorkerTime& worker : summary.idle.workers)
    require(std::accumulate(worker.parts.begin(), worker.parts.end(), Nanoseconds{0}) ==
            trace.end - trace.begin);
  const Dependencies dependencies(trace);
  require(std::isfinite(analyse_bounds(trace, dependencies).best()));
  require(std::isfinite(analyse_critical_path(trace, dependencies).replayed));
  analyse_roofline(trace);
  analyse_models(trace);
  analyse_transfers(trace);
  analyse_async(trace);
  require(!analyse_diff(trace, trace)->differs());
  require(!html_report(trace, dependencies, {}).empty());
  static const omni::test::TemporaryDirectory folder;
  require(static_cast<bool>(export_chrome(trace, dependencies, folder / "chrome.json")));
}

}  // namespace

OMNI_FUZZ_TARGET(trace) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool killed = (size & 1) != 0;  // whether the file is read as that of a killed run
  const auto trace = omni::perf::read_trace_text(text, "fuzz.jsonl", killed);
  if (trace) {
    analyse(*trace);
    return 0;
  }
  require(trace.error().kind == omni::ErrorKind::data);
  require(trace.error().where.starts_with("fuzz.jsonl") && !trace.error().what.empty());
  return 0;
}
