#include "apps/omni-perf/document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/json_text.hpp"
#include "runtime/shown_name.hpp"

namespace omni::perf {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidest = 120;

struct Unit {
  double size;
  const char* name;
};

template <std::size_t count>
std::string scaled(double value, const Unit (&units)[count]) {
  const Unit* unit = units;
  while (unit + 1 != units + count && std::abs(value) < unit->size) ++unit;
  return fmt::format("{:.4g} {}", value / unit->size, unit->name);
}

std::string shown_number(double value, Format format) {
  static constexpr Unit kSeconds[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
  static constexpr Unit kBytes[] = {{0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "B"}};
  static constexpr Unit kFlops[] = {
      {1e12, "Tflop/s"}, {1e9, "Gflop/s"}, {1e6, "Mflop/s"}, {1, "flop/s"}};
  static constexpr Unit kRates[] = {{1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}, {1, "B/s"}};
  if (!std::isfinite(value)) return "-";
  switch (format) {
    case Format::seconds: return value == 0 ? "0 s" : scaled(value, kSeconds);
    case Format::share: return fmt::format("{:.1f} %", 100 * value);
    case Format::bytes: return scaled(value, kBytes);
    case Format::flops: return scaled(value, kFlops);
    case Format::per_second: return scaled(value, kRates);
    default: return fmt::format("{:.4g}", value);
  }
}

// Whole numbers are written without ".0", because most of them are counts, as of bytes.
Json json_of(const Cell& cell) {
  constexpr double kExact = 0x1p53;
  const auto* number = std::get_if<double>(&cell);
  if (number != nullptr && std::trunc(*number) == *number && std::abs(*number) < kExact)
    return static_cast<std::int64_t>(*number);
  return std::visit([](const auto& value) { return Json(value); }, cell);
}

void set(Json& object, const std::string& key, const Cell& cell) {
  const std::size_t dot = key.find('.');
  if (dot == key.npos)
    object[key] = json_of(cell);
  else
    set(object[key.substr(0, dot)], key.substr(dot + 1), cell);
}

std::string in_csv(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return csv_field(*text);
  const std::string number = json_of(cell).dump();
  return number == "null" ? "" : number;
}

std::string shortened(std::string_view text) {
  std::size_t end = std::min(text.size(), kWidest);
  for (int i = 0; i < 3 && end < text.size() && (text[end] & 0xC0) == 0x80; ++i) --end;
  return one_line(text.substr(0, end)) + (end < text.size() ? "..." : "");
}

// `first` means that the table is the one that --csv writes if the user names no table.
std::string text_of(const Table& table, bool first) {
  std::string text = table.title.empty() ? "" : table.title + "\n";
  if (table.rows.empty()) return text + "  (none)\n";
  const std::size_t rows = std::min(table.rows.size(), table.shown);
  std::vector<std::string> lines(rows + 1);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    if (column.head.empty()) continue;
    std::vector<std::string> cells{column.head};
    for (std::size_t row = 0; row < rows; ++row)
      cells.push_back(shown(table.rows[row][i], column.format));
    const std::size_t width = std::ranges::max(cells, {}, &std::string::size).size();
    const auto padded = fmt::runtime(column.format == Format::text ? "{}{:<{}}" : "{}{:>{}}");
    for (std::size_t line = 0; line < lines.size(); ++line)
      lines[line] += fmt::format(padded, lines[line].empty() ? "" : "  ", cells[line], width);
  }
  for (std::string& line : lines) {
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  if (rows < table.rows.size())
    text += fmt::format("... and {} more (all with --json, or --csv{})\n", table.rows.size() - rows,
                        first ? "" : " --table " + table.key);
  return text;
}

}  // namespace

std::string csv_field(const std::string& text) {
  const std::string line = one_line(text);
  if (line.find_first_of(",\"") == line.npos) return line;
  std::string quoted = "\"";
  for (const char letter : line) quoted.append(letter == '"' ? 2 : 1, letter);
  return quoted + '"';
}

std::string shown(const Cell& cell, Format format) {
  if (const auto* text = std::get_if<std::string>(&cell)) return shortened(*text);
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&cell)) return shown_number(*number, format);
  return std::get<bool>(cell) ? "yes" : "no";
}

std::string as_text(const Document& document) {
  std::string text;
  std::size_t width = 0;
  for (const Fact& fact : document.facts) width = std::max(width, fact.label.size());
  for (const Fact& fact : document.facts)
    if (!fact.label.empty())
      text += fmt::format("{:<{}}  {}\n", fact.label, width, shown(fact.value, fact.format));
  for (const Table& table : document.tables) {
    if (std::ranges::all_of(table.columns,
                            [](const Column& column) { return column.head.empty(); }))
      continue;
    if (!text.empty()) text += "\n";
    text += text_of(table, &table == &document.tables[0]);
  }
  if (!text.empty() && !document.notes.empty()) text += "\n";
  for (const std::string& note : document.notes) text += note + "\n";
  return text;
}

std::string as_json(const Document& document, bool complete) {
  Json json = {{"complete", complete}};
  for (const Fact& fact : document.facts)
    if (!fact.key.empty()) set(json, fact.key, fact.value);
  for (const Table& table : document.tables) {
    Json rows = Json::array();
    for (const auto& row : table.rows) {
      Json& object = rows.emplace_back(Json::object());
      for (std::size_t i = 0; i < row.size(); ++i)
        if (!table.columns[i].key.empty()) set(object, table.columns[i].key, row[i]);
    }
    json[table.key] = std::move(rows);
  }
  return json_text(json, 1) + "\n";
}

std::string as_csv(const Document& document, const std::string& key) {
  std::string text;
  if (document.tables.empty()) {
    text = "key,value\n";
    for (const Fact& fact : document.facts)
      if (!fact.key.empty()) text += fact.key + "," + in_csv(fact.value) + "\n";
    return text;
  }
  const auto found = std::ranges::find(document.tables, key, &Table::key);
  const Table& table = found == document.tables.end() ? document.tables[0] : *found;
  const auto append_line = [&](const auto& cell) {
    const char* separator = "";
    for (std::size_t i = 0; i < table.columns.size(); ++i)
      if (!table.columns[i].key.empty())
        text += fmt::format("{}{}", std::exchange(separator, ","), cell(i));
    text += '\n';
  };
  append_line([&](std::size_t i) { return table.columns[i].key; });
  for (const auto& row : table.rows) append_line([&](std::size_t i) { return in_csv(row[i]); });
  return text;
}

}  // namespace omni::perf
