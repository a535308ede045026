// This header reads Caffe's binary files, which are protobuf messages: nets with their parameters,
// and blobs. A file is read field by field, so that memory holds one layer at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/augment.hpp"
#include "runtime/files.hpp"
#include "runtime/result.hpp"

namespace google::protobuf {
class MessageLite;
}

namespace omni {

namespace caffe_files {
class BlobProto;
}

inline constexpr std::uint64_t kMostCaffeBytes = 0x7fff'ffff;  // protobuf counts in an int

// A CaffeSource reads a message from any source. `number` gets the fields that are whole numbers,
// and `bytes` gets texts and messages. Other fields are skipped.
struct CaffeSource {
  std::string where;
  std::uint64_t size = 0;
  std::function<Status(std::span<std::byte>)> read;

  static Result<CaffeSource> open(const std::filesystem::path& path);
  Error damaged(std::string what) const;
};
using OfNumber = std::function<void(int field, std::int64_t value)>;
using OfBytes = std::function<Status(int field, const std::string& bytes)>;
Status read_caffe_message(const CaffeSource& source, const OfNumber& number, const OfBytes& bytes);
// Parses the bytes of a field into the message `into`.
Status parse_caffe_message(const CaffeSource& source, const std::string& bytes,
                           google::protobuf::MessageLite& into);

// Calls `use` for each layer of a net in a file, in their order. A file without layers is refused.
inline constexpr int kCaffeNetName = 1, kCaffeOldLayers = 2, kCaffeLayers = 100;  // its fields
using CaffeBlobs = std::span<caffe_files::BlobProto* const>;
using OfLayer = std::function<Status(const std::string& name, CaffeBlobs)>;
Status for_each_caffe_layer(const CaffeSource& source, const OfLayer& use);

// Returns the dimensions of a blob. In files of Caffe's old format there are always four.
std::vector<std::int64_t> shape_of(const caffe_files::BlobProto& blob);
// Returns whether a blob holds values of this shape. In files of the old format, dimensions of 1
// may precede it.
bool has_shape(const caffe_files::BlobProto& blob, std::span<const std::int64_t> shape);
// Returns the values of a blob. Refuses a blob that does not have `count` values.
Result<std::vector<float>> values_of(caffe_files::BlobProto& blob, std::uint64_t count,
                                     const CaffeSource& source, const std::string& what);
// Reads the mean image from a file that Caffe's compute_image_mean made.
Result<MeanImage> read_caffe_mean(const std::filesystem::path& path);
Status save_caffe_mean(const MeanImage& mean, const std::filesystem::path& path);
Result<MeanImage> parse_caffe_mean(const std::string& bytes, const CaffeSource& source);
std::string shape_text(std::span<const std::int64_t> shape);  // "20x1x5x5"

}  // namespace omni
