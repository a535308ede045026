// These functions write messages of protobuf as bytes, field by field, in the form of Caffe's
// files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace omni::test {

inline std::string caffe_varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string caffe_number(int field, std::uint64_t value) {
  return caffe_varint(static_cast<std::uint64_t>(field) << 3) + caffe_varint(value);
}
inline std::string caffe_bytes(int field, const std::string& bytes) {
  return caffe_varint(static_cast<std::uint64_t>(field) << 3 | 2) + caffe_varint(bytes.size()) +
         bytes;
}
inline std::string caffe_floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
inline std::string caffe_blob(const std::vector<std::uint64_t>& shape,
                              const std::vector<float>& values) {
  std::string dimensions;
  for (const std::uint64_t dimension : shape) dimensions += caffe_varint(dimension);
  return caffe_bytes(7, caffe_bytes(1, dimensions)) + caffe_bytes(5, caffe_floats(values));
}
inline std::string caffe_layer_bytes(const std::string& name,
                                     const std::vector<std::string>& blobs) {
  std::string layer = caffe_bytes(1, name);
  for (const std::string& blob : blobs) layer += caffe_bytes(7, blob);
  return caffe_bytes(100, layer);
}

}  // namespace omni::test
