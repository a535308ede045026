// A SharedStream prepares the training samples of a data set once for several trainings in this
// process. They read the samples in one order, each in mini-batches of its own size.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/data/feed/sample_reader.hpp"
#include "runtime/result.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

// Samples are prepared in blocks. A window holds consecutive blocks, from the first that one of its
// readers still needs. A reader that would leave the window behind waits for the slowest one. A
// reader whose samples are in no window gets a window of its own, and prepares them again.
class SharedStream {
  struct Window;

 public:
  // `bytes` is the size of a window. A window is larger where the readers' mini-batches ask for
  // that.
  SharedStream(const Dataset& dataset, SampleOptions options, std::size_t bytes);
  ~SharedStream();

  // A Slice has samples in parts of blocks. The first `skipped` samples of the first part are not
  // of the slice.
  struct Slice {
    std::vector<const Tensor*> parts;
    int samples_per_part = 0, skipped = 0;
  };

  // A Reader reads the stream for one training. Only one thread may call its methods. All readers
  // must be made before the first one joins.
  class Reader {
   public:
    // `slice` is the most samples of one read(), `batch` the samples of a mini-batch.
    Reader(SharedStream& stream, int slice, int batch);
    ~Reader() { leave(); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // From now on other readers wait for this one, which will read first_sample next.
    Status join(std::uint64_t first_sample);
    // Submits the tasks that prepare these samples, unless they are submitted. It waits while
    // another reader is too far behind. The caller submits the tasks that use the slice before it
    // calls read() again. Samples before `first_sample` are not needed any more.
    Slice read(std::uint64_t first_sample, int count);
    void leave();

   private:
    friend class SharedStream;
    friend struct Window;
    SharedStream& stream_;
    Window* window_ = nullptr;  // null: it has not joined, or has left
    std::uint64_t block_ = 0;   // the first block that it needs
  };

  const SampleReader& samples() const { return samples_; }
  DataType type() const { return type_; }  // u8: pixels; f32: the values that nets read
  std::size_t bytes() const;               // of a window
  std::uint64_t prepared() const;          // samples so far; tasks may still prepare the last ones

 private:
  Status place(Reader& reader, std::uint64_t block);
  Window* window_with(std::uint64_t block, const Window* other_than) const;
  void remove(Reader& reader);
  std::uint64_t blocks() const;  // of a window

  SampleReader samples_;
  DataType type_;
  std::size_t wanted_bytes_;
  int samples_per_block_ = 1, most_batch_ = 1;
  mutable std::mutex mutex_;
  std::condition_variable moved_;  // a window's first block has changed
  std::vector<std::unique_ptr<Window>> windows_;
  std::uint64_t prepared_ = 0;
};

}  // namespace omni
