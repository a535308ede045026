// The log prints everything that the programs print: progress and diagnostics on stderr, results on
// stdout. Every call flushes what it prints. Control characters are escaped here, so no caller can
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

void line(std::string_view text);         // also under --quiet; `text` may have line ends
void result_text(std::string_view text);  // to stdout; adds no line end
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
// Use warn_once() for warnings about a net's description: a net is built several times.
template <class... T>
void warn_once(fmt::format_string<T...> format, T&&... values) {
  warn_once_line(one_line(fmt::format(format, std::forward<T>(values)...)));
}
template <class... T>
void error(fmt::format_string<T...> format, T&&... values) {
  error_line(one_line(fmt::format(format, std::forward<T>(values)...)));
}
// Prints to stdout. The format has the line ends.
template <class... T>
void result(fmt::format_string<T...> format, T&&... values) {
  result_text(fmt::format(format, std::forward<T>(values)...));
}

// With several ranks only the first rank prints lines; those of other ranks are dropped. Other
// ranks hold their warnings until tell_warnings_unless_in() prints those that the first rank does
// not have. last_error() is what the first rank prints for them.
void speak_as(int rank, const std::string& name);
std::string warnings_so_far();
void tell_warnings_unless_in(const std::string& warnings);
std::string last_error();
void urgent(std::string_view text);  // any rank prints it

// While a Name exists, the lines of its thread begin with the name and a colon.
class Name {
 public:
  explicit Name(const std::string& name);
  ~Name();
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;

 private:
  std::string outer_;
};

// While a Capture exists, lines for stderr are collected instead of printed. Tests use it.
class Capture {
 public:
  Capture();
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  std::string text() const;
};

}  // namespace omni::log
