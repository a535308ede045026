// The parameters of a net as the blobs of Caffe's layers, and messages that hold them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "layers/formats/caffe/caffe_binary.hpp"
#include "layers/formats/channels_first.hpp"
#include "layers/net.hpp"

namespace omni {

// A parameter as one of its layer's blobs.
struct CaffeBlob {
  Stored stored;
  std::vector<std::int64_t> shape;
  int number() const {
    switch (stored.param->role) {
      case ParamRole::variance:
      case ParamRole::bias: return 1;
      case ParamRole::averaged: return 2;
      default: return 0;
    }
  }
};
struct BlobsOfLayer {
  std::string name, type;
  std::vector<CaffeBlob> blobs{};

  // Files have the averages of batch normalisation times how many mini-batches they hold.
  const Param* averaged() const { return blobs.size() == 3 ? blobs[2].stored.param : nullptr; }
};

// Returns the blobs in the order of the layers, and for each layer in the order of its blobs.
std::vector<BlobsOfLayer> blobs_of(const Net& net);

// Values of a parameter's tensor from a blob of its shape, and the reverse. `factor` multiplies
// what is written.
Status take_blob(const CaffeSource& source, const std::string& what, caffe_files::BlobProto& from,
                 const CaffeBlob& blob, const Tensor& to);
Status put_blob(const CaffeBlob& blob, const Tensor& from, float factor,
                caffe_files::BlobProto& to);

// A message that is written field by field. Nothing is there before commit().
class CaffeFileWriter {
 public:
  static Result<CaffeFileWriter> create(const std::filesystem::path& path);
  Status number(int field, std::uint64_t value);
  Status bytes(int field, const std::string& bytes);
  Status message(int field, const google::protobuf::MessageLite& message);
  Status commit() { return file_.commit(); }

 private:
  CaffeFileWriter(std::filesystem::path path, AtomicFile file)
      : path_(std::move(path)), file_(std::move(file)) {}
  Status write(const std::string& bytes);
  Error too_large() const;
  std::filesystem::path path_;
  AtomicFile file_;
  std::uint64_t total_ = 0;
};

}  // namespace omni
