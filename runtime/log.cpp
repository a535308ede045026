#include "runtime/log.hpp"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

namespace omni::log {
namespace {

std::atomic<Level> current_level{Level::normal};
std::mutex mutex;
std::string capture_buffer;
std::string* captured = nullptr;  // &capture_buffer while a Capture lives
bool is_first = true;             // true: this is the first rank, or the only one
bool holds_warnings = false;
std::string own_name, warnings, kept_error;

thread_local std::string prefix;  // begins the lines of this thread (see Name)

void write(std::string_view text) {
  std::string out = printable(text);
  out.push_back('\n');
  const std::lock_guard lock(mutex);
  if (captured != nullptr) {
    captured->append(out);
    return;
  }
  // Each line is one write, so lines of several threads and ranks never interleave.
  std::fwrite(out.data(), 1, out.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void set_level(Level level) { current_level = level; }
Level level() { return current_level; }
void line(std::string_view text) {
  if (is_first) write(prefix + std::string(text));
}
void result_text(std::string_view text) {
  if (!is_first) return;
  const std::string out = printable(text);
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);  // a signal may end the process at once
}
void warn_line(std::string_view text) {
  const std::string warning = "warning: " + prefix + std::string(text);
  if (holds_warnings) {
    const std::lock_guard lock(mutex);
    warnings += warning + '\n';
    if (!is_first) return;
  }
  write(is_first ? warning : own_name + ": " + warning);
}
void error_line(const std::string& text) {
  {
    const std::lock_guard lock(mutex);
    kept_error = text;
  }
  if (is_first) write("error: " + prefix + text);
}

void speak_as(int rank, const std::string& name) {
  is_first = rank == 0;
  own_name = name;
  holds_warnings = true;
}
std::string warnings_so_far() {
  const std::lock_guard lock(mutex);
  return warnings;
}
void tell_warnings_unless_in(const std::string& known) {
  if (!std::exchange(holds_warnings, false) || is_first) return;
  std::istringstream lines(warnings_so_far());
  for (std::string each; std::getline(lines, each);)
    if (known.find(each + '\n') == std::string::npos) write(own_name + ": " + each);
}
std::string last_error() {
  const std::lock_guard lock(mutex);
  return kept_error;
}
void urgent(std::string_view text) { write(text); }

void warn_once_line(const std::string& text) {
  static std::set<std::string> printed;
  {
    const std::lock_guard lock(mutex);
    if (captured == nullptr && !printed.insert(text).second) return;
  }
  warn_line(text);
}

Name::Name(const std::string& name) : outer_(std::exchange(prefix, name + ": ")) {}
Name::~Name() { prefix = outer_; }

Capture::Capture() {
  const std::lock_guard lock(mutex);
  captured = &capture_buffer;
  captured->clear();
}
Capture::~Capture() {
  const std::lock_guard lock(mutex);
  captured = nullptr;
}
std::string Capture::text() const {
  const std::lock_guard lock(mutex);
  return *captured;
}

}  // namespace omni::log
