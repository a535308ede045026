#include "runtime/data/batch.hpp"

#include <algorithm>
#include <concepts>
#include <new>
#include <vector>

namespace omni {

template <class T>
Status fill_batch(const Dataset& dataset, std::span<const std::size_t> indices,
                  std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
                  bool training, Extent net_input, T* images) {
  OMNI_CHECK(check_input(options, dataset.extent(), net_input, dataset.description()));
  AugmentOptions fitting = options;
  fitting.all_sizes = dataset.has_all_sizes();
  try {
    thread_local Image image;  // one worker decodes thousands of batches
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
  } catch (const std::bad_alloc&) {  // must not travel through StarPU
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

}  // namespace omni
