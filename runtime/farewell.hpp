// A Farewell is what this process still does when it must end at once. The reason may be a fatal
// signal, an exception that nobody catches, an error of another rank, or a second request to stop.
// The Farewell acts in a thread of its own, since a signal handler may neither allocate nor lock.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace omni {

class Farewell {
 public:
  // There is one Farewell at a time. While it lives, the signals SIGSEGV, SIGBUS, SIGFPE, SIGILL
  // and SIGABRT cause a call of say_farewell(), and then do what they did before.
  explicit Farewell(std::function<void(const std::string& reason)> act);
  ~Farewell();
  Farewell(const Farewell&) = delete;
  Farewell& operator=(const Farewell&) = delete;

 private:
  struct Waiting;
  std::shared_ptr<Waiting> waiting_;
};

// Lets the Farewell act, and returns when it has, or after five seconds. Of several calls only the
// first acts. Without a Farewell the function does nothing. Signal handlers may call it.
void say_farewell(std::string_view reason);

}  // namespace omni
