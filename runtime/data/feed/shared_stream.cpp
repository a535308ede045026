#include "runtime/data/feed/shared_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/data/feed/decode_tasks.hpp"
#include "runtime/data/feed/unpack.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {

struct SharedStream::Window {
  TensorPool pool;
  std::vector<const Tensor*> tensors;  // of block b: b modulo their number
  std::vector<std::uint64_t> held;     // by tensor: its block
  std::vector<Reader*> readers;
  bool keeps = false;  // SharedStream::keeps()

  std::uint64_t first_block() const {
    if (keeps) return 0;
    return (*std::ranges::min_element(readers, {}, &Reader::block_))->block_;
  }
  bool has_room_for(std::uint64_t block) const { return block < first_block() + tensors.size(); }
};

SharedStream::SharedStream(const Dataset& dataset, SampleOptions options, std::size_t bytes)
    : samples_(dataset, std::move(options)), type_(samples_.type_apart()), wanted_bytes_(bytes) {}

SharedStream::~SharedStream() = default;

bool SharedStream::fits(const Dataset& dataset, const SampleOptions& options, std::size_t bytes) {
  const SampleReader samples(dataset, options);
  return dataset.size() <= bytes / (samples.values_per_sample() * bytes_of(samples.type_apart()));
}

std::uint64_t SharedStream::blocks() const {
  const std::size_t block = samples_per_block_ * samples_.values_per_sample() * bytes_of(type_);
  constexpr std::uint64_t kBatches = 6;  // of the largest mini-batches, some of which are under way
  constexpr std::uint64_t kMost = 1024;  // StarPU takes about 12 KiB for each
  // The last mini-batch of a pass may go beyond the end of the test set.
  if (keeps()) return (samples_.dataset().size() + most_batch_) / samples_per_block_ + 1;
  return std::max({std::min(wanted_bytes_ / block, kMost),
                   kBatches * most_batch_ / samples_per_block_ + 1,
                   std::uint64_t{UnpackArgs::kMostParts} + 1});
}

std::size_t SharedStream::bytes() const {
  return blocks() * samples_per_block_ * samples_.values_per_sample() * bytes_of(type_);
}

std::uint64_t SharedStream::prepared() const {
  const std::lock_guard lock(mutex_);
  return prepared_;
}

SharedStream::Window* SharedStream::window_with(std::uint64_t block,
                                                const Window* other_than) const {
  const auto found = std::ranges::find_if(windows_, [&](const auto& each) {
    return each.get() != other_than && block >= each->first_block() && each->has_room_for(block);
  });
  return found == windows_.end() ? nullptr : found->get();
}

void SharedStream::remove(Reader& reader) {
  Window* const window = std::exchange(reader.window_, nullptr);
  if (window == nullptr) return;
  std::erase(window->readers, &reader);
  if (window->readers.empty() && !keeps())
    std::erase_if(windows_, [&](const auto& each) { return each.get() == window; });
  moved_.notify_all();
}

// Puts a reader into a window where it may read this block.
Status SharedStream::place(Reader& reader, std::uint64_t block) {
  Window* const own = reader.window_;
  if (keeps() && own != nullptr) return {};
  const bool moves_on = own != nullptr && block >= reader.block_;
  const bool is_alone = own != nullptr && own->readers.size() == 1;
  Window* const other = moves_on && !is_alone ? nullptr : window_with(block, own);
  if (moves_on && other == nullptr) {
    if (std::exchange(reader.block_, block) != block) moved_.notify_all();
    return {};
  }
  remove(reader);
  reader.block_ = block;
  reader.window_ = keeps() && !windows_.empty() ? windows_.front().get() : other;
  if (reader.window_ == nullptr) {
    auto window = std::make_unique<Window>();
    window->keeps = keeps();
    window->held.assign(blocks(), std::numeric_limits<std::uint64_t>::max());
    for (std::uint64_t i = 0; i < blocks(); ++i)
      window->tensors.push_back(&window->pool.declare(
          fmt::format("stream.{}", i), samples_per_block_ * samples_.values_per_sample(), type_));
    OMNI_CHECK(window->pool.allocate());
    reader.window_ = windows_.emplace_back(std::move(window)).get();
  }
  reader.window_->readers.push_back(&reader);
  return {};
}

SharedStream::Reader::Reader(SharedStream& stream, int slice, int batch) : stream_(stream) {
  const std::lock_guard lock(stream.mutex_);
  stream.most_batch_ = std::max(stream.most_batch_, batch);
  // A slice that begins within a block has one part more.
  constexpr int kMostParts = UnpackArgs::kMostParts - 1;
  const int usual = std::min(samples_per_task(stream.samples_), stream.most_batch_);
  const int kept = stream.keeps() ? static_cast<int>(stream.samples_.dataset().size() / 1000) : 0;
  stream.samples_per_block_ =
      std::max({stream.samples_per_block_, usual, kept, (slice + kMostParts - 1) / kMostParts});
}

Status SharedStream::Reader::join(std::uint64_t first_sample) {
  const std::lock_guard lock(stream_.mutex_);
  return stream_.place(*this, first_sample / stream_.samples_per_block_);
}

SharedStream::Slice SharedStream::Reader::read(std::uint64_t first_sample, int count) {
  SharedStream& stream = stream_;
  std::unique_lock lock(stream.mutex_);
  const std::uint64_t size = stream.samples_per_block_;
  Slice slice{.parts = {},
              .samples_per_part = static_cast<int>(size),
              .skipped = static_cast<int>(first_sample % size)};
  const std::uint64_t end = (first_sample + count - 1) / size + 1;
  if (Status placed = stream.place(*this, first_sample / size); !placed) {
    report_task_error(std::move(placed.error()));
    return slice;
  }
  for (std::uint64_t block = first_sample / size; block < end; ++block) {
    stream.moved_.wait(lock, [&] { return window_->has_room_for(block); });
    const std::size_t place = block % window_->tensors.size();
    const Tensor& tensor = *window_->tensors[place];
    slice.parts.push_back(&tensor);
    if (std::exchange(window_->held[place], block) == block) continue;
    // The lock is held, so that tasks that read the block are submitted later.
    codelet_apart(stream.samples_)
        .submit({.reader = &stream.samples_,
                 .first_sample = block * size,
                 .count = static_cast<int>(size),
                 .values_per_sample = stream.samples_.values_per_sample()},
                {write(tensor)}, {.priority = kDecodePriority, .layer = -1});
    stream.prepared_ += size;
  }
  return slice;
}

void SharedStream::Reader::leave() {
  const std::lock_guard lock(stream_.mutex_);
  stream_.remove(*this);
}

}  // namespace omni
