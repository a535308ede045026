#include "runtime/data/data_feed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "runtime/data/batch.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {
namespace {

struct DecodeArgs {
  const DataFeed* feed;
  std::uint64_t first_sample;
  int count;
  std::uint64_t image_values;  // floats per image
};

void decode_cpu(const DecodeArgs& args, const Buffers& buffers, DeviceContext&) {
  args.feed->decode(args.first_sample, args.count, buffers.get<float>(0),
                    buffers.get<std::int32_t>(1));
}

Cost decode_cost(const DecodeArgs& args) {
  return {0, static_cast<double>(args.image_values) * args.count * 5};  // bytes in, floats out
}

std::uint64_t decode_footprint(const DecodeArgs& args) {
  return footprint_of(args.image_values, args.count);
}

Codelet<DecodeArgs> decode_batch({.name = "decode_batch",
                                  .color = 0x9e9e9e,
                                  .implementations = {{"cpu", decode_cpu}},
                                  .cost = decode_cost,
                                  .footprint = decode_footprint});

constexpr std::uint64_t kFree = ~std::uint64_t{0};

// Below everything else: images are needed only when a new mini-batch starts.
constexpr int kDecodePriority = -(1 << 20);

}  // namespace

DataFeed::DataFeed(const Dataset& dataset, FeedOptions options)
    : dataset_(dataset),
      options_(std::move(options)),
      sampler_(dataset.size(), options_.seed, options_.training),
      holders_(static_cast<std::size_t>(options_.slots), kFree) {
  const std::size_t per_image = options_.net_input.count();
  for (int slot = 0; slot < options_.slots; ++slot) {
    BatchSlot& batch = slots_.emplace_back();
    for (std::size_t slice = 0; slice < options_.slices.sizes.size(); ++slice) {
      const auto images = static_cast<std::size_t>(options_.slices.sizes[slice]);
      const auto name = [slice](const char* what) {
        return fmt::format("feed.{}.{}", what, slice);
      };
      batch.images.push_back(&tensors_.declare(name("images"), images * per_image));
      batch.labels.push_back(&tensors_.declare(name("labels"), images, DataType::i32));
      batch.metrics.push_back(&tensors_.declare(name("metrics"), kMetrics));
    }
  }
}

Status DataFeed::allocate() { return tensors_.allocate(); }

void DataFeed::submit(std::uint64_t number) {
  const Slices& slices = options_.slices;
  const auto free = std::find(holders_.begin(), holders_.end(), kFree);
  assert(free != holders_.end());
  *free = number;
  BatchSlot& batch = slot(number);
  const std::uint64_t first = number * static_cast<std::uint64_t>(slices.images());
  for (std::size_t i = 0; i < slices.sizes.size(); ++i)
    decode_batch.submit({.feed = this,
                         .first_sample = first + static_cast<std::uint64_t>(slices.offsets[i]),
                         .count = slices.sizes[i],
                         .image_values = options_.net_input.count()},
                        {write(*batch.images[i]), write(*batch.labels[i])},
                        {.priority = kDecodePriority, .layer = -1, .slice = static_cast<int>(i)});
}

BatchSlot& DataFeed::slot(std::uint64_t number) {
  const auto holder = std::find(holders_.begin(), holders_.end(), number);
  assert(holder != holders_.end());
  return slots_[static_cast<std::size_t>(holder - holders_.begin())];
}

void DataFeed::release(std::uint64_t number) {
  std::replace(holders_.begin(), holders_.end(), number, kFree);
}

std::uint64_t DataFeed::batches_per_pass() const {
  const auto batch = static_cast<std::uint64_t>(options_.slices.images());
  return (dataset_.size() + batch - 1) / batch;
}

void DataFeed::decode(std::uint64_t first_sample, int count, float* images,
                      std::int32_t* labels) const {
  // A test set ends: the rest of its last mini-batch is empty.
  int present = count;
  if (!options_.training) {
    const std::uint64_t left =
        dataset_.size() - std::min<std::uint64_t>(first_sample, dataset_.size());
    present = static_cast<int>(std::min<std::uint64_t>(left, static_cast<std::uint64_t>(count)));
    std::fill(labels + present, labels + count, kNoLabel);
    const std::size_t per_image = options_.net_input.count();
    std::fill(images + static_cast<std::size_t>(present) * per_image,
              images + static_cast<std::size_t>(count) * per_image, 0.0f);
  }
  thread_local std::vector<std::size_t> indices;
  indices.resize(static_cast<std::size_t>(present));
  sampler_.indices(first_sample, indices);
  if (Status status = fill_batch(dataset_, indices, first_sample, options_.augment, options_.seed,
                                 options_.training, options_.net_input, images, labels);
      !status)
    report_task_error(std::move(status.error()));
  ++decoded_slices_;
}

}  // namespace omni
