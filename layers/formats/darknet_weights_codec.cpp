// The format itself checks nothing, so every read is weighed against the bytes that are left.
#include "layers/formats/darknet_weights_codec.hpp"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <utility>

namespace omni {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are written as they are in memory");

// No Darknet ever wrote a version beyond this; such a file is something else.
constexpr std::int32_t kLargestVersion = 9999;

std::span<std::byte> bytes_of(auto& value) { return std::as_writable_bytes(std::span(&value, 1)); }
std::span<const std::byte> bytes_of(const auto& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

bool DarknetWeightsHeader::wide_seen() const {
  return std::int64_t{major} * 10 + minor >= 2 && major < 1000 && minor < 1000;
}

bool DarknetWeightsHeader::transposed() const { return major > 1000 || minor > 1000; }

Result<DarknetWeightsReader> DarknetWeightsReader::open(const std::filesystem::path& path) {
  OMNI_TRY(auto file, InputFile::open(path));
  DarknetWeightsReader reader(path, std::move(file));
  OMNI_CHECK(reader.read_header());
  return reader;
}

DarknetWeightsReader::DarknetWeightsReader(std::filesystem::path path, InputFile file)
    : path_(std::move(path)), file_(std::move(file)), remaining_(file_.size()) {}

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
  // The format has no names: too many values are the only sign of another network's.
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
