#include "runtime/data/data_feed.hpp"

#include <fmt/format.h>

#include <array>
#include <cassert>
#include <concepts>
#include <new>

#include "runtime/data/images/unpack.hpp"
#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {
namespace {

struct DecodeArgs {
  const DataFeed* feed;
  std::uint64_t first_sample;
  int count;
  std::uint64_t image_values;  // per image
  const Tensor* images = nullptr;
};

constexpr auto decode_cpu = []<class T>(T, const DecodeArgs& args, const Buffers& buffers,
                                        DeviceContext&) {
  args.feed->decode(args.first_sample, args.count, buffers.get<T>(0), buffers.get<std::int32_t>(1));
};

void make_pixels_cpu(const DecodeArgs& args, const Buffers& buffers, DeviceContext&) {
  args.feed->fill(args.first_sample, args.count, buffers.get<std::uint8_t>(0));
}

void read_labels_cpu(const DecodeArgs& args, const Buffers& buffers, DeviceContext&) {
  args.feed->read_labels(args.first_sample, args.count, buffers.get<std::int32_t>(0));
}

// Images per task that makes pixels. Reading them takes some milliseconds, copying them in memory
// one.
constexpr int kFilesPerTask = 4;
constexpr std::size_t kCopiedPerTask = 1 << 20;

Cost decode_cost(const DecodeArgs& args) {
  return {0, static_cast<double>(args.image_values) * args.count * 5};  // bytes in, floats out
}

constexpr std::uint64_t (*decode_footprint)(const DecodeArgs&) =
    footprint_by<&DecodeArgs::image_values, &DecodeArgs::count>;

Cost pixels_cost(const DecodeArgs& args) {
  return {0, static_cast<double>(args.image_values) * args.count * 2};
}

CodeletDefinition<DecodeArgs> pixels_definition(const char* name) {
  return {.name = name,
          .color = 0x8c8c8c,
          .implementations = {{"cpu", make_pixels_cpu}},
          .cost = pixels_cost,
          .footprint = decode_footprint};
}

Codelet<DecodeArgs> decode_batch(
    {.name = "decode_batch",
     .color = 0x9e9e9e,
     .implementations = {{.name = "cpu", .kernel = by_values<decode_cpu>, .in_bf16 = {0}}},
     .cost = decode_cost,
     .footprint = decode_footprint,
     .when_done = [](const DecodeArgs& args) { args.images->send_to_lone_gpu(); }});
// They do the same work, but need models of their own, because their times differ.
Codelet<DecodeArgs> read_image_files(pixels_definition("read_image_files"));
Codelet<DecodeArgs> copy_image_pixels(pixels_definition("copy_image_pixels"));
Codelet<DecodeArgs> read_image_labels({.name = "read_image_labels",
                                       .color = 0xc0c0c0,
                                       .implementations = {{"cpu", read_labels_cpu}},
                                       .cost = [](const DecodeArgs&) { return Cost(); },
                                       .footprint = decode_footprint});

constexpr std::uint64_t kFree = ~std::uint64_t{0};

// Decoding has the lowest priority: images are needed only when a new mini-batch starts. A
// mini-batch that has its pixels is finished before others are begun.
constexpr int kDecodePriority = -(1 << 20), kUnpackPriority = kDecodePriority + 1;

}  // namespace

