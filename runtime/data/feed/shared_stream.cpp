#include "runtime/data/feed/shared_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "runtime/communicator/transfers.hpp"
#include "runtime/data/feed/decode_tasks.hpp"
#include "runtime/data/feed/unpack.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/task_errors.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {
namespace {

constexpr std::uint64_t kNoBlock = std::numeric_limits<std::uint64_t>::max();

}  // namespace

struct SharedStream::Window {
  std::atomic<std::uint64_t> ready{0};  // blocks from `begin` on that are prepared or have come
  std::uint64_t begin = 0;              // the first block that the window had
  TensorPool pool;                      // destroyed before `ready`, which its tasks use
  std::vector<const Tensor*> tensors;   // block b lies in tensor b modulo their number
  std::vector<std::uint64_t> held;      // by tensor: the block that tasks have put there
  std::vector<Reader*> readers;
  bool keeps = false;      // SharedStream::keeps()
  std::uint64_t kept = 0;  // blocks that a reader may read again

  std::uint64_t first_block() const {
    if (keeps) return 0;
    if (readers.empty()) return kNoBlock;
    return (*std::ranges::min_element(readers, {}, &Reader::block_))->block_;
  }
  bool has_room_for(std::uint64_t block) const {
    return first_block() != kNoBlock && block + kept < first_block() + tensors.size();
  }
  bool holds(std::uint64_t block) const { return held[block % tensors.size()] == block; }
};

// A Joint is the state of a stream that several ranks share. Its window has all blocks, also those
// that only readers on other ranks need.
struct SharedStream::Joint {
  OverRanks with;
  Window* window = nullptr;
  std::uint64_t done = 0;                // the blocks before it are passed on
  std::uint64_t end = kNoBlock;          // no reader needs it, nor blocks after it
  std::uint64_t wanted = 0, others = 0;  // readers here, and on other ranks, want blocks before it
  std::uint64_t told_wanted = 0, told_first = 0;
  std::vector<std::uint64_t> firsts;  // by place: the first block that another rank needs
  bool begun = false;                 // readers here have joined
  std::uint64_t received = 0;         // bytes
  // under_way counts transfers that are not done. It is shared, as their callbacks may run after
  // the stream is destroyed.
  std::shared_ptr<std::atomic<std::uint64_t>> under_way =
      std::make_shared<std::atomic<std::uint64_t>>(0);

  std::uint64_t size() const { return window->tensors.size(); }
  std::uint64_t room() const { return size() - window->kept; }
  std::uint64_t first() const { return begun ? window->first_block() : window->begin; }
  // Returns the block before which all blocks may be passed on now. That is at most a window ahead
  // of the readers here. Other ranks may be two windows behind: one of their own, and the blocks
  // that wait in this rank's window until they are sent.
  std::uint64_t limit() const {
    std::uint64_t most = std::min(std::max(wanted, others), end);
    const std::uint64_t own = first();
    if (own != kNoBlock) most = std::min(most, own + room());
    for (const std::uint64_t first : firsts)
      if (first != kNoBlock) most = std::min(most, first + 2 * room());
    return most;
  }
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
  constexpr std::uint64_t kBatches = 6;  // the window has room for this many largest mini-batches
  constexpr std::uint64_t kMost = 1024;  // blocks, since StarPU takes about 12 KiB for each
  // The last mini-batch of a pass may go beyond the end of the test set.
  if (keeps()) return (samples_.dataset().size() + most_batch_) / samples_per_block_ + 1;
  return std::max({std::min(wanted_bytes_ / block, kMost),
                   kBatches * most_batch_ / samples_per_block_ + 1 + kept_blocks(),
                   std::uint64_t{UnpackArgs::kMostParts} + 1 + kept_blocks()});
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
  if (joint_ != nullptr && window == joint_->window) {
    tell_ranks();
    pass_on();
  } else if (window->readers.empty() && !keeps()) {
    std::erase_if(windows_, [&](const auto& each) { return each.get() == window; });
  }
  moved_.notify_all();
}

