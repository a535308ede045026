// These functions treat the parameters of a net as the blobs of Caffe's layers, and read and write
// messages that hold them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "layers/formats/caffe/caffe.hpp"
#include "layers/formats/caffe/caffe_binary.hpp"
#include "layers/formats/channels_first.hpp"
#include "layers/net.hpp"

namespace omni {

// A CaffeBlob is a parameter as one of the blobs of a Caffe layer.
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

  // Returns the parameter that counts mini-batches of batch normalisation, or null. Files have the
  // averages of mean and variance multiplied by this count.
  const Param* averaged() const { return blobs.size() == 3 ? blobs[2].stored.param : nullptr; }
};

// Returns the blobs in the order of the layers, and for each layer in the order of its blobs.
std::vector<BlobsOfLayer> blobs_of(const Net& net);

// take_blob() reads values of a parameter's tensor from a blob of its shape; the other function
// writes them to a blob. `factor` multiplies what is written.
Status take_blob(const CaffeSource& source, const std::string& what, caffe_files::BlobProto& from,
                 const CaffeBlob& blob, const Tensor& to);
Status put_blob(const CaffeBlob& blob, const Tensor& from, float factor,
                caffe_files::BlobProto& to);

// Reads a .solverstate. `of_history` gets each entry of the solver's history.
using OfHistory = std::function<Status(caffe_files::BlobProto&)>;
Result<CaffeSnapshot> read_caffe_snapshot(const CaffeSource& source, const OfHistory& of_history);

// A CaffeFileWriter writes a message field by field. The file exists only after commit().
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
