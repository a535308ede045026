#include "layers/formats/darknet_weights.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "layers/formats/darknet_weights_codec.hpp"
#include "runtime/log.hpp"

namespace omni {
namespace {

// Visits every value of the matrix by its index here (spatial, channels) and in the file (channels,
// spatial).
void for_each_value(const Param& param, auto visit) {
  const std::int64_t inner = param.spatial * param.channels;
  for (std::int64_t row = 0; row < param.rows; ++row)
    for (std::int64_t s = 0; s < param.spatial; ++s)
      for (std::int64_t c = 0; c < param.channels; ++c)
        visit(row * inner + s * param.channels + c, row * inner + c * param.spatial + s);
}

// Old files may hold a connected matrix as (inputs, outputs).
void untranspose(const Param& param, std::vector<float>& values) {
  const std::size_t rows = param.rows;
  const std::size_t columns = values.size() / rows;
  std::vector<float> turned(values.size());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      turned[row * columns + column] = values[column * rows + row];
  values = std::move(turned);
}

std::vector<Param*> stored(Net& net) {
  std::vector<Param*> params;
  for (Param* param : net.params()) {
    if (param->in_weights_file)
      params.push_back(param);
    else
      log::warn("{}: Darknet's .weights have no place for it (keep a checkpoint instead)",
                param->name);
  }
  return params;
}

}  // namespace

Status load_darknet_weights(Net& net, const std::filesystem::path& path) {
  OMNI_TRY(DarknetWeightsReader reader, DarknetWeightsReader::open(path));
  std::vector<Param*> params = stored(net);
  // Behind the last layer that loads, the file may go on as it likes: weights of a net with other
  // classes, say, or none.
  const std::size_t all = params.size();
  while (!params.empty() && !params.back()->load) params.pop_back();
  std::uint64_t count = 0;
  for (const Param* param : params) count += param->master->count();
  OMNI_CHECK(reader.expect(count, params.size() < all));
  std::vector<float> block;
  for (const Param* param : params) {
    block.resize(param->master->count());
    OMNI_CHECK(reader.read(block, param->name));
    if (!param->load) continue;
    if (param->connected && reader.header().transposed()) untranspose(*param, block);
    const HostAccess access(*param->master, HostAccess::Mode::write);
    for_each_value(
        *param, [&](std::size_t ours, std::size_t theirs) { access.f32()[ours] = block[theirs]; });
  }
  return {};
}

Status save_darknet_weights(Net& net, const std::filesystem::path& path,
                            std::uint64_t images_seen) {
  OMNI_TRY(AtomicFile file, create_darknet_weights(path, {.seen = images_seen}));
  std::vector<float> block;
  for (const Param* param : stored(net)) {
    block.resize(param->master->count());
    const HostAccess access(*param->master, HostAccess::Mode::read);
    for_each_value(
        *param, [&](std::size_t ours, std::size_t theirs) { block[theirs] = access.f32()[ours]; });
    if (!std::ranges::all_of(block, [](float value) { return std::isfinite(value); }))
      return Error{ErrorKind::diverged, path.string(),
                   param->name + " holds values that are not finite", "nothing was written"};
    OMNI_CHECK(file.write(std::as_bytes(std::span(block))));
  }
  return file.commit();
}

}  // namespace omni
