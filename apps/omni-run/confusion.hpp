// Confusion counts, in an evaluation, how often images of each class were classified as each class.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace omni {

class Confusion {
 public:
  explicit Confusion(std::vector<std::string> names) : names_(std::move(names)) {}

  void add(std::size_t truth, std::size_t said) { ++rows_[truth][said]; }

  std::string text() const;
  nlohmann::ordered_json json() const;
  std::string csv() const;
  // Returns whether the file looks as if csv() wrote it for a net with `outputs` outputs.
  static bool is_csv(const std::filesystem::path& path, int outputs);

 private:
  using Row = std::map<std::size_t, std::uint64_t>;
  static std::uint64_t times(const Row& row, std::size_t said) {
    const auto found = row.find(said);
    return found == row.end() ? 0 : found->second;
  }
  static std::uint64_t all(const Row& row) {
    std::uint64_t images = 0;
    for (const auto& [said, count] : row) images += count;
    return images;
  }
  // Returns the most frequent wrong class; of equally frequent ones that with the lower number.
  static std::optional<Row::value_type> most_often_wrong(std::size_t truth, const Row& row) {
    const Row::value_type* most = nullptr;
    for (const auto& each : row)
      if (each.first != truth && (most == nullptr || each.second > most->second)) most = &each;
    return most != nullptr ? std::optional(*most) : std::nullopt;
  }
  std::size_t columns(std::size_t most) const { return names_.size() > most ? 0 : names_.size(); }
  std::vector<std::string> names_;
  std::map<std::size_t, Row> rows_;  // rows of classes that have images
};

}  // namespace omni
