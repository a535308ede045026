#include "codelets/normalise/gradient_clip.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "runtime/tasks/codelet.hpp"
#include "runtime/tasks/tensor.hpp"

namespace omni {
namespace {

// Adds up in double precision, in lanes that a vector unit adds at the same time.
double square_sum_in_lanes(std::int64_t count, const float* src, bool squares) {
  constexpr std::int64_t kLanes = 16;
  std::array<double, kLanes> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = static_cast<double>(src[i + lane]);
      sums[lane] += squares ? value * value : value;
    }
  for (; i < count; ++i) {
    const double value = static_cast<double>(src[i]);
    sums[i % kLanes] += squares ? value * value : value;
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void add_squares_vector(const AddSquaresArgs& args, const Buffers& buffers, DeviceContext&) {
  double sum = 0;
  for (std::size_t i = 0; i < args.sources; ++i)
    sum += square_sum_in_lanes(args.counts[i], buffers.get(1 + i), args.squares);
  *buffers.get(0) = static_cast<float>(sum);
}

void clip_vector(const ClipArgs& args, const Buffers& buffers, DeviceContext&) {
  const float norm = std::sqrt(*buffers.get(0));
  if (!(norm > args.limit)) return;
  const float scale = args.limit / norm;
  for (std::size_t gradient = 0; gradient < args.gradients; ++gradient) {
    float* const values = buffers.get(1 + gradient);
    for (std::int64_t i = 0; i < args.counts[gradient]; ++i) values[i] *= scale;
  }
}

template <class Args, void (*compute)(const Args&, const Buffers&)>
void by_reference(const Args& args, const Buffers& buffers, DeviceContext&) {
  compute(args, buffers);
}

std::int64_t values_of_all(const auto& args) {
  return std::accumulate(args.all().begin(), args.all().end(), std::int64_t{0});
}

template <int flops, int bytes>
Cost cost_of_all(const auto& args) {
  const auto count = static_cast<double>(values_of_all(args));
  return {.flops = flops * count, .bytes = bytes * count};
}

std::uint64_t footprint_of_all(const auto& args) {
  return footprint_of(values_of_all(args), static_cast<std::int64_t>(args.all().size()));
}

}  // namespace

Codelet<AddSquaresArgs> add_squares(
    {.name = "add_squares",
     .color = 0xE9C46A,
     .implementations = {{"vector", add_squares_vector},
                         {"reference", by_reference<AddSquaresArgs, reference::add_squares<float>>,
                          nullptr, Role::reference},
                         OMNI_GPU_IMPLEMENTATION(gpu::add_squares)},
     .cost = cost_of_all<2, 4>,
     .footprint = footprint_of_all});
Codelet<ClipArgs> clip({.name = "clip",
                        .color = 0xF4A261,
                        .implementations = {{"vector", clip_vector},
                                            {"reference",
                                             by_reference<ClipArgs, reference::clip<float>>,
                                             nullptr, Role::reference},
                                            OMNI_GPU_IMPLEMENTATION(gpu::clip)},
                        .cost = cost_of_all<1, 8>,
                        .footprint = footprint_of_all});

std::size_t sums_of_squares(std::size_t gradients) {
  std::size_t all = 0;
  do {
    gradients = (gradients + kMostClipped - 1) / kMostClipped;
    all += gradients;
  } while (gradients > 1);
  return all;
}

void submit_clip(std::span<const TensorPart> gradients, std::span<Tensor* const> sums, float limit,
                 TaskTag tag) {
  const auto for_each_task = [](std::span<const TensorPart> parts, auto submit) {
    for (std::size_t first = 0; first < parts.size(); first += kMostClipped)
      submit(parts.subspan(first, std::min(kMostClipped, parts.size() - first)));
  };
  std::vector<TensorPart> level(gradients.begin(), gradients.end());
  std::size_t next = 0;  // index of the next unused sum
  for (bool squares = true; squares || level.size() > 1; squares = false) {
    std::vector<TensorPart> above;
    for_each_task(level, [&](std::span<const TensorPart> sources) {
      above.emplace_back(*sums[next++]);
      AddSquaresArgs args{.sources = sources.size(), .squares = squares};
      std::vector<Access> accesses{write(above.back())};
      for (std::size_t i = 0; i < sources.size(); ++i) {
        args.counts[i] = static_cast<std::int64_t>(sources[i].count());
        accesses.push_back(read(sources[i]));
      }
      add_squares.submit(args, accesses, tag);
    });
    level = above;
  }
  for_each_task(gradients, [&](std::span<const TensorPart> parts) {
    ClipArgs args{.gradients = parts.size(), .limit = limit};
    std::vector<Access> accesses{read(level.front())};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      args.counts[i] = static_cast<std::int64_t>(parts[i].count());
      accesses.push_back(read_write(parts[i]));
    }
    clip.submit(args, accesses, tag);
  });
}

}  // namespace omni
