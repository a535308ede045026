// `omni-perf summary` shows what ran and where the time went. `omni-perf idle` splits each worker's
// time by what it did or why it was idle.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/idle.hpp"
#include "perf/analysis/summary.hpp"
#include "perf/common/statistics.hpp"

namespace omni::perf {
namespace {

constexpr const char* kSummaryJson =
    R"(  {"command","host","net","scheduler","starpu","batch","processes","workers","tasks","wall",
   "iterations","iteration":{"median","mad"},"images_per_second","slices_kept",
   "losses":[{"name","share","text"}],
   "idle":[{"part","seconds","share"}],
   "kernels":[{"codelet","implementation","kind","tasks","seconds","share","median"}],
   "feed":[{"name","rank","mean","zero_share"}]}
idle: as in omni-perf idle. losses: its parts of at least 1 %, and two causes that lie in compute:
  decoding  workers that compute also decode images
  others    tasks of one layer took much longer than the median of their like (the outliers of
            omni-perf models), as when others use the machine; without the first two iterations)";

// Returns "nothing ready" for "nothing_ready".
std::string in_words(std::string_view name) {
  std::string words(name);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string hosts_of(const Trace& trace) {
  std::vector<std::string> hosts;
  for (const trace::Header& header : trace.headers)
    if (std::ranges::find(hosts, header.host) == hosts.end()) hosts.push_back(header.host);
  return fmt::format("{}", fmt::join(hosts, ", "));
}

std::vector<Column> part_columns() {
  return {column::hidden("part"), column::text("", "part"), column::seconds("seconds", "time"),
          column::share("share")};
}
std::vector<Cell> part_row(const Idle& idle, std::size_t part) {
  return {std::string(kPartNames[part]), in_words(kPartNames[part]), idle.total[part],
          idle.share[part]};
}

Document describe_summary(const Trace& trace) {
  const Summary summary = analyse_summary(trace);
  const trace::Header& header = trace.headers[0];
  const Spread& iteration = summary.iterations.spread;
  Document document;
  document.facts = {
      {"command", "command", Format::text, header.command},
      {"host", "host", Format::text, hosts_of(trace)},
      {"net", "net", Format::text, header.net},
      {"scheduler", "scheduler", Format::text, header.scheduler},
      {"starpu", "StarPU", Format::text, header.starpu},
      {"batch", "batch", Format::count, std::int64_t{header.batch}},
      {"processes", "ranks", Format::count, count_cell(trace.headers.size())},
      {"workers", "workers", Format::count, count_cell(trace.workers.size())},
      {"tasks", "tasks", Format::count, count_cell(summary.tasks)},
      {"wall", "wall time", Format::seconds, summary.wall},
      {"iterations", "iterations", Format::count, count_cell(summary.iterations.times.size())},
      {"iteration.median", "median iteration", Format::seconds, iteration.median},
      {"iteration.mad", "  deviation", Format::seconds, iteration.mad},
      {"images_per_second", "images/s by the mean iteration", Format::number,
       summary.iterations.images_per_second},
      {"slices_kept", "next task of a slice on the same worker", Format::share,
       summary.slices.share()}};

  Table losses{.key = "losses",
               .title = "Why workers did not train, largest share first",
               .columns = {column::hidden("name"), column::text("", "cause"),
                           column::share("share", "worker time"), column::text("text", "meaning")}};
  for (const Loss& loss : summary.losses)
    losses.rows.push_back({loss.name, in_words(loss.name), loss.share, loss.text});
  Table idle{.key = "idle",
             .title = "Time of all workers (omni-perf idle has each worker)",
             .columns = part_columns()};
  for (std::size_t part = 0; part < kPartCount; ++part)
    idle.rows.push_back(part_row(summary.idle, part));
  Table kernels{
      .key = "kernels",
      .title = "Longest kernels",
      .columns = {column::text("codelet"), column::text("implementation"), column::text("kind"),
                  column::count("tasks"), column::seconds("seconds", "total"),
                  column::share("share", "of compute"), column::seconds("median")},
      .shown = 8};
  for (const KernelRow& row : summary.kernels.rows)
    kernels.rows.push_back({row.codelet, row.implementation, row.kind,
                            count_cell(row.seconds.count), row.seconds.total, row.share,
                            row.seconds.median});
  Table feed{.key = "feed",
             .title = "Mini-batches prepared ahead of training",
             .columns = {column::text("name", "counter"),
                         column::count("rank", trace.headers.size() > 1 ? "rank" : ""),
                         column::number("mean"), column::share("zero_share", "none ready")}};
  for (const CounterRow& row : summary.memory.feed)
    feed.rows.push_back({row.name, std::int64_t{row.rank}, row.mean, row.zero_share});
  document.tables = {std::move(losses), std::move(idle), std::move(kernels), std::move(feed)};
  return document;
}

constexpr const char* kIdleJson =
    R"(  {"wall","workers":[{"name","kind","wall","tasks","parts":{"compute","data","scheduling",
   "other_workers","nothing_ready","submission_late","barrier","other_nodes","start_up"}}],
   "total":[{"part","seconds","share"}]}
