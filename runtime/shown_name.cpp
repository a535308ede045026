#include "runtime/shown_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "runtime/json_text.hpp"

namespace omni {
namespace {

enum class Kind { text, line, json };

struct Letter {
  std::size_t bytes = 0;  // 0: no UTF-8 (RFC 3629)
  char32_t point = 0;
};

Letter first_letter(std::string_view text) {
  static constexpr std::array<char32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {1, first};
  const std::size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return {};
  char32_t point = first & (0x7FU >> bytes);
  for (const char next : text.substr(1, bytes - 1)) {
    if ((next & 0xC0) != 0x80) return {};
    point = point << 6 | (static_cast<unsigned char>(next) & 0x3F);
  }
  const bool is_one = point >= kLeast[bytes] && point <= 0x10FFFF && (point >> 11) != 0x1B;
  return is_one ? Letter{bytes, point} : Letter{};
}

bool is_command(char32_t point) {
  const bool control = point < 0x20 || (point >= 0x7F && point < 0xA0);
  const bool turns = (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
  const bool line_end = point == 0x2028 || point == 0x2029;
  return control || turns || line_end || point == 0x200E || point == 0x200F || point == 0x61C;
}

std::string escaped(std::string_view text, Kind kind) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const auto [length, point] = first_letter(text);
    const std::string_view letter = text.substr(0, std::max<std::size_t>(length, 1));
    text.remove_prefix(letter.size());
    if (!is_command(point) || (kind != Kind::line && (letter == "\n" || letter == "\t")))
      safe += letter;
    else if (kind == Kind::json && length > 0)
      fmt::format_to(std::back_inserter(safe), "\\u{:04x}", static_cast<unsigned>(point));
    else
      for (const char byte : letter)
        fmt::format_to(std::back_inserter(safe), "\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return safe;
}

}  // namespace

std::size_t utf8_sequence(std::string_view text) { return first_letter(text).bytes; }

std::string printable(std::string_view text) { return escaped(text, Kind::text); }
std::string one_line(std::string_view text) { return escaped(text, Kind::line); }
std::string printable_json(std::string_view json) { return escaped(json, Kind::json); }

std::string shown_name(std::string_view name) {
  constexpr std::size_t kLongest = 100;
  std::string_view rest = name;
  std::string text = "'";
  while (!rest.empty()) {
    const std::size_t length = std::max<std::size_t>(utf8_sequence(rest), 1);
    if (name.size() - rest.size() + length > kLongest) return text + "'...";
    const std::string_view letter = rest.substr(0, length);
    rest.remove_prefix(length);
    text += letter == "\\" ? "\\x5c" : letter == "'" ? "\\x27" : one_line(letter);
  }
  return text + "'";
}

}  // namespace omni
