// A Stream is a thread that does its work in order, while the callers go on. A Ticket stands for
// one piece of this work.
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

// A Progress tells how much of its work a stream has done. It exists as long as a Ticket refers to
// it.
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
  ~Stream();  // waits until all work is done
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

// Returns the stream of a handle. The null handle means the default stream of the calling thread's
// device. Ends the program if the stream does not exist.
std::shared_ptr<Stream> find_stream(cudaStream_t handle);

}  // namespace omni::played
