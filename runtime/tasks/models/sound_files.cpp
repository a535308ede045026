// The grammar is what StarPU 1.4 writes (perfmodel_history.c, perfmodel_bus.c): lines of numbers,
// between which lines that begin with # are comments.
#include "runtime/tasks/models/sound_files.hpp"

#include <starpu.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <vector>

namespace omni {
namespace {

using Count = std::uint32_t;

constexpr Count kMostDevices = 16, kMostImplementations = 64, kMostMemories = 64;
constexpr Count kMostOfAnything = (1u << 31) - 1;  // StarPU reads an int
constexpr std::size_t kLongestEntry = 250;         // and an entry into 256 bytes
constexpr double kMostMicroseconds = 1e15;
constexpr double kRounding = 1e-4;  // of numbers that were written with seven digits

struct Hex {
  std::uint32_t value = 0;
};

template <class T>
bool take(std::string_view& line, T& number) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(" \t"));
  const char *const begin = word.data(), *const end = begin + word.size();
  line.remove_prefix(word.size());
  std::from_chars_result read{};
  if constexpr (std::is_same_v<T, Hex>)
    read = std::from_chars(begin, end, number.value, 16);
  else
    read = std::from_chars(begin, end, number);
  return read.ec == std::errc() && read.ptr == end;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t") == line.npos; }

// After a line that is not as expected, nothing is sound.
class Lines {
 public:
  explicit Lines(std::string_view text) : left_(text) {
    require(text.ends_with('\n') && std::ranges::all_of(text, [](char c) {
              return c == '\n' || c == '\t' || (c >= ' ' && c <= '~');
            }));
  }

  bool sound() const { return sound_; }
  bool require(bool condition) { return sound_ = sound_ && condition; }
  // The next line that is no comment; "" at the end.
  std::string_view next() {
    while (sound_ && !left_.empty()) {
      const std::string_view line = left_.substr(0, left_.find('\n'));
      left_.remove_prefix(line.size() + 1);
      if (line.empty() || line.front() == '#') continue;
      return require(line.front() != ' ' && line.front() != '\t') ? line : "";
    }
    return "";
  }
  // Whether there is nothing but such numbers on it.
  template <class... T>
  bool read(T&... numbers) {
    std::string_view line = next();
    return require(line.size() <= kLongestEntry && (take(line, numbers) && ...) && is_blank(line));
  }
  Count count(Count least, Count most) {
    Count value = 0;
    return read(value) && require(value >= least && value <= most) ? value : 0;
  }
  bool ended() { return next().empty() && sound_; }

 private:
  std::string_view left_;
  bool sound_ = true;
};

void read_implementation(Lines& file) {
  const Count entries = file.count(0, kMostOfAnything);
  double any = 0;
  std::uint64_t bytes = 0;
  Count samples = 0;
  file.read(any, any, any, any, any, any, samples, bytes, bytes);  // a regression, and another
  file.read(any, any, any);
  file.count(0, 0);  // coefficients of what is not history based
  for (Count entry = 0; entry < entries; ++entry) {
    Hex footprint;
    double flops = 0, mean = 0, deviation = 0, sum = 0, squares = 0;
    if (!file.read(footprint, bytes, flops, mean, deviation, sum, squares, samples)) return;
    file.require(!(flops < 0));  // nan: they differed
    file.require(mean >= 0 && mean <= kMostMicroseconds);
    file.require(deviation >= 0 && deviation <= kMostMicroseconds);
    file.require(squares >= 0 && squares <= kMostMicroseconds * kMostMicroseconds);
    file.require(std::abs(mean * samples - sum) <= kRounding * sum);
  }
}

// How many there are of every kind, the cores' number first; empty when it is not sound.
std::vector<Count> counts_in(std::string_view config) {
  Lines file(config);
  std::vector<Count> counts;
  for (std::string_view line = file.next(); !line.empty(); line = file.next()) {
    file.require(take(line, counts.emplace_back()) && counts.back() <= kMostOfAnything &&
                 (is_blank(line) || line.starts_with(" #")));
  }
  return file.require(counts.size() >= 2) ? counts : std::vector<Count>();
}

// Of every device, in which order it prefers the cores' memories.
bool is_sound_affinity(std::string_view text, const std::vector<Count>& counts) {
  Lines file(text);
  file.require(text.starts_with("# GPU\tNUMA"));
  for (std::size_t kind = 2; kind < counts.size(); ++kind)
    for (Count device = 0; device < counts[kind]; ++device) {
      std::string_view line = file.next();
      Count number = 0;
      if (!file.require(take(line, number) && number == device)) return false;
      for (Count i = 0; i < counts[1]; ++i) file.require(take(line, number) && number < counts[1]);
      file.require(is_blank(line));
    }
  return file.ended();
}

// From every memory to every other. Beyond those that there are, nan stands; on the diagonal, 0.
bool is_sound_matrix(std::string_view text, Count memories, bool may_be_zero) {
  Lines file(text);
  Count rows = 0, columns = 0;
  for (std::string_view line = file.next(); !line.empty(); line = file.next(), ++rows) {
    file.require(line.find(' ') == line.npos && line.find("\t\t") == line.npos);
    Count column = 0;
    for (; !is_blank(line); ++column) {
      double value = 0;
      if (!file.require(take(line, value))) return false;
      const bool used = rows < memories && column < memories;
      const bool not_zero = used && rows != column && !may_be_zero;
      file.require(std::isnan(value) ? !used : not_zero ? value > 0 : value >= 0);
    }
    if (rows == 0) columns = column;
    file.require(column == columns);
  }
  return file.ended() && rows == columns && rows >= memories;
}

}  // namespace

bool is_sound_codelet_model(std::string_view text, std::string_view version) {
  Lines file(text);
  file.require(file.next() == version);
  const Count combinations = file.count(0, kMostOfAnything);
  for (Count combination = 0; combination < combinations; ++combination) {
    const Count devices = file.count(1, kMostDevices);
    for (Count device = 0; device < devices; ++device) {
      constexpr Count kNoKind = 3;  // of worker: StarPU has left the number out
      file.require(file.count(0, STARPU_NARCH - 1) != kNoKind);
      file.count(0, kMostOfAnything);  // its number
      file.count(0, kMostOfAnything);  // its cores
    }
    const Count implementations = file.count(1, kMostImplementations);
    for (Count i = 0; i < implementations; ++i) read_implementation(file);
    if (!file.sound()) return false;
  }
  return file.ended();
}

bool is_sound_bus_file(std::string_view kind, std::string_view text, std::string_view config) {
  const std::vector<Count> counts = counts_in(config);
  std::uint64_t memories = 0;
  for (std::size_t each = 1; each < counts.size(); ++each) memories += counts[each];
  if (counts.empty() || memories > kMostMemories) return false;
  if (kind == ".affinity") return is_sound_affinity(text, counts);
  if (kind == ".latency" || kind == ".bandwidth")
    return is_sound_matrix(text, static_cast<Count>(memories), kind == ".latency");
  if (kind == ".config") return true;
  return text.starts_with("<?xml") && text.ends_with("</platform>\n");  // only SimGrid reads it
}

}  // namespace omni
