#include "runtime/data/feed/data_feed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "runtime/data/feed/decode_tasks.hpp"
#include "runtime/data/feed/unpack.hpp"
#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

constexpr std::uint64_t kFree = ~std::uint64_t{0};

}  // namespace

DataFeed::DataFeed(const Dataset& dataset, FeedOptions options)
    : options_(std::move(options)),
      samples_(dataset, {.training = options_.training,
                         .seed = options_.seed,
                         .augment = options_.augment,
                         .net_input = options_.net_input}),
      apart_(options_.stream == nullptr &&
             (dataset.has_all_sizes() || (options_.unpack_apart && samples_.is_exact_in_bytes()))),
      holders_(options_.slots, kFree) {
  const Slices& slices = options_.slices;
  if (options_.stream != nullptr)
    shared_.emplace(*options_.stream, std::ranges::max(slices.sizes), slices.images_of_all(),
                    options_.slots * slices.images_of_all());
  for (int number = 0; number < options_.slots; ++number) {
    Slot& slot = slots_.emplace_back();
    for (std::size_t slice = 0; slice < options_.slices.sizes.size(); ++slice) {
      const int images = options_.slices.sizes[slice];
      const auto declare = [&](std::string_view what, int count, std::size_t each, DataType type) {
        return &tensors_.declare(fmt::format("feed.{}.{}", what, slice), count * each, type);
      };
      slot.batch.images.push_back(declare("images", images, values_per_image(), options_.values));
      slot.batch.labels.push_back(declare("labels", images, 1, DataType::i32));
      slot.batch.metrics.push_back(declare("metrics", 1, options_.metrics, DataType::f32));
      if (!apart_) continue;
      std::vector<Tensor*>& parts = slot.parts.emplace_back();
      for (const int part : parts_of(images).sizes)
        parts.push_back(declare(fmt::format("pixels.{}", parts.size()), part, values_per_image(),
                                samples_.type_apart()));
    }
  }
}

Status DataFeed::allocate() { return tensors_.allocate(); }

Status DataFeed::join_stream(std::uint64_t first_sample) {
  return shared_ ? shared_->join(first_sample + options_.slices.before) : Status();
}

void DataFeed::leave_stream() {
  if (shared_) shared_->leave();
}

void DataFeed::submit(std::uint64_t first) {
  const Slices& slices = options_.slices;
  const auto free = std::ranges::find(holders_, kFree);
  assert(free != holders_.end());
  *free = first;
  const Slot& slot = held(first);
  for (std::size_t i = 0; i < slices.sizes.size(); ++i)
    submit_slice(first + slices.before + slices.offsets[i], static_cast<int>(i), slot);
}

Slices DataFeed::parts_of(int slice_images) const {
  constexpr int kMost = UnpackArgs::kMostParts;
  return Slices::cut(slice_images,
                     std::max(samples_per_task(samples_), (slice_images + kMost - 1) / kMost));
}

void DataFeed::submit_slice(std::uint64_t first_sample, int slice, const Slot& slot) {
  const int images = options_.slices.sizes[slice];
  const Tensor& values = *slot.batch.images[slice];
  const auto args = [&](int offset, int count) {
    return DecodeArgs{.reader = &samples_,
                      .first_sample = first_sample + static_cast<std::uint64_t>(offset),
                      .count = count,
                      .values_per_sample = values_per_image(),
                      .images = &values,
                      .counter = &decoded_slices_};
  };
  const TaskTag reading{.priority = kDecodePriority, .layer = -1, .slice = slice};
  std::vector<Access> labels{write(*slot.batch.labels[slice])};
  if (!apart_ && !shared_)
    return decode_batch.submit(args(0, images), {write(values), labels[0]}, reading);
  std::vector<Access> accesses{write(values)};
  UnpackArgs unpack{.images = images,
                    .image_values = static_cast<std::int64_t>(values_per_image()),
                    .counter = &decoded_slices_};
  if (shared_) {
    const SharedStream::Slice ready = shared_->read(first_sample, images);
    for (const Tensor* part : ready.parts) accesses.push_back(read(*part));
    unpack.images_per_part = ready.samples_per_part;
    unpack.skipped = ready.skipped;
  } else {
    const Slices parts = parts_of(images);
    for (std::size_t part = 0; part < parts.sizes.size(); ++part) {
      const Tensor& samples = *slot.parts[slice][part];
      DecodeArgs own = args(parts.offsets[part], parts.sizes[part]);
      own.counter = nullptr;  // unpacking counts the slice
      codelet_apart(samples_).submit(own, {write(samples)}, reading);
      accesses.push_back(read(samples));
    }
    unpack.images_per_part = parts.sizes[0];
  }
  // Labels of a test set are read after its images, because damaged images lose their labels when
  // they are read (damaged_images.hpp).
  if (!options_.training) labels.insert(labels.end(), accesses.begin() + 1, accesses.end());
  read_image_labels.submit(args(0, images), labels, reading);
  if (accesses.size() == 1) return;  // read() has failed, and has reported the error
  const bool floats = samples_.type_apart() == DataType::f32;
  (floats ? gather_samples : unpack_batch)
      .submit(unpack, accesses, {.priority = kUnpackPriority, .layer = -1, .slice = slice});
}

DataFeed::Slot& DataFeed::held(std::uint64_t first_sample) {
  const auto holder = std::ranges::find(holders_, first_sample);
  assert(holder != holders_.end());
  return slots_[holder - holders_.begin()];
}

bool DataFeed::holds(std::uint64_t first_sample) const {
  return std::ranges::find(holders_, first_sample) != holders_.end();
}

BatchSlot& DataFeed::slot(std::uint64_t first_sample) { return held(first_sample).batch; }

void DataFeed::release(std::uint64_t first_sample) {
  std::replace(holders_.begin(), holders_.end(), first_sample, kFree);
}

std::uint64_t DataFeed::batches_per_pass() const {
  const std::uint64_t batch = this->batch();
  return (dataset().size() + batch - 1) / batch;
}

}  // namespace omni
