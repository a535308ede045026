// All that users are told: progress and diagnostics on stderr, one flushed line per call; results
// on stdout. Whatever a terminal would take as a command is escaped here, so that no caller can
// forget it.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "runtime/shown_name.hpp"

namespace omni::log {

enum class Level { quiet, normal };

void set_level(Level level);
Level level();

void line(std::string_view text);         // always, even under --quiet; may hold line ends
void result_text(std::string_view text);  // to stdout, as it is
void warn_line(std::string_view text);
void error_line(const std::string& text);
void warn_once_line(const std::string& text);

template <class... T>
void info(fmt::format_string<T...> format, T&&... values) {
  if (level() >= Level::normal) line(one_line(fmt::format(format, std::forward<T>(values)...)));
}
template <class... T>
void warn(fmt::format_string<T...> format, T&&... values) {
  warn_line(one_line(fmt::format(format, std::forward<T>(values)...)));
}
// For remarks on a net's description, since a net is built several times.
template <class... T>
void warn_once(fmt::format_string<T...> format, T&&... values) {
  warn_once_line(one_line(fmt::format(format, std::forward<T>(values)...)));
}
template <class... T>
void error(fmt::format_string<T...> format, T&&... values) {
  error_line(one_line(fmt::format(format, std::forward<T>(values)...)));
}
// Results, with their line ends.
template <class... T>
void result(fmt::format_string<T...> format, T&&... values) {
  result_text(fmt::format(format, std::forward<T>(values)...));
}

// Over several ranks only the first one prints. Other ranks' lines are dropped. Their warnings are
// held until the first rank's are known; new ones are printed with the rank's name. Their last
// error is kept for the first rank to print.
void speak_as(int rank, const std::string& name);
std::string warnings_so_far();
void tell_warnings_unless_in(const std::string& warnings);
std::string last_error();
void urgent(std::string_view text);  // by whichever rank

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
