#include "layers/slice_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "codelets/elementwise/accumulate.hpp"

namespace omni {
namespace {

// A task should take half a millisecond or more, which is long compared with the microseconds that
// StarPU needs. If cores would then have no work, a twentieth of that suffices.
constexpr double kFlopsPerTask = 100e6, kLeastFlopsPerTask = 5e6;
constexpr double kSmallTask = kFlopsPerTask / 8;  // flops; overlap gains less than submission costs
constexpr double kWorthCutting = 50e6;            // flops of a mini-batch
// With fewer images than this, a task of a connected layer spends more time reading weights than
// computing.
constexpr int kImagesPerTask = 16;
constexpr int kMaxSlices = 256;  // each has tensors of its own
// These limit the blocks of connected layers. A task may touch 16 tensors, one of them not a block.
constexpr std::int64_t kLarge = 1 << 20;   // weights: 4 MiB, read from memory again for every slice
constexpr std::int64_t kShared = 1 << 17;  // weights; with fewer, messages cost more than they save
constexpr int kMost = 8, kMostRanks = 15;
constexpr int kLanes = 16;  // widths are multiples; matrix products are fast if registers are full

int block_width(int outputs, int blocks) {
  const int even = (outputs + blocks - 1) / blocks;
  return std::min(outputs, (even + kLanes - 1) / kLanes * kLanes);
}

// Returns a size near `slice` for all slices. If there are more slices than cores, every core gets
// the same number of slices. Otherwise cores would wait for those with one slice more.
int evened_out(int slice, int batch, int cores) {
  int slices = (batch + slice - 1) / slice;
  if (cores > 0 && slices > cores) slices -= slices % cores;
  return (batch + slices - 1) / slices;
}

}  // namespace

int choose_slice(const NetParts& parts, int batch, int cores, bool shared) {
  // These are flops of an image. `all_flops` is of all layers. `flops` is of layers whose tasks
  // compute a slice, and `apart` of those among them for which no other slice waits.
  double all_flops = 0, flops = 0, apart = 0;
  for (const auto& layer : parts.layers) {
    const double own = layer->forward_flops_per_image();
    all_flops += own;
    if (layer->computes_in_blocks()) continue;
    flops += own;
    if (!layer->joins_slices()) apart += own;
  }
  if ((cores == 1 ? apart : flops) * batch < kWorthCutting) return batch;
  const auto layers = static_cast<double>(parts.layers.size());
  const double wanted =
      std::min(std::max(kFlopsPerTask * layers / std::max(apart, 1.0), double(kImagesPerTask)),
               double(batch));
  const int slice =
      static_cast<int>(std::bit_floor(static_cast<unsigned>(wanted))) * (shared ? 2 : 1);
  // There are at most kMaxSlices slices, and the tensors of all slices may not exceed kMaxTensors.
  const std::size_t tensors = std::max<std::size_t>(parts.tensors.count(), 1);
  const int most = static_cast<int>(std::clamp<std::size_t>(kMaxTensors / tensors, 1, kMaxSlices));
  const int smallest =
      static_cast<int>(std::bit_ceil(static_cast<unsigned>((batch + most - 1) / most)));
  const auto least =
      static_cast<int>(std::min(std::ceil(kLeastFlopsPerTask * layers / flops), double(batch)));
  // Usually a slice has at most a quarter of the mini-batch, so that tasks of different layers
  // overlap.
  const int per_core = cores > 0 ? (batch + cores - 1) / cores : batch;
  int most_images = batch / 4;
  if (cores > 4) {
    // Every core gets a slice, unless tasks would have less work than kLeastFlopsPerTask.
    most_images = std::max(least, per_core);
  } else if (cores > 0 && (shared || batch <= kImagesPerTask)) {
    // Each core gets one slice. More slices would cost more messages between ranks, or read the
    // weights for few images each.
    most_images = per_core;
  } else if (cores > 0 && most_images * all_flops < kSmallTask * layers) {
    // Tasks of a quarter of the mini-batch would be small. Each of several cores gets one slice, a
    // single core gets two.
    most_images = std::max(most_images, std::min(batch / 2, per_core));
  }
  const int size = std::max(smallest, std::min(slice, std::max(1, most_images)));
  return evened_out(size, batch, cores);
}

Result<Slices> share_slices(int batch, const std::vector<int>& slices, const RankShares& shares,
                            bool alike) {
  const int slice = slices.front(), ranks = shares.ranks;
  if (slice < 0 || slice > batch)
    return Error{ErrorKind::usage, "--slice",
                 fmt::format("{} images do not fit a mini-batch of {}", slice, batch),
                 "0 lets the net choose"};
  if (batch < ranks)
    return Error{ErrorKind::usage, "", fmt::format("{} ranks cannot share {} images", ranks, batch),
                 "raise batch, or start fewer ranks"};
  const auto size = [&](int other) {
    return slices.size() == 1 ? slice : slices[static_cast<std::size_t>(other)];
  };
  if (!alike)
    return Slices::cut_share(
        shares.rank, ranks, [&](int other) { return shares.first_of(other, batch); }, size);
  const int all = (batch + slice - 1) / slice, leaves = std::min(all, kMostLeaves);
  if (ranks > kMostLeaves)
    return Error{
        ErrorKind::usage, "--deterministic",
        fmt::format("{} ranks would share each mini-batch, {} are the most", ranks, kMostLeaves),
        "start fewer ranks, or take more groups"};
  if (ranks > leaves)
    return Error{
        ErrorKind::usage, "--deterministic",
        fmt::format("{} ranks cannot share slices of {} of {} images", ranks, slice, batch),
        fmt::format("--slice {}, say", batch / ranks)};
  const auto begin = [&](int other) {
    const int leaf = first_of_share(other, ranks, leaves, shares.weights);
    return std::min(batch, slice * first_of_leaf(leaf, all, leaves));
  };
  Slices cut = Slices::cut_share(shares.rank, ranks, begin, size);
  cut.as_one_rank = true;
  return cut;
}

GradientSums fixed_gradient_sums(const Slices& slices) {
  const auto all = static_cast<int>(slices.all_sizes.size());
  const int leaves = std::min(all, kMostLeaves), last = slices.first + slices.count() - 1;
  const Leaves own{leaf_of(slices.first, all, leaves), leaf_of(last, all, leaves) + 1};
  return {own.end - own.first, leaves, own, slices.first, all};
}

GradientSums choose_gradient_sums(int slices, int cores, int gpus) {
  const int workers = cores + gpus;
  if (cores == 0 || workers <= 2) return {};
  return {std::clamp(slices / (1 + gpus), 1, std::min(workers, 1 + kMostSources))};
}

ConnectedBlocks choose_connected_blocks(const ConnectedShares& of, int slices) {
  const std::int64_t weights = std::int64_t{of.inputs} * of.outputs;
  const int blocks = weights < kLarge                     ? 1
                     : of.ranks == 1 && slices <= of.gpus ? std::min(of.gpus, kMost)
                                                          : kMost;
  return {.width = block_width(of.outputs, blocks)};
}

ConnectedBlocks divide_neurons(const ConnectedShares& of) {
  const int ranks = std::min(of.ranks, kMostRanks);
  const std::int64_t weights = std::int64_t{of.inputs} * of.outputs,
                     sent = std::int64_t{of.images} * (of.inputs + of.outputs / ranks);
  const bool pays = ranks > 1 && weights >= kShared && weights > sent;
  const int workers = of.gpus > 0 ? of.gpus : of.cores;
  for (int each = std::clamp(workers, 1, kMost); pays && each > 0; --each) {
    const int width = block_width(of.outputs, ranks * each);
    const bool for_all = of.outputs > width * each * (ranks - 1);  // a block, at least
    if (for_all || (each == 1 && width < of.outputs)) return {.width = width, .per_rank = each};
  }
  return choose_connected_blocks(of, 1);
}

std::size_t piece_values(std::size_t values, std::size_t all, int ranks) {
  // A piece may have fewer values if there are more ranks, as its owner sends it to every other
  // rank. kLeast and kUnit are numbers of values.
  constexpr std::size_t kLeast = 65536, kUnit = 64;
  const auto sharers = static_cast<std::size_t>(std::clamp(ranks, 4, 16));
  const std::size_t wanted =
      std::max(kLeast / sharers, all / (2 * static_cast<std::size_t>(ranks)));
  const std::size_t pieces = std::max<std::size_t>((values + wanted / 2) / wanted, 1);
  const std::size_t each = (values + pieces - 1) / pieces;
  return (each + kUnit - 1) / kUnit * kUnit;
}

int ranks_in_a_row(int ranks) {
  int row = ranks < 8 ? 1 : static_cast<int>(std::sqrt(ranks));
  while (ranks % row != 0) --row;
  return row;
}

}  // namespace omni
