// Layout: 8 bytes header length (little endian), JSON header, then the arrays one after the other.
#include "layers/formats/safetensors.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "layers/formats/safetensors_header.hpp"
#include "runtime/files.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are written as they are in memory");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 10'000'000;  // a tenth of the reference implementation's

Error wrong_input(std::string what) {
  return {ErrorKind::failed, "safetensors", std::move(what), ""};
}

Result<std::uint64_t> byte_count(const NamedArray& array) {
  std::uint64_t count = 1;
  for (const std::int64_t dimension : array.shape) {
    if (dimension < 0 ||
        __builtin_mul_overflow(count, static_cast<std::uint64_t>(dimension), &count))
      return wrong_input(fmt::format("{} has an impossible shape", shown_name(array.name)));
  }
  if (count != array.values.size())
    return wrong_input(fmt::format("{} has {} values, its shape needs {}", shown_name(array.name),
                                   array.values.size(), count));
  return count * sizeof(float);
}

Result<std::string> header_text(std::span<const NamedArray> arrays, const Metadata& metadata) {
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::map<std::string_view, bool> names;
  std::uint64_t begin = 0;
  for (const NamedArray& array : arrays) {
    OMNI_TRY(const std::uint64_t bytes, byte_count(array));
    if (array.name == "__metadata__" || !names.emplace(array.name, true).second)
      return wrong_input(fmt::format("the name {} is taken", shown_name(array.name)));
    header.push_back(
        {array.name,
         {{"dtype", "F32"}, {"shape", array.shape}, {"data_offsets", {begin, begin + bytes}}}});
    begin += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    return wrong_input("a name or a metadata text is not UTF-8");
  }
  // Data that starts at a multiple of 8 bytes can be used in place by readers that map the file.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kLongestHeader) return wrong_input("the header is longer than readers accept");
  return text;
}

}  // namespace

const NamedArray* Safetensors::find(std::string_view name) const {
  const auto place = index_.find(name);
  return place == index_.end() ? nullptr : &arrays_[place->second];
}

Status write_safetensors(const ByteSink& sink, std::span<const NamedArray> arrays,
                         const Metadata& metadata) {
  OMNI_TRY(const std::string header, header_text(arrays, metadata));
  const std::uint64_t length = header.size();
  OMNI_CHECK(sink(std::as_bytes(std::span(&length, 1))));
  OMNI_CHECK(sink(std::as_bytes(std::span(header))));
  for (const NamedArray& array : arrays) OMNI_CHECK(sink(std::as_bytes(array.values)));
  return {};
}

// The friend that fills a Safetensors.
class SafetensorsReader {
 public:
  static Result<Safetensors> read(const ByteSource& source, std::uint64_t size,
                                  const std::string& where) {
    const auto refuse = [&](std::string what) {
      return Error{ErrorKind::data, where, std::move(what),
                   "the file is truncated, or not a safetensors file"};
    };
    if (size < kLengthBytes)
      return refuse(fmt::format("{} bytes are too few for a safetensors file", size));
    std::uint64_t length = 0;
    OMNI_CHECK(source(std::as_writable_bytes(std::span(&length, 1))));
    if (length > kLongestHeader)
      return refuse(fmt::format("claims a header of {} bytes, at most {} are accepted", length,
                                kLongestHeader));
    if (length > size - kLengthBytes)
      return refuse(
          fmt::format("claims a header of {} bytes, only {} follow", length, size - kLengthBytes));
    std::string text(length, '\0');
    OMNI_CHECK(source(std::as_writable_bytes(std::span(text))));
    const std::uint64_t data_size = size - kLengthBytes - length;
    OMNI_TRY(SafetensorsHeader header, parse_safetensors_header(text, data_size, where));

    Safetensors file;
    file.metadata_ = std::move(header.metadata);
    // The header has been checked: data_size is exactly the size of its arrays.
    const std::size_t count = data_size / sizeof(float);
    file.values_ = std::make_unique_for_overwrite<float[]>(count);
    OMNI_CHECK(source(std::as_writable_bytes(std::span(file.values_.get(), count))));
    for (SafetensorsEntry& entry : header.entries) {
      const float* values = file.values_.get() + entry.begin / sizeof(float);
      const std::size_t size_of_entry = (entry.end - entry.begin) / sizeof(float);
      file.index_.emplace(entry.name, file.arrays_.size());
      file.arrays_.push_back(
          {std::move(entry.name), std::move(entry.shape), {values, size_of_entry}});
    }
    return file;
  }
};

Result<Safetensors> read_safetensors(const ByteSource& source, std::uint64_t size,
                                     const std::string& where) {
  try {
    return SafetensorsReader::read(source, size, where);
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::out_of_memory, where,
                 fmt::format("not enough memory for its {} bytes", size), ""};
  }
}

Result<Safetensors> read_safetensors(const std::filesystem::path& path) {
  OMNI_TRY(auto file, InputFile::open(path));
  return read_safetensors([&](std::span<std::byte> bytes) { return file.read(bytes); }, file.size(),
                          path.string());
}

}  // namespace omni
