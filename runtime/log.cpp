#include "runtime/log.hpp"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

namespace omni::log {
namespace {

std::atomic<Level> current_level{Level::normal};
std::mutex mutex;
std::string capture_buffer;
std::string* captured = nullptr;  // &capture_buffer while a Capture lives

void write(std::string_view text) {
  std::string out = printable(text);
  out.push_back('\n');
  const std::lock_guard lock(mutex);
  if (captured != nullptr) {
    captured->append(out);
    return;
  }
  // One write per line: lines of several threads and ranks never interleave.
  std::fwrite(out.data(), 1, out.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void set_level(Level level) { current_level = level; }
Level level() { return current_level; }
void line(std::string_view text) { write(text); }
void result_text(std::string_view text) {
  const std::string out = printable(text);
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);  // who is asked to stop leaves at once
}
void warn_line(std::string_view text) { write("warning: " + std::string(text)); }
void warn_once_line(const std::string& text) {
  static std::set<std::string> printed;
  {
    const std::lock_guard lock(mutex);
    if (captured == nullptr && !printed.insert(text).second) return;
  }
  warn_line(text);
}

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
