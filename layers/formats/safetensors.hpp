// safetensors files hold named float arrays and a dictionary of texts; many tools can read them.
// Reading trusts nothing: a file is either exactly what its header promises, or it is refused with
// the reason.
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

// Takes bytes in order, to write them anywhere (a file, a hash, a buffer).
using ByteSink = std::function<Status(std::span<const std::byte>)>;
// Fills the span with the next bytes, or fails.
using ByteSource = std::function<Status(std::span<std::byte>)>;

struct NamedArray {
  std::string name;
  std::vector<std::int64_t> shape;  // empty for one number
  std::span<const float> values;    // not owned
  // Set for writing, if the values are elsewhere: the function hands them to the sink in pieces.
  std::function<Status(const ByteSink&)> fetch{};
};

// A Safetensors object is the contents of one file. It owns the values; its arrays are views of
// them, in the order of the file.
class Safetensors {
 public:
  const Metadata& metadata() const { return metadata_; }
  const std::vector<NamedArray>& arrays() const { return arrays_; }
  const NamedArray* find(std::string_view name) const;

  // read() may throw std::bad_alloc, unlike read_safetensors().
  static Result<Safetensors> read(const ByteSource& source, std::uint64_t size,
                                  const std::string& where);

 private:
  Metadata metadata_;
  std::vector<NamedArray> arrays_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::unique_ptr<float[]> values_;
};

// Names and metadata must be unique UTF-8.
Status write_safetensors(const ByteSink& sink, std::span<const NamedArray> arrays,
                         const Metadata& metadata);

// `size` is what the source holds in total, `where` names it in errors.
Result<Safetensors> read_safetensors(const ByteSource& source, std::uint64_t size,
                                     const std::string& where);
Result<Safetensors> read_safetensors(const std::filesystem::path& path);

}  // namespace omni
