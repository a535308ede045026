// A SharedStream prepares the samples of a data set once for several trainings in this process.
// They read the samples in the same order, each in mini-batches of its own size.
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
// readers still needs. A reader that needs a block beyond the window waits for the slowest reader.
// A window also keeps as many samples as one of its readers may read again, when its training has
// come to rest. A reader that needs earlier samples, which no window has, gets a window of its own,
// for which they are prepared again. Test samples have one window for all of them, so nobody waits,
// and each is prepared once.
class SharedStream {
  struct Window;

 public:
  // A window takes up to `bytes` bytes, or more if the readers' mini-batches need that. Of test
  // samples, the stream keeps all (see fits()).
  SharedStream(const Dataset& dataset, SampleOptions options, std::size_t bytes);
  ~SharedStream();
  // Returns whether `bytes` hold all samples of a test set.
  static bool fits(const Dataset& dataset, const SampleOptions& options, std::size_t bytes);

  // A Slice has samples in blocks, its parts. The first `skipped` samples of the first part do not
  // belong to the slice.
  struct Slice {
    std::vector<const Tensor*> parts;
    int samples_per_part = 0, skipped = 0;
  };

  // A Reader reads the stream for one training. Only one thread may use it. All readers must be
  // made before the first one joins.
  class Reader {
   public:
    // `slice` is the largest count in a read(), `batch` the number of samples in a mini-batch. The
    // training reads up to `ahead` samples more than it has trained.
    Reader(SharedStream& stream, int slice, int batch, int ahead);
    ~Reader() { leave(); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // From now on other readers wait for this one, which will read first_sample next.
    Status join(std::uint64_t first_sample);
    // Submits the tasks that prepare these samples, unless another reader has submitted them. Waits
    // while another reader is too far behind. The caller submits the tasks that use the slice
    // before it calls read() again. Samples before `first_sample` are not needed any more.
    Slice read(std::uint64_t first_sample, int count);
    void leave();

   private:
    friend class SharedStream;
    friend struct Window;
    SharedStream& stream_;
    Window* window_ = nullptr;  // null: the reader has not joined, or has left
    std::uint64_t block_ = 0;   // the first block that the reader needs
  };

  // ---- several ranks ----
  // Readers on all ranks take the same samples. A block is prepared on one rank, and travels as
  // bytes to the others. Every rank passes every block on, also when its own readers have left,
  // until all ranks have finished.
  struct OverRanks {
    StreamRoute route{};
    std::vector<int> ranks{};  // numbers in the job of those that share the stream
    int place = 0;             // index of this rank in `ranks`
    int tag = 0;               // messages have kTags tags from this one on
    int samples_per_block = 1, most_batch = 1, most_ahead = 0;  // the most on any rank
    std::uint64_t first_sample = 0, end = UINT64_MAX;  // readers need no samples outside of these
    // Lets the other ranks call heard() with these arguments.
    std::function<void(std::uint64_t wanted, std::uint64_t first)> tell{};
  };
  static constexpr int kTags = 1 << 13;
  // Call join_ranks() when all readers are made and none has joined.
  Status join_ranks(OverRanks with);
  // Call heard() when the rank at `place` wants the blocks before `wanted`, and its slowest reader
  // needs block `first` next.
  void heard(int place, std::uint64_t wanted, std::uint64_t first);
  // Returns the number of the first block that is not passed on yet.
  std::uint64_t passed_on() const;
  // Passes on all blocks before `blocks`, and waits for the last messages. Every rank calls it with
  // the largest passed_on() of all ranks, when no rank has readers any more.
  void finish(std::uint64_t blocks);
  std::uint64_t received() const;  // bytes, from other ranks
  void leave_ranks();  // from now on this rank tells and sends nothing, whatever its readers do

  // The following three are known when all readers are made.
  int samples_per_block() const { return samples_per_block_; }
  int most_batch() const { return most_batch_; }
  int most_ahead() const { return most_ahead_; }
  // Returns which share of the first window has prepared samples that its slowest reader still
  // needs.
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
  std::uint64_t kept_blocks() const { return most_ahead_ / samples_per_block_ + 1; }
  bool keeps() const { return !samples_.options().training; }

  SampleReader samples_;
  DataType type_;
  std::size_t wanted_bytes_;
  int samples_per_block_ = 1, most_batch_ = 1, most_ahead_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable moved_;  // a window's first block, or Joint::done, has changed
  std::vector<std::unique_ptr<Window>> windows_;
  std::unique_ptr<Joint> joint_;  // null: the stream is this rank's alone
  std::uint64_t prepared_ = 0;
};

}  // namespace omni
