// Progress and diagnostics on stderr, one flushed line per call; stdout belongs to results.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace omni::log {

enum class Level { quiet, normal };

void set_level(Level level);
Level level();

void line(std::string_view text);  // always, even under --quiet: errors
void warn_line(std::string_view text);
void warn_once_line(const std::string& text);

template <class... T>
void info(fmt::format_string<T...> format, T&&... values) {
  if (level() >= Level::normal) line(fmt::format(format, std::forward<T>(values)...));
}
template <class... T>
void warn(fmt::format_string<T...> format, T&&... values) {
  warn_line(fmt::format(format, std::forward<T>(values)...));
}
// What a net's description gives reason to: a net is built several times.
template <class... T>
void warn_once(fmt::format_string<T...> format, T&&... values) {
  warn_once_line(fmt::format(format, std::forward<T>(values)...));
}
template <class... T>
void error(fmt::format_string<T...> format, T&&... values) {
  line("error: " + fmt::format(format, std::forward<T>(values)...));
}

// While set, warnings are collected instead of printed (tests ask what was said).
class Capture {
 public:
  Capture();
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  std::string text() const;
};

}  // namespace omni::log