template <class T>
Status fill_batch(const Dataset& dataset, std::span<const std::size_t> indices,
                  std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
                  bool training, Extent net_input, T* images) {
  OMNI_CHECK(check_input(options, dataset.extent(), net_input, dataset.description()));
  AugmentOptions fitting = options;
  fitting.all_sizes = dataset.has_all_sizes();
  try {
    thread_local Image image;  // kept, because a worker decodes thousands of images
    thread_local std::vector<float> values;
    for (std::size_t i = 0; i < indices.size(); ++i, images += net_input.count()) {
      const std::uint64_t sample = first_sample + i;
      const LeastSize least = least_size(fitting, seed, sample, training, net_input);
      image.values.clear();
      OMNI_CHECK(dataset.read(indices[i], least, image));
      const auto prepare = [&](float* dst) {
        if (!image.values.empty()) return void(std::ranges::copy(image.values, dst));
        prepare_image(image.pixels, image.extent, fitting, seed, sample, training, net_input, dst);
      };
      if constexpr (std::same_as<T, float>) {
        prepare(images);
      } else {
        values.resize(net_input.count());
        prepare(values.data());
        constexpr bool kPixels = std::same_as<T, std::uint8_t>;
        std::ranges::transform(values, images, [](float value) {
          return static_cast<T>(kPixels ? value * 255 + 0.5f : value);
        });
      }
    }
  } catch (const std::bad_alloc&) {  // no exception may pass through StarPU
    return Error{ErrorKind::out_of_memory, dataset.description(), "no memory to decode an image",
                 ""};
  }
  return {};
}

#define OMNI_FILL_BATCH(T)                                                                \
  template Status fill_batch(const Dataset&, std::span<const std::size_t>, std::uint64_t, \
                             const AugmentOptions&, std::uint64_t, bool, Extent, T*)
OMNI_FILL_BATCH(float);
OMNI_FILL_BATCH(Bf16);
OMNI_FILL_BATCH(std::uint8_t);

DataFeed::DataFeed(const Dataset& dataset, FeedOptions options)
    : dataset_(dataset),
      options_(std::move(options)),
      in_pixels_(dataset.has_all_sizes() || (options_.unpack_apart && !dataset.holds_vectors() &&
                                             keeps_bytes(options_.augment, dataset.extent(),
                                                         options_.training, options_.net_input))),
      sampler_(dataset.size(), options_.seed, options_.training),
      holders_(options_.slots, kFree) {
  for (int number = 0; number < options_.slots; ++number) {
    Slot& slot = slots_.emplace_back();
    for (std::size_t slice = 0; slice < options_.slices.sizes.size(); ++slice) {
      const int images = options_.slices.sizes[slice];
      const auto declare = [&](std::string_view what, int count, std::size_t each, DataType type) {
        return &tensors_.declare(fmt::format("feed.{}.{}", what, slice), count * each, type);
      };
      slot.batch.images.push_back(declare("images", images, pixels_per_image(), options_.values));
      slot.batch.labels.push_back(declare("labels", images, 1, DataType::i32));
      slot.batch.metrics.push_back(declare("metrics", 1, kMetrics, DataType::f32));
      if (!in_pixels_) continue;
      std::vector<Tensor*>& pixels = slot.pixels.emplace_back();
      for (const int part : parts_of(images).sizes)
        pixels.push_back(declare(fmt::format("pixels.{}", pixels.size()), part, pixels_per_image(),
                                 DataType::u8));
    }
  }
}

Status DataFeed::allocate() { return tensors_.allocate(); }

void DataFeed::submit(std::uint64_t first) {
  const Slices& slices = options_.slices;
  const auto free = std::ranges::find(holders_, kFree);
  assert(free != holders_.end());
  *free = first;
  const Slot& slot = held(first);
  for (std::size_t i = 0; i < slices.sizes.size(); ++i) {
    const std::uint64_t first_sample = first + slices.before + slices.offsets[i];
    if (in_pixels_)
      submit_pixels(first_sample, static_cast<int>(i), slot);
    else
      decode_batch.submit({.feed = this,
                           .first_sample = first_sample,
                           .count = slices.sizes[i],
                           .image_values = pixels_per_image(),
                           .images = slot.batch.images[i]},
                          {write(*slot.batch.images[i]), write(*slot.batch.labels[i])},
                          {.priority = kDecodePriority, .layer = -1, .slice = static_cast<int>(i)});
  }
}

