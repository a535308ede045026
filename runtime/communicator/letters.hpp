// Letters sends texts from one rank to another at any time. On the receiving rank a thread passes
// them to a function, one after another.
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
  // Calls `read` in a thread of its own, with each letter and the rank that sent it. Afterwards,
  // and at least once a second, the thread also passes an empty text from the own rank, so that
  // `read` can do other work. All ranks make a Letters object at the same time. They may make
  // another one after close().
  explicit Letters(std::function<void(int from, const std::string& text)> read);
  ~Letters();  // letters that are not read yet are lost
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
  std::shared_ptr<Inbox> inbox_;  // messages under way own it, too
  std::future<void> ended_;       // ready when the thread has ended
};

}  // namespace omni::ranks
