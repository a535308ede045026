// A SharedStream prepares the samples of a data set once for several trainings in this process,
// which read the samples in one order, each in mini-batches of its own size.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/data/feed/sample_reader.hpp"
#include "runtime/data/feed/stream_route.hpp"
#include "runtime/result.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {

// Samples are prepared in blocks. A window holds consecutive blocks, from the first that one of its
// readers still needs. A reader that would leave the window behind waits for the slowest one. A
// reader whose samples are in no window gets a window of its own, and prepares them again. Test
// samples have one window, which holds all of them, so nobody waits, and each is prepared once.
class SharedStream {
  struct Window;

 public:
  // `bytes` is the size of a window. It is larger if the readers' mini-batches need that. Of test
  // samples, the stream keeps all (see fits()).
  SharedStream(const Dataset& dataset, SampleOptions options, std::size_t bytes);
  ~SharedStream();
  // Returns whether `bytes` hold all samples of a test set.
  static bool fits(const Dataset& dataset, const SampleOptions& options, std::size_t bytes);

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

  // ---- several ranks ----
  // Readers on all ranks take the same samples. A block is prepared on one rank, and travels as
  // bytes to the others. Every rank passes every block on, also when its own readers have left,
  // until all ranks have finished.
  struct OverRanks {
    StreamRoute route{};
    std::vector<int> ranks{};                   // that share the stream: their numbers in the job
    int place = 0;                              // of this rank among them
    int tag = 0;                                // the first of kTags
    int samples_per_block = 1, most_batch = 1;  // the most on any rank
    std::uint64_t first_sample = 0, end = UINT64_MAX;  // all readers are between them
    // Tells the other ranks what heard() is called with there.
    std::function<void(std::uint64_t wanted, std::uint64_t first)> tell{};
  };
  static constexpr int kTags = 1 << 13;
  // Call join_ranks() when all readers are made and none has joined.
  Status join_ranks(OverRanks with);
  // Call heard() when another rank wants blocks up to `wanted` and its slowest reader needs block
  // `first`.
  void heard(int place, std::uint64_t wanted, std::uint64_t first);
  // Returns the number of blocks that were passed on so far. When no rank has readers any more, all
  // ranks pass on equally many, and wait for the last messages.
  std::uint64_t passed_on() const;
  void finish(std::uint64_t blocks);
  std::uint64_t received() const;  // bytes, from other ranks
  void leave_ranks();  // from now on it tells and sends nothing, whatever its readers do

  // samples_per_block() and most_batch() tell how the stream is cut into blocks.
  int samples_per_block() const { return samples_per_block_; }
  int most_batch() const { return most_batch_; }
  // Returns the share of the first window that holds prepared samples which its slowest reader
  // still needs.
  double fill() const;

  const SampleReader& samples() const { return samples_; }
  DataType type() const { return type_; }  // u8: pixels; f32: the values that nets read
  std::size_t bytes() const;               // of a window
  std::uint64_t prepared() const;          // samples so far; tasks may still prepare the last ones

 private:
  struct Joint;
  Status place(Reader& reader, std::uint64_t block);
  Result<Window*> make_window(std::uint64_t first_block);
  void prepare(Window& window, std::uint64_t block);
  bool in_common_window(Reader& reader, std::uint64_t block);
  void want(std::uint64_t block);
  void pass_on();
  void pass_on(std::uint64_t block);
  void tell_ranks();
  Window* window_with(std::uint64_t block, const Window* other_than) const;
  void remove(Reader& reader);
  std::uint64_t blocks() const;  // of a window
  bool keeps() const { return !samples_.options().training; }

  SampleReader samples_;
  DataType type_;
  std::size_t wanted_bytes_;
  int samples_per_block_ = 1, most_batch_ = 1;
  mutable std::mutex mutex_;
  std::condition_variable moved_;  // a window's first block has changed
  std::vector<std::unique_ptr<Window>> windows_;
  std::unique_ptr<Joint> joint_;  // null: the stream is this rank's alone
  std::uint64_t prepared_ = 0;
};

}  // namespace omni