Slices DataFeed::parts_of(int slice_images) const {
  constexpr int kMost = UnpackArgs::kMostParts;
  const int usual = dataset_.has_all_sizes()
                        ? kFilesPerTask
                        : static_cast<int>((kCopiedPerTask - 1) / pixels_per_image()) + 1;
  return Slices::cut(slice_images, std::max(usual, (slice_images + kMost - 1) / kMost));
}

void DataFeed::submit_pixels(std::uint64_t first_sample, int slice, const Slot& slot) {
  const int images = options_.slices.sizes[slice];
  const Slices parts = parts_of(images);
  const auto args = [&](int offset, int count) {
    return DecodeArgs{.feed = this,
                      .first_sample = first_sample + static_cast<std::uint64_t>(offset),
                      .count = count,
                      .image_values = pixels_per_image()};
  };
  Codelet<DecodeArgs>& make_pixels =
      dataset_.has_all_sizes() ? read_image_files : copy_image_pixels;
  const TaskTag reading{.priority = kDecodePriority, .layer = -1, .slice = slice};
  std::vector<Access> accesses{write(*slot.batch.images[slice])};
  for (std::size_t part = 0; part < parts.sizes.size(); ++part) {
    const Tensor& pixels = *slot.pixels[slice][part];
    make_pixels.submit(args(parts.offsets[part], parts.sizes[part]), {write(pixels)}, reading);
    accesses.push_back(read(pixels));
  }
  // In a test set, damaged images lose their labels when they are read (damaged_images.hpp).
  std::vector<Access> labels{write(*slot.batch.labels[slice])};
  if (!options_.training) labels.insert(labels.end(), accesses.begin() + 1, accesses.end());
  read_image_labels.submit(args(0, images), labels, reading);
  unpack_batch.submit({.images = images,
                       .images_per_part = parts.sizes[0],
                       .image_values = static_cast<std::int64_t>(pixels_per_image()),
                       .counter = &decoded_slices_},
                      accesses, {.priority = kUnpackPriority, .layer = -1, .slice = slice});
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

bool DataFeed::submits(std::string_view codelet) {
  const std::array<const CodeletBase*, 5> all{&decode_batch, &read_image_files, &copy_image_pixels,
                                              &read_image_labels, &unpack_batch};
  return std::ranges::any_of(all, [&](const auto* each) { return each->name() == codelet; });
}

std::uint64_t DataFeed::batches_per_pass() const {
  const std::uint64_t batch = this->batch();
  return (dataset_.size() + batch - 1) / batch;
}

// Returns the images of a slice. At the end of a test set there are fewer than places.
std::vector<std::size_t> DataFeed::present(std::uint64_t first_sample, int count) const {
  std::uint64_t images = count;
  if (!options_.training)
    images =
        std::min(images, dataset_.size() - std::min<std::uint64_t>(first_sample, dataset_.size()));
  std::vector<std::size_t> indices(images);
  sampler_.indices(first_sample, indices);
  return indices;
}

template <class T>
void DataFeed::decode(std::uint64_t first_sample, int count, T* images,
                      std::int32_t* labels) const {
  fill(first_sample, count, images);
  read_labels(first_sample, count, labels);
  ++decoded_slices_;
}

template <class T>
void DataFeed::fill(std::uint64_t first_sample, int count, T* images) const {
  const std::vector<std::size_t> indices = present(first_sample, count);
  std::fill(images + indices.size() * pixels_per_image(), images + count * pixels_per_image(), T());
  if (Status status = fill_batch(dataset_, indices, first_sample, options_.augment, options_.seed,
                                 options_.training, options_.net_input, images);
      !status)
    report_task_error(std::move(status.error()));
}

void DataFeed::read_labels(std::uint64_t first_sample, int count, std::int32_t* labels) const {
  const std::vector<std::size_t> indices = present(first_sample, count);
  std::fill(labels, labels + count, kNoLabel);
  for (std::size_t i = 0; i < indices.size(); ++i) labels[i] = dataset_.label(indices[i]);
}

}  // namespace omni
