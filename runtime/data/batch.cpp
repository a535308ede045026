#include "runtime/data/batch.hpp"

#include <fmt/format.h>

#include <new>
#include <vector>

namespace omni {
namespace {

Status fill(const Dataset& dataset, std::span<const std::size_t> indices,
            std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
            bool training, Extent net_input, float* images, std::int32_t* labels) {
  thread_local std::vector<std::uint8_t> pixels;  // one worker decodes thousands of batches
  pixels.resize(dataset.extent().count());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    OMNI_CHECK(dataset.read(indices[i], pixels));
    prepare_image(pixels, dataset.extent(), options, seed, first_sample + i, training, net_input,
                  images + i * net_input.count());
    labels[i] = dataset.label(indices[i]);
  }
  return {};
}

}  // namespace

Status fill_batch(const Dataset& dataset, std::span<const std::size_t> indices,
                  std::uint64_t first_sample, const AugmentOptions& options, std::uint64_t seed,
                  bool training, Extent net_input, float* images, std::int32_t* labels) {
  if (!can_convert_channels(dataset.extent().c, net_input.c))
    return Error{ErrorKind::usage, dataset.description(),
                 fmt::format("images of {} channels for a net that wants {}", dataset.extent().c,
                             net_input.c),
                 "set channels= in [net]"};
  try {
    return fill(dataset, indices, first_sample, options, seed, training, net_input, images, labels);
  } catch (const std::bad_alloc&) {  // must not travel through StarPU
    return Error{ErrorKind::out_of_memory, dataset.description(), "no memory to decode an image",
                 ""};
  }
}

}  // namespace omni
