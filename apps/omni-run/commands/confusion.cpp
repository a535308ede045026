#include "apps/omni-run/commands/confusion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace omni {
namespace {

constexpr std::size_t kWidestMatrix = 20;  // that a terminal shows

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string field = "\"";
  for (const char letter : text) field += letter == '"' ? "\"\"" : std::string(1, letter);
  return field + "\"";
}

double percent(std::uint64_t part, std::uint64_t all) {
  return 100 * static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

void Confusion::add(std::size_t truth, std::size_t said) {
  Row& row = rows_[truth];
  ++row.images;
  ++row.said[said];
}

std::uint64_t Confusion::Row::times(std::size_t output) const {
  const auto found = said.find(output);
  return found == said.end() ? 0 : found->second;
}

std::string Confusion::line(std::size_t truth, const Row& row) const {
  std::string line = fmt::format("{:5} {:8} {:7.2f} %  {}", truth, row.images,
                                 percent(row.times(truth), row.images), names_[truth]);
  const std::pair<const std::size_t, std::uint64_t>* most = nullptr;
  for (const auto& each : row.said)
    if (each.first != truth && (most == nullptr || each.second > most->second)) most = &each;
  if (most != nullptr)
    line += fmt::format(", taken for {}: {:.2f} %", names_[most->first],
                        percent(most->second, row.images));
  return line + "\n";
}

std::string Confusion::text() const {
  std::string text = "class   images   correct\n";
  for (const auto& [truth, row] : rows_) text += line(truth, row);
  if (outputs_ > kWidestMatrix) return text;
  text += "confusion (a row per class, a column per class that the net says)\n     ";
  for (std::size_t said = 0; said < outputs_; ++said) text += fmt::format(" {:6}", said);
  for (const auto& [truth, row] : rows_) {
    text += fmt::format("\n{:5}", truth);
    for (std::size_t said = 0; said < outputs_; ++said)
      text += fmt::format(" {:6}", row.times(said));
  }
  return text + "\n";
}

nlohmann::ordered_json Confusion::json() const {
  nlohmann::ordered_json classes = nlohmann::json::array();
  for (const auto& [truth, row] : rows_) {
    nlohmann::ordered_json said = nlohmann::json::object();
    for (const auto& [output, times] : row.said) said[std::to_string(output)] = times;
    classes.push_back({{"index", truth},
                       {"name", names_[truth]},
                       {"images", row.images},
                       {"correct", row.times(truth)},
                       {"said", said}});
  }
  return classes;
}

std::string Confusion::csv() const {
  std::string text = "class";
  for (std::size_t said = 0; said < outputs_; ++said) text += "," + csv_field(names_[said]);
  for (const auto& [truth, row] : rows_) {
    text += "\n" + csv_field(names_[truth]);
    for (std::size_t said = 0; said < outputs_; ++said) text += fmt::format(",{}", row.times(said));
  }
  return text + "\n";
}

}  // namespace omni
