#include "codelets/spatial/copy_channels.hpp"

#include <cstring>
#include <numeric>

#include "runtime/tasks/codelet.hpp"

namespace omni {
namespace {

void copy_vector(const CopyChannelsArgs& args, const Buffers& buffers, DeviceContext&) {
  with_values(buffers, [&]<class T>(T) {
    const T* src = buffers.get<T>(0) + args.src_offset;
    if (args.pads) std::memset(buffers.get<T>(1), 0, sizeof(T) * args.rows * args.dst_c);
    T* dst = buffers.get<T>(1) + args.dst_offset;
    const std::size_t bytes = sizeof(T) * args.c;
    if (args.c == args.src_c && args.c == args.dst_c) {
      std::memcpy(dst, src, bytes * args.rows);
      return;
    }
    for (std::int64_t i = 0; i < args.rows; ++i)
      std::memcpy(dst + i * args.dst_c, src + i * args.src_c, bytes);
  });
}

// Copies that pad are told apart by their number of channels, so that the models of others stay.
std::uint64_t footprint(const CopyChannelsArgs& args) {
  return footprint_of(args.rows, args.c, args.src_c, args.pads ? -args.dst_c : args.dst_c);
}

}  // namespace

Codelet<CopyChannelsArgs> copy_channels({
    .name = "copy_channels",
    .color = 0x7f7f7f,
    .implementations = OMNI_IMPLEMENTATIONS(copy_channels, copy_vector, 0, 1),
    .cost = cost_per_value<0, 8>,
    .footprint = footprint,
});

void submit_copy(std::int64_t count, const Tensor& src, const Tensor& dst, TaskTag tag) {
  // The values are treated as rows of c values, because a GPU spreads threads over a row.
  const auto c = static_cast<int>(std::gcd(count, std::int64_t{1024}));
  copy_channels.submit({.rows = count / c, .c = c, .src_c = c, .dst_c = c}, {read(src), write(dst)},
                       tag);
}

}  // namespace omni
