// libFuzzer reads any bytes as a metrics file. They are refused with a reason, or can be shown in
// the report. Run metrics_fuzz -rss_limit_mb=512 -timeout=5 CORPUS
#include <cstdint>
#include <cstdlib>

#include "perf/report/html_report.hpp"
#include "perf/trace/trace.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temporary_directory.hpp"

OMNI_FUZZ_TARGET(metrics) {
  using namespace omni::perf;
  static const auto trace =
      read_trace_text(R"({"omnivore_trace":1,"rank":0,"started":0,"host":"h","net":"n","batch":1})"
                      "\n{\"end\":9,\"tasks\":0}\n",
                      "empty.jsonl");
  if (!trace) std::abort();
  static const Dependencies dependencies(*trace);
  static const omni::test::TemporaryDirectory folder;
  omni::test::put(folder / "metrics.jsonl", {reinterpret_cast<const char*>(data), size});
  const auto metrics = read_metrics(folder / "metrics.jsonl");
  if (metrics ? html_report(*trace, dependencies, *metrics).empty()
              : metrics.error().kind != omni::ErrorKind::data)
    std::abort();
  return 0;
}
