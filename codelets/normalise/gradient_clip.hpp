// Clipping scales all gradients of a net so that their common L2 norm is at most a limit. Tasks add
// up squares, then other tasks add up these sums as a tree. The tree depends on the sizes of the
// gradients alone, so the bits of the norm do, too.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "runtime/tasks/access.hpp"
#include "runtime/tasks/kernel.hpp"
#include "runtime/tasks/submission.hpp"

namespace omni {

inline constexpr std::size_t kMostClipped = 15;  // gradients, or sums, of one task

struct AddSquaresArgs {
  std::array<std::int64_t, kMostClipped> counts{};  // values of each source
  std::size_t sources = 0;
  bool squares = true;  // false: the sources are sums of squares

  std::span<const std::int64_t> all() const { return std::span(counts).first(sources); }
};

struct ClipArgs {
  std::array<std::int64_t, kMostClipped> counts{};  // values of each gradient
  std::size_t gradients = 0;
  float limit = 0;

  std::span<const std::int64_t> all() const { return std::span(counts).first(gradients); }
};

namespace reference {

template <class T>
T square_sum(std::int64_t count, const T* src, bool squares) {
  T sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += squares ? src[i] * src[i] : src[i];
  return sum;
}

template <class T>
void add_squares(const AddSquaresArgs& args, const Buffers& buffers) {
  T sum = 0;
  for (std::size_t i = 0; i < args.sources; ++i)
    sum += square_sum(args.counts[i], buffers.get<T>(1 + i), args.squares);
  *buffers.get<T>(0) = sum;
}

template <class T>
void clip(const ClipArgs& args, const Buffers& buffers) {
  const T norm = std::sqrt(*buffers.get<T>(0)), limit = static_cast<T>(args.limit);
  if (!(norm > limit)) return;
  for (std::size_t gradient = 0; gradient < args.gradients; ++gradient)
    for (std::int64_t i = 0; i < args.counts[gradient]; ++i)
      buffers.get<T>(1 + gradient)[i] *= limit / norm;
}

}  // namespace reference

OMNI_CODELET(AddSquaresArgs, add_squares);  // {sum W, sources R}
OMNI_CODELET(ClipArgs, clip);               // {square of the norm R, gradients RW}

// Returns the number of sums that submit_clip() needs for `gradients` gradients.
std::size_t sums_of_squares(std::size_t gradients);
// Clips the gradients to `limit`. `sums` are tensors of one value.
void submit_clip(std::span<const TensorPart> gradients, std::span<Tensor* const> sums, float limit,
                 TaskTag tag);

}  // namespace omni