The parts of a worker sum to its wall time:
  compute          a kernel runs; with one task at a time on a GPU: since its launch
  data             the data of its task are transferred
  scheduling       other work on its task, with a GPU's wait for the launch by the host (but not
                   the host time of libraries); or it has no task although it may run a ready one
  other_workers    only other workers may run the ready tasks: those of another group or kind
  nothing_ready    all submitted tasks wait for other tasks
  submission_late  no task is submitted, and the main thread does not wait
  barrier          no task is submitted, and the main thread waits
  other_nodes      a message of another rank is awaited, and no worker of this rank computes
  start_up         no task is submitted, and the first iteration has not begun: the program still
                   measures the machine's peaks, connects to other ranks, or reads files)";

Result<Document> describe_idle(const Trace& trace, std::size_t skip) {
  const std::optional<Idle> found = analyse_idle(trace, skip);
  if (!found)
    return Error{ErrorKind::usage, "--skip",
                 fmt::format("the trace has no more than {} iterations", skip),
                 "skip fewer, or record more"};
  const Idle& idle = *found;
  Table workers{.key = "workers",
                .columns = {column::text("name", "worker"), column::text("kind"),
                            column::hidden("wall"), column::count("tasks")}};
  Table total{.key = "total", .title = "All workers", .columns = part_columns()};
  for (std::size_t part = 0; part < kPartCount; ++part) {
    workers.columns.push_back({"parts." + std::string(kPartNames[part]), ""});
    workers.columns.push_back({"", in_words(kPartNames[part]), Format::share});
    total.rows.push_back(part_row(idle, part));
  }
  for (const WorkerTime& time : idle.workers) {
    const Worker& worker = trace.workers[time.worker];
    workers.rows.push_back({worker.name, worker.kind, idle.wall, count_cell(time.tasks)});
    for (std::size_t part = 0; part < kPartCount; ++part) {
      const double seconds = time.seconds(static_cast<Part>(part));
      workers.rows.back().push_back(seconds);
      workers.rows.back().push_back(ratio(seconds, idle.wall));
    }
  }
  Document document;
  document.facts = {{"wall", "wall time", Format::seconds, idle.wall}};
  document.tables = {std::move(workers), std::move(total)};
  return document;
}

}  // namespace

Command summary_command(CLI::App& parent) {
  return trace_command(parent, "summary", "One screen: what ran, how fast, what was lost",
                       kSummaryJson, describe_summary);
}

Command idle_command(CLI::App& parent) {
  const auto skip = std::make_shared<std::size_t>(0);
  Command command =
      trace_command(parent, "idle", "Every worker's time, and why it did nothing", kIdleJson,
                    [skip](const Trace& trace) { return describe_idle(trace, *skip); });
  command.app
      ->add_option("--skip", *skip,
                   "<ITERATIONS> Leave out so many first iterations, and all that is not training: "
                   "count from "
                   "the middle of the last of them to the middle of the last iteration")
      ->check(CLI::Range(1, 1'000'000'000));
  return command;
}

}  // namespace omni::perf
