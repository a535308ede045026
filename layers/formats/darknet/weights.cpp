// This file reads and writes parameters in Darknet's .weights files.
#include "layers/formats/darknet/darknet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "layers/formats/channels_first.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/host_access.hpp"

namespace omni {
namespace {

// Transposes a matrix of a connected layer, which old files may hold as (inputs, outputs).
void untranspose(const Stored& of, std::vector<float>& values) {
  const std::size_t rows = of.rows;
  const std::size_t columns = values.size() / rows;
  std::vector<float> turned(values.size());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      turned[row * columns + column] = values[column * rows + row];
  values = std::move(turned);
}

}  // namespace

bool has_place_in_darknet(const Layer& layer, const Param& param) {
  const bool is_normalisation = layer.type() == "batchnorm";
  return param.role != ParamRole::averaged && layer.type() != "prelu" &&
         !(is_normalisation && param.role == ParamRole::bias);
}

namespace {

// Returns the parameters of a net in the order of Darknet's layers.
std::vector<Stored> stored(const Net& net) {
  constexpr std::array kUsual{ParamRole::bias,     ParamRole::scale,   ParamRole::mean,
                              ParamRole::variance, ParamRole::weights, ParamRole::averaged},
      kConnected{ParamRole::bias, ParamRole::weights,  ParamRole::scale,
                 ParamRole::mean, ParamRole::variance, ParamRole::averaged};
  std::vector<Stored> all;
  for (const auto& layer : net.layers()) {
    const bool connected = layer->type() == "connected";
    for (const ParamRole role : connected ? kConnected : kUsual)
      for (Param* param : layer->params()) {
        if (param->role != role) continue;
        if (!has_place_in_darknet(*layer, *param))
          log::warn("{}: Darknet's .weights have no place for it (keep a checkpoint instead)",
                    param->name);
        else
          all.emplace_back(*param, connected && role == ParamRole::weights);
      }
  }
  return all;
}

// The functions below read and write the bytes of the file. The format has no checksum, so every
// read first compares its size with the bytes left.

static_assert(std::endian::native == std::endian::little,
              "values are written as they are in memory");

// No Darknet ever wrote a version beyond this. A file with a larger one is something else.
constexpr std::int32_t kLargestVersion = 9999;

std::span<std::byte> bytes_of(auto& value) { return std::as_writable_bytes(std::span(&value, 1)); }
std::span<const std::byte> bytes_of(const auto& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Status load_darknet_weights(Net& net, const std::filesystem::path& path) {
  OMNI_TRY(DarknetWeightsReader reader, DarknetWeightsReader::open(path));
  std::vector<Stored> params = stored(net);
  // Behind the last layer that is loaded, the file may hold anything, for example the weights of a
  // net with other classes.
  const std::size_t all = params.size();
  while (!params.empty() && !params.back().param->load) params.pop_back();
  std::uint64_t count = 0;
  for (const Stored& each : params) count += each.param->master->count();
  OMNI_CHECK(reader.expect(count, params.size() < all));
  std::vector<float> block;
  for (const Stored& each : params) {
    const Param& param = *each.param;
    block.resize(param.master->count());
    OMNI_CHECK(reader.read(block, param.name));
    if (!param.load) continue;
    if (each.connected && reader.header().transposed()) untranspose(each, block);
    const HostAccess access(*param.master, HostAccess::Mode::write);
    for_each_value(
        each, [&](std::size_t ours, std::size_t theirs) { access.f32()[ours] = block[theirs]; });
  }
  // The file does not say over how many mini-batches its averages were taken, so they count as one.
  for (const Param* param : net.params())
    if (param->role == ParamRole::averaged && param->load)
      std::ranges::fill(HostAccess(*param->master, HostAccess::Mode::write).f32(), 1.0f);
  return {};
}

Status save_darknet_weights(Net& net, const std::filesystem::path& path,
                            std::uint64_t images_seen) {
  OMNI_TRY(AtomicFile file, create_darknet_weights(path, {.seen = images_seen}));
  std::vector<float> block;
  for (const Stored& each : stored(net)) {
    const Param& param = *each.param;
    block.resize(param.master->count());
    const HostAccess access(*param.master, HostAccess::Mode::read);
    for_each_value(
        each, [&](std::size_t ours, std::size_t theirs) { block[theirs] = access.f32()[ours]; });
    if (!std::ranges::all_of(block, [](float value) { return std::isfinite(value); }))
      return Error{ErrorKind::diverged, path.string(),
                   param.name + " holds values that are not finite", "nothing was written"};
    OMNI_CHECK(file.write(std::as_bytes(std::span(block))));
  }
  return file.commit();
}

Result<DarknetWeightsReader> DarknetWeightsReader::open(const std::filesystem::path& path) {
  OMNI_TRY(auto file, InputFile::open(path));
  DarknetWeightsReader reader(path, std::move(file));
  OMNI_CHECK(reader.read_header());
  return reader;
}

Status DarknetWeightsReader::read_header() {
  const auto take = [&](std::span<std::byte> bytes) -> Status {
    if (bytes.size() > remaining_)
      return Error{ErrorKind::data, path_.string(),
                   fmt::format("{} bytes are too few for the header of a Darknet weights file",
                               file_.size()),
                   "the file is truncated, or of another kind"};
    remaining_ -= bytes.size();
    return file_.read(bytes);
  };
  OMNI_CHECK(take(bytes_of(header_.major)));
  OMNI_CHECK(take(bytes_of(header_.minor)));
  OMNI_CHECK(take(bytes_of(header_.revision)));
  if (header_.major < 0 || header_.major > kLargestVersion || header_.minor < 0 ||
      header_.minor > kLargestVersion)
    return Error{
        ErrorKind::data, path_.string(),
        fmt::format("version {}.{} is none that Darknet writes", header_.major, header_.minor),
        "is this a Darknet weights file?"};
  if (header_.wide_seen()) return take(bytes_of(header_.seen));
  std::uint32_t seen = 0;
  OMNI_CHECK(take(bytes_of(seen)));
  header_.seen = seen;
  return {};
}

Status DarknetWeightsReader::expect(std::uint64_t float_count, bool more_may_follow) const {
  std::uint64_t needed = 0;
  if (__builtin_mul_overflow(float_count, sizeof(float), &needed))
    needed = std::numeric_limits<std::uint64_t>::max();
  if (needed > remaining_)
    return Error{ErrorKind::data, path_.string(),
                 fmt::format("the network needs {} bytes of weights, the file has only {}", needed,
                             remaining_),
                 "the file is truncated, or belongs to another network"};
  // The format has no names. Only a wrong number of values shows that the file belongs to another
  // net.
  if (needed < remaining_ && !more_may_follow)
    return Error{
        ErrorKind::data, path_.string(),
        fmt::format("the network needs {} bytes of weights, the file has {}", needed, remaining_),
        "the file belongs to another network; with dontload=1 in the last layers, the "
        "others are loaded from its beginning"};
  return {};
}

Status DarknetWeightsReader::read(std::span<float> block, std::string_view what) {
  if (block.size_bytes() > remaining_)
    return Error{
        ErrorKind::data, path_.string(),
        fmt::format("{} needs {} bytes, only {} are left", what, block.size_bytes(), remaining_),
        "the file is truncated, or belongs to another network"};
  OMNI_CHECK(file_.read(std::as_writable_bytes(block)));
  remaining_ -= block.size_bytes();
  return {};
}

Result<AtomicFile> create_darknet_weights(const std::filesystem::path& path,
                                          const DarknetWeightsHeader& header) {
  OMNI_TRY(auto file, AtomicFile::create(path));
  OMNI_CHECK(file.write(bytes_of(header.major)));
  OMNI_CHECK(file.write(bytes_of(header.minor)));
  OMNI_CHECK(file.write(bytes_of(header.revision)));
  const auto narrow_seen = static_cast<std::uint32_t>(header.seen);  // wraps, as Darknet's int does
  OMNI_CHECK(header.wide_seen() ? file.write(bytes_of(header.seen))
                                : file.write(bytes_of(narrow_seen)));
  return file;
}

}  // namespace omni
