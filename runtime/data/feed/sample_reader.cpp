#include "runtime/data/feed/sample_reader.hpp"

#include <cassert>
#include <concepts>
#include <new>

#include "runtime/data/images/resize.hpp"
#include "runtime/tasks/slices.hpp"
#include "runtime/tasks/task_errors.hpp"

namespace omni {

namespace {

constexpr std::uint64_t kNextInput = 0x9E3779B97F4A7C15;  // is added to the seed

// Prepares one input of samples. read(sample, least, image) reads it. The values of a sample are
// `stride` behind those of the sample before.
template <class T>
Status fill_input(std::size_t samples, std::uint64_t first_sample, const AugmentOptions& options,
                  std::uint64_t seed, bool training, Extent extent, T* values, std::size_t stride,
                  const auto& read) {
  thread_local Image image;  // kept, because a worker decodes thousands of images
  thread_local std::vector<float> floats;
  for (std::size_t i = 0; i < samples; ++i, values += stride) {
    const std::uint64_t sample = first_sample + i;
    image.values.clear();
    OMNI_CHECK(read(i, least_size(options, seed, sample, training, extent), image));
    // Caffe's tools, too, resize image files to the size of the mean.
    if (const MeanImage* mean = options.mean_image.get();
        mean != nullptr && options.all_sizes &&
        (image.extent.h != mean->extent.h || image.extent.w != mean->extent.w))
      image = resized(image, mean->extent.h, mean->extent.w);
    const auto prepare = [&](float* dst) {
      if (!image.values.empty()) return void(std::ranges::copy(image.values, dst));
      prepare_image(image.pixels, image.extent, options, seed, sample, training, extent, dst);
    };
    if constexpr (std::same_as<T, float>) {
      prepare(values);
    } else {
      floats.resize(extent.count());
      prepare(floats.data());
      constexpr bool kPixels = std::same_as<T, std::uint8_t>;
      std::ranges::transform(floats, values, [](float value) {
        return static_cast<T>(kPixels ? value * 255 + 0.5f : value);
      });
    }
  }
  return {};
}

}  // namespace

template <class T>
Status fill_batch(const Dataset& dataset, std::span<const std::size_t> indices,
                  std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
                  bool training, Extent net_input, T* images) {
  if constexpr (std::same_as<T, std::uint8_t>) assert(!options.byte_values);
  OMNI_CHECK(check_input(options, dataset.extent(), net_input, dataset.description()));
  const std::size_t stride = net_input.count();
  try {
    if (options.parts.empty()) {
      AugmentOptions fitting = options;
      fitting.all_sizes = dataset.has_all_sizes();
      return fill_input(indices.size(), first_sample, fitting, seed, training, net_input, images,
                        stride, [&](std::size_t i, LeastSize least, Image& image) {
                          return dataset.read(indices[i], least, image);
                        });
    }
    // Every input has its own draws, as Caffe's layers of data have.
    for (std::size_t part = 0; part < options.parts.size(); ++part) {
      const Extent& extent = options.parts[part].extent;
      AugmentOptions fitting = options.parts[part].augment;
      fitting.all_sizes = dataset.part(part).has_all_sizes();
      OMNI_CHECK(fill_input(indices.size(), first_sample, fitting, seed + part * kNextInput,
                            training, extent, images, stride,
                            [&](std::size_t i, LeastSize least, Image& image) {
                              return dataset.read_part(indices[i], part, least, image);
                            }));
      images += extent.count();
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

// Returns the indices of the samples from first_sample on: `count` of them, or fewer at the end of
// a test set.
std::vector<std::size_t> SampleReader::present(std::uint64_t first_sample, int count) const {
  std::uint64_t images = count;
  if (!options_.training)
    images =
        std::min(images, dataset_.size() - std::min<std::uint64_t>(first_sample, dataset_.size()));
  std::vector<std::size_t> indices(images);
  sampler_.indices(first_sample, indices);
  return indices;
}

template <class T>
void SampleReader::fill(std::uint64_t first_sample, int count, T* samples) const {
  const std::vector<std::size_t> indices = present(first_sample, count);
  const std::size_t values = values_per_sample();
  std::fill(samples + indices.size() * values, samples + count * values, T());
  if (Status status = fill_batch(dataset_, indices, first_sample, options_.augment, options_.seed,
                                 options_.training, options_.net_input, samples);
      !status)
    report_task_error(std::move(status.error()));
}

template void SampleReader::fill(std::uint64_t, int, float*) const;
template void SampleReader::fill(std::uint64_t, int, Bf16*) const;
template void SampleReader::fill(std::uint64_t, int, std::uint8_t*) const;

void SampleReader::read_labels(std::uint64_t first_sample, int count, std::int32_t* labels) const {
  const std::vector<std::size_t> indices = present(first_sample, count);
  std::fill(labels, labels + count, kNoLabel);
  for (std::size_t i = 0; i < indices.size(); ++i) labels[i] = dataset_.label(indices[i]);
}

}  // namespace omni
