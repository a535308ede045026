// This header has the settings of a sweep. --sweep learning_rate=log:1e-4..1e-1:8 momentum=0.5,0.9
// makes a member for every combination; random:20 draws 20 of them at once, tpe:20 in waves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/omni-run/ensemble/ensemble_folder.hpp"
#include "apps/omni-run/option_table.hpp"
#include "runtime/result.hpp"

namespace omni {

// A SweepRange is written as "log:1e-4..1e-1:8", "lin:0.1..0.9:5" or "1..4". If both ends are
// written as whole numbers, so are the values.
struct SweepRange {
  double low = 0, high = 0;
  bool logarithmic = false, whole = false;
  std::vector<std::string> values{};  // of a grid; empty: the range has no number of values
};

struct SweepAxis {
  std::string key{};     // "learning_rate"
  std::string option{};  // "--learning-rate"; "": a key of [net], for --set
  std::variant<std::vector<std::string>, SweepRange> values{};
};

struct SweepSpec {
  std::vector<SweepAxis> axes;
  std::optional<std::size_t> draws{};    // none: a grid
  std::size_t first_wave = 0, wave = 0;  // members of waves, see waves.hpp; 0: there is one wave
};

struct SweepMember {
  std::string name;                // "learning_rate=0.001 momentum=0.5"
  std::vector<std::string> words;  // "--learning-rate=0.001", "--set", "gamma=0.5"
};

// `options` are those that a member may have. Values are checked as far as the rows of these
// options do it.
Result<SweepSpec> parse_sweep(const std::vector<std::string>& words, const OptionTable& options);

SweepMember member_of(const SweepSpec& sweep, const std::vector<std::string>& values);
// Writes a number of the range with six digits, or as a whole number.
std::string written(const SweepRange& range, double number);

// The first axis varies most slowly. Drawn members are different, and the first of them are the
// same for any number of draws.
Result<std::vector<SweepMember>> sweep_members(const SweepSpec& sweep, std::uint64_t seed);

}  // namespace omni
