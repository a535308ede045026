#include "apps/omni-run/confusion.hpp"

#include <fmt/format.h>

#include "apps/omni-perf/document.hpp"
#include "runtime/files.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {

std::string Confusion::text() const {
  constexpr std::size_t kMostColumns = 20;  // columns that a terminal shows
  std::string text = columns(kMostColumns) == 0
                         ? ""
                         : "rows: the true classes; columns: what the net took them for\n";
  text += "class  images   correct";
  for (std::size_t said = 0; said < columns(kMostColumns); ++said)
    text += fmt::format(" {:5}", said);
  for (const auto& [truth, row] : rows_) {
    const double share = static_cast<double>(times(row, truth)) / static_cast<double>(all(row));
    text += fmt::format("\n{:5} {:7} {:7.2f} %", truth, all(row), 100 * share);
    for (std::size_t said = 0; said < columns(kMostColumns); ++said)
      text += fmt::format(" {:5}", times(row, said));
    text += "  " + one_line(names_[truth]);
    if (const auto wrong = most_often_wrong(truth, row))
      text += fmt::format(", most often taken for {} ({} of {})", one_line(names_[wrong->first]),
                          wrong->second, all(row));
  }
  return text + "\n";
}

nlohmann::ordered_json Confusion::json() const {
  nlohmann::ordered_json classes = nlohmann::json::array();
  for (const auto& [truth, row] : rows_) {
    classes.push_back({{"index", truth}, {"name", names_[truth]}, {"images", all(row)}});
    classes.back()["correct"] = times(row, truth);
    for (const auto& [said, count] : row) classes.back()["said"][std::to_string(said)] = count;
    nlohmann::ordered_json& taken_for = classes.back()["taken_for"];  // null: all were right
    if (const auto wrong = most_often_wrong(truth, row))
      taken_for = {
          {"index", wrong->first}, {"name", names_[wrong->first]}, {"images", wrong->second}};
  }
  return classes;
}

std::string Confusion::csv() const {
  std::string text = "class";
  for (const std::string& name : names_) text += "," + perf::csv_field(name);
  for (const auto& [truth, row] : rows_) {
    text += "\n" + perf::csv_field(names_[truth]);
    for (std::size_t said = 0; said < names_.size(); ++said)
      text += fmt::format(",{}", times(row, said));
  }
  return text + "\n";
}

bool Confusion::is_csv(const std::filesystem::path& path, int outputs) {
  auto lines = open_lines(path);
  for (bool first = true; lines; first = false) {
    const auto line = lines->next();
    if (!line || !*line) return line && !first;
    std::string_view text = (*line)->text;
    if (first && !text.starts_with("class,")) return false;
    for (int i = 0; !first && i < outputs; ++i) {
      const std::size_t comma = text.rfind(',');
      if (comma == text.npos || !number_in<std::uint64_t>(text.substr(comma + 1))) return false;
      text = text.substr(0, comma);
    }
  }
  return false;
}

}  // namespace omni
