// A safetensors file holds named float arrays and a dictionary of texts. Many tools can read it. A
// file that is not exactly what its header says is refused with the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

using Metadata = std::map<std::string, std::string, std::less<>>;

// A ByteSink takes bytes in order, to write them to a file, a hash or a buffer.
using ByteSink = std::function<Status(std::span<const std::byte>)>;
// A ByteSource fills the span with the next bytes, or returns an error.
using ByteSource = std::function<Status(std::span<std::byte>)>;

struct NamedArray {
  std::string name;
  std::vector<std::int64_t> shape;  // empty for one number
  std::span<const float> values;    // not owned
  // `fetch` is set for writing if the values are not in memory: it passes them to the sink in
  // pieces.
  std::function<Status(const ByteSink&)> fetch{};
};

// A Safetensors object is the contents of one file. It owns the values; its arrays are views of
// them, in the order of the file.
class Safetensors {
 public:
  const Metadata& metadata() const { return metadata_; }
  const std::vector<NamedArray>& arrays() const { return arrays_; }
  const NamedArray* find(std::string_view name) const;

  // Reads a file. Unlike read_safetensors(), this function may throw std::bad_alloc.
  static Result<Safetensors> read(const ByteSource& source, std::uint64_t size,
                                  const std::string& where);

 private:
  Metadata metadata_;
  std::vector<NamedArray> arrays_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::unique_ptr<float[]> values_;
};

// Writes a file to the sink. Names and metadata must be unique UTF-8.
Status write_safetensors(const ByteSink& sink, std::span<const NamedArray> arrays,
                         const Metadata& metadata);

// Reads a file from the source, which holds `size` bytes in total. Errors name it `where`.
Result<Safetensors> read_safetensors(const ByteSource& source, std::uint64_t size,
                                     const std::string& where);
Result<Safetensors> read_safetensors(const std::filesystem::path& path);

}  // namespace omni
