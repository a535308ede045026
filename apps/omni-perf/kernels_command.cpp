// omni-perf kernels: what the kernels took and attained.
#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/kernels.hpp"

namespace omni::perf {
namespace {

constexpr const char* kKernelsJson =
    R"(  {"compute","kernels":[{"codelet","implementation","kind","layer" (with --by layer),
   "tasks","seconds","share","mean","median","min","max","mad","flops","bytes","flops_per_second",
   "bytes_per_second"}]}
share: of all compute time; mad: median absolute deviation from the median of a task.)";

Document describe_kernels(const Trace& trace, bool by_layer) {
  const Kernels kernels = analyse_kernels(trace, by_layer);
  Table table{
      .key = "kernels",
      .columns = {column::text("codelet"), column::text("implementation"),
                  column::text("kind", "worker"), layer_column(by_layer), column::count("tasks"),
                  column::seconds("seconds", "total"), column::share("share"),
                  column::seconds("mean"), column::seconds("median"), column::seconds("min"),
                  column::seconds("max"), column::seconds("mad", "+-"), column::hidden("flops"),
                  column::hidden("bytes"), column::flops("flops_per_second", "attained"),
                  column::per_second("bytes_per_second", "moved")}};
  for (const KernelRow& row : kernels.rows) {
    const Spread& spread = row.seconds;
    table.rows.push_back({row.codelet, row.implementation, row.kind, row.layer,
                          count_cell(spread.count), spread.total, row.share, spread.mean,
                          spread.median, spread.min, spread.max, spread.mad, row.flops, row.bytes,
                          ratio(row.flops, spread.total), ratio(row.bytes, spread.total)});
  }
  Document document;
  document.facts = {{"compute", "compute", Format::seconds, kernels.compute}};
  document.tables = {std::move(table)};
  return document;
}

}  // namespace

Command kernels_command(CLI::App& parent) {
  return trace_command_by_layer(parent, "kernels",
                                "Time and speed by codelet, implementation and worker",
                                kKernelsJson, describe_kernels);
}

}  // namespace omni::perf