Result<SharedStream::Window*> SharedStream::make_window(std::uint64_t first_block) {
  auto window = std::make_unique<Window>();
  window->keeps = keeps();
  window->kept = keeps() ? 0 : kept_blocks();
  window->begin = first_block;
  window->held.assign(blocks(), kNoBlock);
  for (std::uint64_t i = 0; i < blocks(); ++i)
    window->tensors.push_back(&window->pool.declare(
        fmt::format("stream.{}", i), samples_per_block_ * samples_.values_per_sample(), type_));
  OMNI_CHECK(window->pool.allocate());
  return windows_.emplace_back(std::move(window)).get();
}

// Puts a reader that will read this block next into a window that has the block or will have it.
Status SharedStream::place(Reader& reader, std::uint64_t block) {
  Window* const own = reader.window_;
  if (keeps() && own != nullptr) return {};
  if (in_common_window(reader, block)) return {};
  if (own != nullptr && block < reader.block_ && own->holds(block)) {
    reader.block_ = block;
    return {};
  }
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
    OMNI_TRY(reader.window_, make_window(keeps() ? 0 : block));
  }
  reader.window_->readers.push_back(&reader);
  return {};
}

SharedStream::Reader::Reader(SharedStream& stream, int slice, int batch, int ahead)
    : stream_(stream) {
  const std::lock_guard lock(stream.mutex_);
  stream.most_ahead_ = std::max(stream.most_ahead_, ahead);
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
  const bool is_common = stream.joint_ != nullptr && window_ == stream.joint_->window;
  if (is_common) stream.want(end);
  for (std::uint64_t block = first_sample / size; block < end; ++block) {
    if (is_common) {
      // The wait needs no check for failed tasks, as the job ends if a task has failed.
      stream.moved_.wait(lock, [&] { return stream.joint_->done > block; });
    } else {
      stream.moved_.wait(lock, [&] { return window_->has_room_for(block); });
    }
    const std::size_t place = block % window_->tensors.size();
    slice.parts.push_back(window_->tensors[place]);
    // With the lock held, no other reader finds the block in `held` before the tasks that prepare
    // it are submitted. So StarPU orders the tasks that read the block after them.
    if (!window_->holds(block)) stream.prepare(*window_, block);
  }
  return slice;
}

void SharedStream::prepare(Window& window, std::uint64_t block) {
  const std::size_t place = block % window.tensors.size();
  window.held[place] = block;
  codelet_apart(samples_).submit({.reader = &samples_,
                                  .first_sample = block * samples_per_block_,
                                  .count = samples_per_block_,
                                  .values_per_sample = samples_.values_per_sample(),
                                  .counter = &window.ready},
                                 {write(*window.tensors[place])},
                                 {.priority = kDecodePriority, .layer = -1});
  prepared_ += samples_per_block_;
}

double SharedStream::fill() const {
  const std::lock_guard lock(mutex_);
  if (windows_.empty() || windows_.front()->first_block() == kNoBlock) return 0;
  const Window& window = *windows_.front();
  const std::uint64_t until = window.begin + window.ready, first = window.first_block();
  return until > first
             ? static_cast<double>(until - first) / static_cast<double>(window.tensors.size())
             : 0;
}

void SharedStream::Reader::leave() {
  const std::lock_guard lock(stream_.mutex_);
  stream_.remove(*this);
}

// The following functions are for streams that several ranks share.

Status SharedStream::join_ranks(OverRanks with) {
  const std::lock_guard lock(mutex_);
  samples_per_block_ = with.samples_per_block;
  most_batch_ = with.most_batch;
  most_ahead_ = with.most_ahead;
  const auto block_of = [&](std::uint64_t sample) { return sample / samples_per_block_; };
  auto joint = std::make_unique<Joint>();
  joint->done = block_of(with.first_sample);
  joint->end = with.end == kNoBlock ? kNoBlock : block_of(with.end - 1) + 1;
  // A rank that has not told its first block yet counts as needing all blocks.
  joint->firsts.assign(with.ranks.size(), joint->done);
  joint->firsts[static_cast<std::size_t>(with.place)] = kNoBlock;
  joint->with = std::move(with);
  OMNI_TRY(joint->window, make_window(joint->done));
  joint->told_first = joint->done;
  joint_ = std::move(joint);
  return {};
}

