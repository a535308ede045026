#include "runtime/data/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <vector>

namespace omni {
namespace {

// Calls `use(i, prepare)` for every image; prepare(dst) writes what the net sees of it.
template <class Use>
Status for_each_image(const Dataset& dataset, std::span<const std::size_t> indices,
                      std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
                      bool training, Extent net_input, Use use) {
  OMNI_CHECK(check_input(options, dataset.extent(), net_input, dataset.description()));
  AugmentOptions fitting = options;
  fitting.all_sizes = dataset.has_all_sizes();
  try {
    thread_local Image image;  // one worker decodes thousands of batches
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::uint64_t sample = first_sample + i;
      const LeastSize least = least_size(fitting, seed, sample, training, net_input);
      OMNI_CHECK(dataset.read(indices[i], least, image));
      use(i, [&](float* dst) {
        prepare_image(image.pixels, image.extent, fitting, seed, sample, training, net_input, dst);
      });
    }
  } catch (const std::bad_alloc&) {  // must not travel through StarPU
    return Error{ErrorKind::out_of_memory, dataset.description(), "no memory to decode an image",
                 ""};
  }
  return {};
}

// `as(value)` is what is kept of a float.
template <class T, class As>
Status fill_as(const Dataset& dataset, std::span<const std::size_t> indices,
               std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
               bool training, Extent net_input, T* images, As as) {
  return for_each_image(dataset, indices, first_sample, options, seed, training, net_input,
                        [&](std::size_t i, auto prepare) {
                          thread_local std::vector<float> values;
                          values.resize(net_input.count());
                          prepare(values.data());
                          std::ranges::transform(values, images + i * values.size(), as);
                        });
}

}  // namespace

Status fill_batch(const Dataset& dataset, std::span<const std::size_t> indices,
                  std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
                  bool training, Extent net_input, float* images) {
  return for_each_image(
      dataset, indices, first_sample, options, seed, training, net_input,
      [&](std::size_t i, auto prepare) { prepare(images + i * net_input.count()); });
}

Status fill_batch(const Dataset& dataset, std::span<const std::size_t> indices,
                  std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
                  bool training, Extent net_input, Bf16* images) {
  return fill_as(dataset, indices, first_sample, options, seed, training, net_input, images,
                 [](float value) { return Bf16(value); });
}

Status fill_pixels(const Dataset& dataset, std::span<const std::size_t> indices,
                   std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
                   bool training, Extent net_input, std::uint8_t* images) {
  return fill_as(dataset, indices, first_sample, options, seed, training, net_input, images,
                 [](float value) { return static_cast<std::uint8_t>(value * 255 + 0.5f); });
}

}  // namespace omni
