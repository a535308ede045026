// A Document is the result of a command. It is described once and written as text, JSON or CSV.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

namespace omni::perf {

// Numbers are in SI units everywhere; the format says how text shows them.
enum class Format { text, count, number, seconds, share, bytes, flops, per_second };

using Cell = std::variant<std::string, std::int64_t, double, bool>;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();  // null in JSON

struct Fact {
  std::string key, label;  // "": the fact is not in JSON (key), or not in text (label)
  Format format = Format::text;
  Cell value;
};

struct Column {
  std::string key;   // in JSON and CSV; "parts.data" is the member "data" of the object "parts"
  std::string head;  // in text; "": the column is not shown there
  Format format = Format::text;
};

// A ColumnOf makes columns of one format. The head of a column is its key unless another one is
// given.
struct ColumnOf {
  Format format;
  Column operator()(const char* key, const char* head = nullptr) const {
    return {key, head != nullptr ? head : key, format};
  }
};
namespace column {
inline constexpr ColumnOf text{Format::text}, count{Format::count}, number{Format::number},
    seconds{Format::seconds}, share{Format::share}, bytes{Format::bytes}, flops{Format::flops},
    per_second{Format::per_second};
inline Column hidden(const char* key) { return text(key, ""); }  // in text
}  // namespace column

struct Table {
  std::string key, title{};
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows{};
  std::size_t shown = ~std::size_t{0};  // rows in text, at most
};

struct Document {
  std::vector<Fact> facts;
  std::vector<Table> tables;
  std::vector<std::string> notes;  // text only
};

// Returns the cell of a layer's, an iteration's or a rank's number. A number below 0 stands for
// none, which is null in JSON.
inline Cell id_cell(std::int64_t id) { return id < 0 ? Cell(kUnknown) : Cell(id); }

inline Cell count_cell(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// Returns the cell as text, as "12.3 ms".
std::string shown(const Cell& cell, Format format);

// Returns the text as a field of CSV, on one line.
std::string csv_field(const std::string& text);

std::string as_text(const Document& document);
std::string as_json(const Document& document, bool complete);
// Returns the table `key` as CSV, or the first table if none has that key. A document without
// tables gives its facts.
std::string as_csv(const Document& document, const std::string& key);

}  // namespace omni::perf
