// omni-perf summary: one screen on what ran and where the time went.

#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/summary.hpp"

namespace omni::perf {
namespace {

constexpr const char* kSummaryJson =
    R"(  {"command","host","net","scheduler","starpu","batch","processes","workers","tasks","wall",
   "iterations","iteration":{"median","mad"},"images_per_second","slices_kept",
   "losses":[{"name","share","text"}],
   "idle":[{"part","seconds","share"}],
   "kernels":[{"codelet","implementation","kind","tasks","seconds","share","median"}],
   "feed":[{"name","mean","zero_share"}]})";

Document describe_summary(const Trace& trace) {
  const Summary summary = analyse_summary(trace);
  const trace::Header& header = trace.headers[0];
  const Spread& iteration = summary.iterations.spread;
  Document document;
  document.facts = {
      {"command", "command", Format::text, header.command},
      {"host", "host", Format::text, header.host},
      {"net", "net", Format::text, header.net},
      {"scheduler", "scheduler", Format::text, header.scheduler},
      {"starpu", "StarPU", Format::text, header.starpu},
      {"batch", "batch", Format::count, std::int64_t{header.batch}},
      {"processes", "processes", Format::count, count_cell(trace.headers.size())},
      {"workers", "workers", Format::count, count_cell(trace.workers.size())},
      {"tasks", "tasks", Format::count, count_cell(summary.tasks)},
      {"wall", "wall", Format::seconds, summary.wall},
      {"iterations", "iterations", Format::count, count_cell(summary.iterations.times.size())},
      {"iteration.median", "median iteration", Format::seconds, iteration.median},
      {"iteration.mad", "  median deviation", Format::seconds, iteration.mad},
      {"images_per_second", "images/s by the mean iteration", Format::number,
       summary.iterations.images_per_second},
      {"slices_kept", "next task of a slice on the same worker", Format::share,
       summary.slices.share()}};

  Table losses{.key = "losses",
               .title = "Why workers did not train, largest share first",
               .columns = {column::text("name", "cause"), column::share("share", "worker time"),
                           column::text("text", "meaning")}};
  for (const Loss& loss : summary.losses) losses.rows.push_back({loss.name, loss.share, loss.text});
  Table idle{.key = "idle",
             .title = "Time of all workers (omni-perf idle has each worker)",
             .columns = {column::text("part"), column::seconds("seconds", "time"),
                         column::share("share")}};
  for (std::size_t part = 0; part < kPartCount; ++part)
    idle.rows.push_back(
        {std::string(kPartNames[part]), summary.idle.total[part], summary.idle.share[part]});
  Table kernels{.key = "kernels",
                .title = "Longest kernels",
                .columns = {column::text("codelet"), column::text("implementation"),
                            column::text("kind", "worker"), column::count("tasks"),
                            column::seconds("seconds", "total"), column::share("share"),
                            column::seconds("median")},
                .shown = 8};
  for (const KernelRow& row : summary.kernels.rows)
    kernels.rows.push_back({row.codelet, row.implementation, row.kind,
                            count_cell(row.seconds.count), row.seconds.total, row.share,
                            row.seconds.median});
  Table feed{.key = "feed",
             .title = "Mini-batches prepared ahead of training",
             .columns = {column::text("name", "counter"), column::number("mean"),
                         column::share("zero_share", "none ready")}};
  for (const CounterRow& row : summary.memory.feed)
    feed.rows.push_back({row.name, row.mean, row.zero_share});
  document.tables = {std::move(losses), std::move(idle), std::move(kernels), std::move(feed)};
  return document;
}

}  // namespace

Command summary_command(CLI::App& parent) {
  return trace_command(parent, "summary", "One screen: what ran, how fast, what was lost",
                       kSummaryJson, describe_summary);
}

}  // namespace omni::perf