// Puts a reader into the ranks' common window, or keeps it there, and returns true. Returns false
// if that window has no longer the block, or never had it.
bool SharedStream::in_common_window(Reader& reader, std::uint64_t block) {
  if (joint_ == nullptr) return false;
  Window* const common = joint_->window;
  if (block < common->begin || block + joint_->size() < joint_->done) return false;
  if (reader.window_ != common) {
    remove(reader);
    reader.window_ = common;
    common->readers.push_back(&reader);
    joint_->begun = true;
  } else if (reader.block_ == block) {
    return true;
  }
  reader.block_ = block;
  moved_.notify_all();
  tell_ranks();
  pass_on();
  return true;
}

// Notes that a reader wants the blocks before this one, and some more for the next mini-batches.
void SharedStream::want(std::uint64_t block) {
  const auto batch = static_cast<std::uint64_t>(most_batch_ / samples_per_block_ + 1);
  if (block + batch > joint_->wanted) joint_->wanted = block + 2 * batch;
  tell_ranks();
  pass_on();
}

void SharedStream::tell_ranks() {
  Joint& joint = *joint_;
  const std::uint64_t first = joint.first();
  const bool moved = first < joint.told_first || first - joint.told_first >= joint.size() / 4;
  if (joint.wanted <= joint.told_wanted && !(moved && first != joint.told_first)) return;
  joint.told_wanted = joint.wanted;
  joint.told_first = first;
  joint.with.tell(joint.wanted, first);
}

void SharedStream::heard(int place, std::uint64_t wanted, std::uint64_t first) {
  const std::lock_guard lock(mutex_);
  joint_->others = std::max(joint_->others, wanted);
  joint_->firsts[static_cast<std::size_t>(place)] = first;
  pass_on();
}

void SharedStream::pass_on() {
  if (first_task_error() != nullptr) return;
  const std::uint64_t limit = joint_->limit();
  if (joint_->done >= limit) return;
  while (joint_->done < limit) pass_on(joint_->done++);
  moved_.notify_all();
}

void SharedStream::pass_on(std::uint64_t block) {
  Joint& joint = *joint_;
  Window& window = *joint.window;
  const StreamRoute::Hop hop = joint.with.route.hop(joint.with.place, block);
  const std::size_t place = block % window.tensors.size();
  const Tensor& tensor = *window.tensors[place];
  const int tag = joint.with.tag + static_cast<int>(block % kTags);
  const auto submit = [&](Transfer::Kind kind, std::vector<int> peers, Window* counts) {
    ++*joint.under_way;
    submit_transfers(
        {{kind, tensor, std::move(peers), tag, true}}, {},
        [under_way = joint.under_way, counts] {
          if (counts != nullptr) ++counts->ready;
          --*under_way;
        },
        false);
  };
  window.held[place] = block;
  if (hop.source == StreamRoute::kPrepares) {
    prepare(window, block);
  } else {
    submit(Transfer::Kind::receive, {joint.with.ranks[static_cast<std::size_t>(hop.source)]},
           &window);
    joint.received += tensor.bytes();
  }
  std::vector<int> targets;
  for (const int each : hop.targets)
    targets.push_back(joint.with.ranks[static_cast<std::size_t>(each)]);
  if (!targets.empty()) submit(Transfer::Kind::send, std::move(targets), nullptr);
}

void SharedStream::leave_ranks() {
  const std::lock_guard lock(mutex_);
  if (joint_ == nullptr) return;
  joint_->with.tell = [](std::uint64_t, std::uint64_t) {};
  joint_->end = joint_->done;
}

std::uint64_t SharedStream::passed_on() const {
  const std::lock_guard lock(mutex_);
  return joint_->done;
}

std::uint64_t SharedStream::received() const {
  const std::lock_guard lock(mutex_);
  return joint_ != nullptr ? joint_->received : 0;
}

void SharedStream::finish(std::uint64_t blocks) {
  {
    const std::lock_guard lock(mutex_);
    std::ranges::fill(joint_->firsts, kNoBlock);
    joint_->others = std::max(joint_->others, blocks);
    pass_on();
  }
  // Polling suffices: messages that are under way end within milliseconds, and a job waits here
  // once.
  while (*joint_->under_way > 0 && first_task_error() == nullptr)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace omni
