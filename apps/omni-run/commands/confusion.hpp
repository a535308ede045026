// Which class images are of and which one the net says: valid --per-class.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "apps/omni-run/commands/class_names.hpp"

namespace omni {

class Confusion {
 public:
  Confusion(std::size_t outputs, ClassNames names) : outputs_(outputs), names_(std::move(names)) {}

  void add(std::size_t truth, std::size_t said);

  std::string text() const;
  nlohmann::ordered_json json() const;
  std::string csv() const;  // a row per class, a column per output

 private:
  struct Row {
    std::uint64_t images = 0;
    std::map<std::size_t, std::uint64_t> said{};
    std::uint64_t times(std::size_t output) const;
  };
  std::string line(std::size_t truth, const Row& row) const;

  std::size_t outputs_;
  ClassNames names_;
  std::map<std::size_t, Row> rows_;  // of classes that have images
};

}  // namespace omni
