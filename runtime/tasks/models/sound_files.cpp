// The grammar is what StarPU 1.4 writes (perfmodel_history.c, perfmodel_bus.c): lines of numbers,
// between which lines that begin with # are comments.
#include "runtime/tasks/models/sound_files.hpp"

#include <starpu.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/number_in.hpp"

namespace omni {
namespace {

constexpr double kMostMicroseconds = 1e15, kMostOfAnything = 1e9, kMostMemories = 64;
constexpr double kRounding = 1e-4;         // of numbers that were written with seven digits
constexpr std::size_t kLongestLine = 250;  // of a model: StarPU reads one into 256 bytes

// After a line that is not as expected, nothing is sound.
class Lines {
 public:
  explicit Lines(std::string_view text) : left_(text) {
    require(text.ends_with('\n') && std::ranges::all_of(text, [](char c) {
              return c == '\n' || c == '\t' || (c >= ' ' && c <= '~');
            }));
  }

  bool sound() const { return sound_; }
  void require(bool condition) { sound_ = sound_ && condition; }
  std::string_view line() const { return line_; }

  // The numbers on the next line that is no comment; none at the end. Their kinds: 'u' natural, 'd'
  // real, 'x' of eight hexadecimal digits, whose value is not told. The last is that of all others.
  std::vector<double> numbers(std::string_view kinds) {
    std::vector<double> found;
    do {
      if (!sound_ || left_.empty()) return {};
      line_ = left_.substr(0, left_.find('\n'));
      left_.remove_prefix(line_.size() + 1);
    } while (line_.empty() || line_.front() == '#');
    require(line_.front() != ' ' && line_.front() != '\t');
    for (std::size_t at = 0; (at = line_.find_first_not_of(" \t", at)) != line_.npos;) {
      const std::string_view word = line_.substr(at, line_.find_first_of(" \t", at) - at);
      if (word == "#") break;  // as in the config
      const char kind = kinds[std::min(found.size(), kinds.size() - 1)];
      const std::string_view digits = kind == 'u' ? "0123456789" : "0123456789abcdef";
      double value = 0;
      if (kind != 'x') {
        const auto number = number_in<double>(word);
        require(number.has_value());
        value = number.value_or(0);
      }
      require(kind == 'd' || word.find_first_not_of(digits) == word.npos);
      require(kind != 'x' || word.size() <= 8);
      found.push_back(value);
      at += word.size();
    }
    return found;
  }
  // The same, one of each kind and nothing else.
  std::vector<double> all(std::string_view kinds) {
    std::vector<double> found = numbers(kinds);
    require(found.size() == kinds.size() && line_.size() <= kLongestLine &&
            line_.find('#') == line_.npos);
    found.resize(kinds.size());
    return found;
  }
  double count(double least, double most) {
    const double value = all("u")[0];
    require(value >= least && value <= most);
    return sound_ ? value : 0;
  }
  bool ended() { return numbers("d").empty() && sound_; }

 private:
  std::string_view left_, line_;
  bool sound_ = true;
};

void read_implementation(Lines& file) {
  const double entries = file.count(0, kMostOfAnything);
  file.all("dddddduuu");  // a regression
  file.all("ddd");        // another
  file.count(0, 0);       // coefficients of what is not history based
  for (double entry = 0; entry < entries && file.sound(); ++entry) {
    // Footprint, bytes, flops (nan: they differed), mean, deviation, sum, that of squares, samples.
    const std::vector<double> told = file.all("xudddddu");
    file.require(!(told[2] < 0) && told[7] <= 4 * kMostOfAnything);
    for (const std::size_t time : {3u, 4u, 5u})
      file.require(told[time] >= 0 && told[time] <= kMostMicroseconds);
    file.require(told[6] >= 0 && told[6] <= kMostMicroseconds * kMostMicroseconds);
    file.require(std::abs(told[3] * told[7] - told[5]) <= kRounding * told[5]);
  }
}

// Of every device, in which order it prefers the cores' memories.
bool is_sound_affinity(std::string_view text, const std::vector<double>& counts) {
  Lines file(text);
  file.require(text.starts_with("# GPU\tNUMA"));
  for (std::size_t kind = 2; kind < counts.size(); ++kind)
    for (double device = 0; device < counts[kind] && file.sound(); ++device) {
      const std::vector<double> order = file.numbers("u");
      file.require(static_cast<double>(order.size()) == 1 + counts[1] && order[0] == device);
      file.require(std::all_of(order.begin() + file.sound(), order.end(),
                               [&](double each) { return each < counts[1]; }));
    }
  return file.ended();
}

// From every memory to every other. Beyond those that there are, nan stands; on the diagonal, 0.
bool is_sound_matrix(std::string_view text, double memories, bool may_be_zero) {
  Lines file(text);
  std::size_t rows = 0, columns = 0;
  for (auto row = file.numbers("d"); !row.empty(); row = file.numbers("d"), ++rows) {
    if (rows == 0) columns = row.size();
    file.require(row.size() == columns &&
                 file.line().find_first_of(" #") == std::string_view::npos &&
                 file.line().find("\t\t") == std::string_view::npos);
    for (std::size_t column = 0; column < row.size(); ++column) {
      const bool used = static_cast<double>(std::max(rows, column)) < memories;
      const bool positive = used && rows != column && !may_be_zero;
      file.require(std::isnan(row[column]) ? !used : positive ? row[column] > 0 : row[column] >= 0);
    }
  }
  return file.sound() && rows == columns && static_cast<double>(rows) >= memories;
}

}  // namespace

bool is_sound_codelet_model(std::string_view text, std::string_view version) {
  Lines file(text);
  file.count(0, kMostOfAnything);
  file.require(file.line() == version);
  const double combinations = file.count(0, kMostOfAnything);
  for (double combination = 0; combination < combinations && file.sound(); ++combination) {
    constexpr double kMostDevices = 16, kMostImplementations = 64;
    const double devices = file.count(1, kMostDevices);
    for (double device = 0; device < devices; ++device) {
      constexpr double kNoKind = 3;  // of worker: StarPU has left the number out
      file.require(file.count(0, STARPU_NARCH - 1) != kNoKind);
      file.count(0, kMostOfAnything);  // its number
      file.count(0, kMostOfAnything);  // its cores
    }
    const double implementations = file.count(1, kMostImplementations);
    for (double i = 0; i < implementations && file.sound(); ++i) read_implementation(file);
  }
  return file.ended();
}

bool is_sound_bus_file(std::string_view kind, std::string_view text, std::string_view config) {
  Lines lines(config);
  std::vector<double> counts;  // of every kind of memory, after that of cores
  for (auto found = lines.numbers("u"); !found.empty(); found = lines.numbers("u"))
    counts.push_back(found.size() == 1 ? found[0] : kMostOfAnything);
  double memories = 0;
  for (std::size_t each = 1; each < counts.size(); ++each) memories += counts[each];
  if (!lines.sound() || counts.size() < 2 || memories > kMostMemories) return false;
  if (kind == ".affinity") return is_sound_affinity(text, counts);
  if (kind == ".latency" || kind == ".bandwidth")
    return is_sound_matrix(text, memories, kind == ".latency");
  if (kind == ".config") return counts[0] <= kMostOfAnything;
  return text.starts_with("<?xml") && text.ends_with("</platform>\n");  // only SimGrid reads it
}

}  // namespace omni
