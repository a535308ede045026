// omni-perf transfers: what moved between memory nodes, and between ranks.
#include "apps/omni-perf/commands.hpp"
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
  document.facts = {{"wall", "wall", Format::seconds, transfers.wall},
                    {"bytes", "moved", Format::bytes, transfers.bytes}};
  Table links{.key = "links",
              .columns = {column::count("rank"), column::number("from_rank", "from rank"),
                          column::count("from_node", "from node"),
                          column::count("to_node", "to node"), column::count("count"),
                          column::bytes("bytes", "moved"), column::per_second("bandwidth"),
                          column::seconds("busy"), column::share("overlapped")}};
  for (const Link& link : transfers.links)
    links.rows.push_back({std::int64_t{link.rank},
                          link.from_rank < 0 ? Cell(kUnknown) : Cell(std::int64_t{link.from_rank}),
                          std::int64_t{link.from_node}, std::int64_t{link.to_node},
                          count_cell(link.count), link.bytes, link.bandwidth(), link.busy,
                          link.overlapped});
  document.tables = {std::move(links)};
  return document;
}

}  // namespace

Command transfers_command(CLI::App& parent) {
  return trace_command(parent, "transfers", "What moved between memory nodes and ranks",
                       kTransfersJson, describe_transfers);
}

}  // namespace omni::perf
