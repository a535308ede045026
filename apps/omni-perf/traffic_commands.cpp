// omni-perf transfers shows what moved between memory nodes and ranks. omni-perf memory shows what
// was held over the run. omni-perf async shows how the groups shared what they learnt.
#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/iterations.hpp"
#include "perf/analysis/memory.hpp"
#include "perf/analysis/staleness.hpp"
#include "perf/analysis/transfers.hpp"

namespace omni::perf {
namespace {

constexpr const char* kTransfersJson =
    R"(  {"wall","bytes","links":[{"rank","from_rank","from_node","to_node","count","bytes","bandwidth",
   "busy","overlapped"}]}
from_rank: of messages, between ranks; null: between memory nodes of one process.
busy: s in which at least one transfer was under way; bandwidth: bytes / busy; overlapped: share of
busy in which at least one worker of the receiving node, or rank, computed. A trace may sum up
several transfers in one record; then busy is an upper limit.)";

Document describe_transfers(const Trace& trace) {
  const Transfers transfers = analyse_transfers(trace);
  Document document;
  document.facts = {{"wall", "wall time", Format::seconds, transfers.wall},
                    {"bytes", "bytes", Format::bytes, transfers.bytes}};
  Table links{
      .key = "links",
      .columns = {column::count("rank", "to rank"), column::count("from_rank", "from rank"),
                  column::count("from_node", "from node"), column::count("to_node", "to node"),
                  column::count("count"), column::bytes("bytes"), column::per_second("bandwidth"),
                  column::seconds("busy"), column::share("overlapped")}};
  for (const Link& link : transfers.links)
    links.rows.push_back({std::int64_t{link.rank}, id_cell(link.from_rank),
                          std::int64_t{link.from_node}, std::int64_t{link.to_node},
                          count_cell(link.count), link.bytes, link.bandwidth(), link.busy,
                          link.overlapped});
  document.tables = {std::move(links)};
  return document;
}

constexpr const char* kMemoryJson = R"(  {"data_bytes",
   "memory":[{"name","rank","samples","first","last","min","max","mean","growth","zero_share"}],
   "feed":[as memory],"other":[as memory],
   "largest":[{"name","rank","bytes"}]}
memory: bytes. feed: mini-batches ahead of training; zero_share of feed.decoded is the share of
samples in which training had to wait for the data. largest: the ten largest tensors.)";

Table table_of(const char* key, const char* title, Format format,
               const std::vector<CounterRow>& rows) {
  const ColumnOf value{format};
  Table table{
      .key = key,
      .title = title,
      .columns = {column::text("name", "counter"), column::count("rank"), column::count("samples"),
                  value("first"), value("last"), value("min"), value("max"), value("mean"),
                  value("growth"), column::share("zero_share", "samples at 0")}};
  for (const CounterRow& row : rows)
    table.rows.push_back({row.name, std::int64_t{row.rank}, count_cell(row.samples), row.first,
                          row.last, row.min, row.max, row.mean, row.growth(), row.zero_share});
  return table;
}

Document describe_memory(const Trace& trace) {
  const Memory memory = analyse_memory(trace);
  Document document;
  document.facts = {{"data_bytes", "all tensors", Format::bytes, memory.data_bytes}};
  Table largest{
      .key = "largest",
      .title = "Largest tensors",
      .columns = {column::text("name", "tensor"), column::count("rank"), column::bytes("bytes")}};
  for (const trace::Data& data : memory.largest)
    largest.rows.push_back({data.name, std::int64_t{data.rank}, static_cast<double>(data.bytes)});
  document.tables = {
      table_of("memory", "Memory", Format::bytes, memory.memory),
      table_of("feed", "Mini-batches prepared ahead of training", Format::number, memory.feed),
      table_of("other", "Other counters", Format::number, memory.other), std::move(largest)};
  return document;
}

constexpr const char* kAsyncJson =
    R"(  {"exchanges","meetings","staleness":{"mean","expected","max"},
   "groups":[{"group","exchanges","share","iterations","mean","expected","max"}],
   "histogram":[{"group","staleness","exchanges"}],
   "iterations":[{"iteration","exchanges","mean","max"}]}
An exchange is an update of the parameters by one group.
staleness: exchanges of other groups between taking the parameters and handing in the gradient.
expected:  exchanges of others for each of the group's own; for all groups, their number less one.
           null where every group has a model of its own, and these meet.)";

Document describe_async(const Trace& trace) {
  const Async async = analyse_async(trace);
  Document document;
  document.facts = {{"exchanges", "exchanges", Format::count, count_cell(async.all.exchanges)},
                    {"meetings", "meetings", Format::count, count_cell(async.meetings)},
                    {"staleness.mean", "mean staleness", Format::number, async.all.mean},
                    {"staleness.expected", "  expected", Format::number, async.expected},
                    {"staleness.max", "  max", Format::count, async.all.max}};
  Table groups{
      .key = "groups",
      .columns = {column::count("group"), column::count("exchanges"), column::share("share"),
                  column::count("iterations"), column::number("mean", "mean staleness"),
                  column::number("expected"), column::count("max")}};
  Table histogram{
      .key = "histogram",
      .title = "Exchanges by staleness",
      .columns = {column::count("group"), column::count("staleness"), column::count("exchanges")},
      .shown = 40};
  for (const GroupStaleness& group : async.groups) {
    const Staleness& staleness = group.staleness;
    groups.rows.push_back({std::int64_t{group.group}, count_cell(staleness.exchanges), group.share,
                           count_cell(group.iterations), staleness.mean, group.expected,
                           staleness.max});
    for (const auto& [value, count] : staleness.histogram)
      histogram.rows.push_back({std::int64_t{group.group}, value, count_cell(count)});
  }
  Table iterations{.key = "iterations",
                   .title = "By iteration",
                   .columns = {column::count("iteration"), column::count("exchanges"),
                               column::number("mean", "mean staleness"), column::count("max")},
                   .shown = 10};
  for (const IterationStaleness& row : async.iterations)
    iterations.rows.push_back({row.iteration, count_cell(row.exchanges), row.mean, row.max});
  document.tables = {std::move(groups), std::move(histogram), std::move(iterations)};
  return document;
}

}  // namespace

Command transfers_command(CLI::App& parent) {
  return trace_command(parent, "transfers", "What moved between memory nodes and ranks",
                       kTransfersJson, describe_transfers);
}

Command memory_command(CLI::App& parent) {
  return trace_command(parent, "memory", "Memory over the run, largest tensors, the data feed",
                       kMemoryJson, describe_memory);
}

Command async_command(CLI::App& parent) {
  return trace_command(parent, "async", "Updates and staleness of the groups, and their meetings",
                       kAsyncJson, describe_async);
}

}  // namespace omni::perf
