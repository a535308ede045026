// Streams: one thread each, which does in order what was enqueued, while the callers go on. A
// Ticket stands for one piece of that work.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace omni::played {

using Work = std::function<void()>;

// A Progress tells how far a stream has come; it lives as long as anyone asks.
class Progress {
 public:
  void advance();
  bool reached(std::uint64_t number) const;
  void wait_for(std::uint64_t number) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::uint64_t done_ = 0;
};

struct Ticket {
  std::shared_ptr<const Progress> progress;  // null: nothing to wait for
  std::uint64_t number = 0;
  bool done() const { return !progress || progress->reached(number); }
  void wait() const {
    if (progress) progress->wait_for(number);
  }
};

class Stream {
 public:
  Stream(int device, bool blocking);
  ~Stream();  // when all is done
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Ticket enqueue(Work work, std::vector<Ticket> after);
  Ticket last() const;

  const int device;
  const bool blocking;  // waits for the default stream, and it for this one

 private:
  struct Item {
    Work work;
    std::vector<Ticket> after;
  };
  void run();

  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  std::uint64_t enqueued_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

// The stream behind a handle, null for the calling thread's device; nothing: there is no such
// stream.
std::shared_ptr<Stream> find_stream(cudaStream_t handle);

}  // namespace omni::played
