// omni-perf memory: memory over the run, the largest tensors, the data feed.
#include "apps/omni-perf/commands.hpp"
#include "perf/analysis/memory.hpp"

namespace omni::perf {
namespace {

constexpr const char* kMemoryJson = R"(  {"data_bytes",
   "memory":[{"name","rank","samples","first","last","min","max","mean","growth","zero_share"}],
   "feed":[as memory],"other":[as memory],
   "largest":[{"name","bytes"}]}
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
  Table largest{.key = "largest",
                .title = "Largest tensors",
                .columns = {column::text("name", "tensor"), column::bytes("bytes", "size")}};
  for (const trace::Data& data : memory.largest)
    largest.rows.push_back({data.name, static_cast<double>(data.bytes)});
  document.tables = {
      table_of("memory", "Memory", Format::bytes, memory.memory),
      table_of("feed", "Mini-batches prepared ahead of training", Format::number, memory.feed),
      table_of("other", "Other counters", Format::number, memory.other), std::move(largest)};
  return document;
}

}  // namespace

Command memory_command(CLI::App& parent) {
  return trace_command(parent, "memory", "Memory over the run, largest tensors, the data feed",
                       kMemoryJson, describe_memory);
}

}  // namespace omni::perf
