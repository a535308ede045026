// Letters are texts that one rank sends another at any time. A thread hands them to their reader,
// one after another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace omni::ranks {

class Letters {
 public:
  // Letters calls `read` in a thread of its own, with each letter and the rank that sent it. About
  // once a second it passes an empty text, so that `read` can do other work. All ranks make a
  // Letters object at the same time. They may make another one after close().
  explicit Letters(std::function<void(int from, const std::string& text)> read);
  ~Letters();  // letters that have come, but are not read, are lost
  Letters(const Letters&) = delete;
  Letters& operator=(const Letters&) = delete;

  // Collective: no rank sends a letter any more. Returns when no message is under way.
  void close();
  void send(int to, std::string text);  // from any thread; `text` is not empty
  void send_to_others(const std::string& text);

 private:
  struct Inbox;
  static void await(const std::shared_ptr<Inbox>& inbox, int from);
  void run();
  void stop();

  std::function<void(int, const std::string&)> read_;
  std::shared_ptr<Inbox> inbox_;  // also of messages that are under way
  std::future<void> ended_;       // of the thread
};

}  // namespace omni::ranks
