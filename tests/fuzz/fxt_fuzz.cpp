// libFuzzer reads any bytes as a tasks.rec. They are refused with a reason, or give a trace that
// omni-perf reads. Run fxt_fuzz -rss_limit_mb=512 -timeout=5 CORPUS, where CORPUS holds a tasks.rec
// of starpu_fxt_tool.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "perf/trace/dependencies.hpp"
#include "perf/trace/fxt_import.hpp"
#include "perf/trace/trace.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/temporary_directory.hpp"

OMNI_FUZZ_TARGET(fxt) {
  using namespace omni::perf;
  static const omni::test::TemporaryDirectory folder;
  omni::test::put(folder / "tasks.rec", {reinterpret_cast<const char*>(data), size});
  std::filesystem::remove_all(folder / "trace");
  const auto imported = import_fxt(folder / "tasks.rec", folder / "trace");
  if (!imported) {
    if (imported.error().kind != omni::ErrorKind::data) std::abort();
    return 0;
  }
  if (imported->ranks == 0) return 0;
  const auto trace = read_trace(folder / "trace");
  if (!trace) {
    std::fprintf(stderr, "%s\n", trace.error().message().c_str());
    std::abort();
  }
  if (trace->tasks.size() != imported->tasks) std::abort();
  const Dependencies dependencies(*trace);
  return 0;
}
