// This file writes records as lines of JSON.
#include "runtime/trace/records.hpp"

#include <fmt/compile.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

namespace omni::trace {
namespace {

using Json = nlohmann::ordered_json;

// Appends a record of a rare kind. Bytes in names that are no UTF-8 are replaced.
void append_json(Buffer& buffer, const Json& json) {
  buffer.append(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  buffer.push_back('\n');
}

template <class Format, class... Values>
void append_formatted(Buffer& buffer, Format format, Values... values) {
  fmt::format_to(std::back_inserter(buffer), format, values...);
}

void append_accesses(Buffer& buffer, const Task& task, AccessMode mode, std::string_view key) {
  bool first = true;
  for (const Access& access : task.accesses) {
    if (access.mode != mode) continue;
    buffer.append(first ? key : std::string_view(","));
    append_formatted(buffer, FMT_COMPILE("{}"), access.data);
    first = false;
  }
  if (!first) buffer.push_back(']');
}

}  // namespace

void append(Buffer& buffer, const Header& header) {
  append_json(buffer, {{"omnivore_trace", kVersion},
                       {"rank", header.rank},
                       {"started", header.started},
                       {"host", header.host},
                       {"command", header.command},
                       {"starpu", header.starpu},
                       {"scheduler", header.scheduler},
                       {"net", header.net},
                       {"batch", header.batch}});
}

void append(Buffer& buffer, const Worker& worker) {
  append_json(
      buffer,
      {{"worker", worker.id}, {"name", worker.name}, {"kind", worker.kind}, {"node", worker.node}});
}

void append(Buffer& buffer, const Codelet& codelet) {
  append_json(buffer, {{"codelet", codelet.id},
                       {"name", codelet.name},
                       {"color", codelet.color},
                       {"implementations", codelet.implementations}});
}

void append(Buffer& buffer, const Layer& layer) {
  append_json(buffer, {{"layer", layer.id}, {"type", layer.type}, {"detail", layer.detail}});
}

void append(Buffer& buffer, const Data& data) {
  append_json(buffer, {{"data", data.id}, {"name", data.name}, {"bytes", data.bytes}});
}

void append(Buffer& buffer, const Peak& peak) {
  append_json(buffer, {{"peak", peak.what},
                       {"kind", peak.kind},
                       {"per_worker", peak.per_worker},
                       {"together", peak.together}});
}

void append(Buffer& buffer, const Eligible& eligible) {
  append_json(buffer, {{"eligible", eligible.id}, {"workers", eligible.workers}});
}

// Tasks are written without a JSON library, because there may be 100,000 per second.
void append(Buffer& buffer, const Task& task) {
  append_formatted(buffer, FMT_COMPILE("{{\"task\":{},\"codelet\":{},\"impl\":{},\"worker\":{}"),
                   task.id, task.codelet, task.implementation, task.worker);
  if (task.eligible >= 0) append_formatted(buffer, FMT_COMPILE(",\"eligible\":{}"), task.eligible);
  if (task.layer >= 0) append_formatted(buffer, FMT_COMPILE(",\"layer\":{}"), task.layer);
  if (task.slice >= 0) append_formatted(buffer, FMT_COMPILE(",\"slice\":{}"), task.slice);
  append_formatted(buffer, FMT_COMPILE(",\"group\":{}"), task.group);
  if (task.iteration >= 0)
    append_formatted(buffer, FMT_COMPILE(",\"iteration\":{}"), task.iteration);
  const TaskTimes& t = task.times;
  append_formatted(buffer, FMT_COMPILE(",\"times\":[{},{},{},{},{},{},{},{},{}]"), t.submitted,
                   t.ready, t.pop_start, t.popped, t.fetch_start, t.fetch_end, t.start, t.end,
                   t.released);
  if (std::isfinite(task.predicted))
    append_formatted(buffer, FMT_COMPILE(",\"predicted\":{}"), std::llround(task.predicted));
  else
    buffer.append(std::string_view(",\"predicted\":null"));
  append_formatted(buffer, FMT_COMPILE(",\"flops\":{},\"bytes\":{}"), std::llround(task.flops),
                   std::llround(task.bytes));
  append_accesses(buffer, task, AccessMode::read, ",\"reads\":[");
  append_accesses(buffer, task, AccessMode::write, ",\"writes\":[");
  append_accesses(buffer, task, AccessMode::update, ",\"updates\":[");
  append_accesses(buffer, task, AccessMode::add, ",\"adds\":[");
  buffer.append(std::string_view("}\n"));
}

void append(Buffer& buffer, const IterationStart& iteration) {
  append_formatted(buffer, FMT_COMPILE("{{\"iteration\":{},\"at\":{}}}\n"), iteration.iteration,
                   iteration.at);
}

void append(Buffer& buffer, const Wait& wait) {
  append_formatted(buffer, FMT_COMPILE("{{\"wait\":\"{}\",\"from\":{},\"to\":{}}}\n"),
                   wait.for_all ? "all" : "data", wait.from, wait.to);
}

void append(Buffer& buffer, const Transfer& transfer) {
  append_formatted(
      buffer,
      FMT_COMPILE("{{\"transfer\":{},\"count\":{},{}\"from_node\":{},\"to_node\":{},\"from\":{},"
                  "\"to\":{}}}\n"),
      transfer.bytes, transfer.count,
      transfer.from_rank < 0 ? "" : fmt::format("\"from_rank\":{},", transfer.from_rank),
      transfer.from_node, transfer.to_node, transfer.from, transfer.to);
}

void append(Buffer& buffer, const Exchange& exchange) {
  append_formatted(buffer,
                   FMT_COMPILE("{{\"exchange\":{},\"group\":{},\"staleness\":{},\"at\":{}}}\n"),
                   exchange.iteration, exchange.group, exchange.staleness, exchange.at);
}

void append(Buffer& buffer, const Meeting& meeting) {
  append_json(buffer,
              {{"meeting", meeting.number}, {"groups", meeting.groups}, {"at", meeting.at}});
}

void append(Buffer& buffer, const Counter& counter) {
  append_json(buffer, {{"counter", counter.name}, {"at", counter.at}, {"value", counter.value}});
}

void append(Buffer& buffer, const End& end) {
  append_json(buffer, {{"end", end.at}, {"tasks", end.tasks}});
}

}  // namespace omni::trace
