#include "layers/formats/caffe/caffe_blobs.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "layers/formats/caffe/caffe_files.pb.h"
#include "runtime/tasks/host_access.hpp"

namespace omni {
namespace {

std::vector<std::int64_t> caffe_shape(const Param& param, bool connected) {
  const std::vector<std::int64_t>& own = param.shape;
  if (own.size() == 2 && param.role == ParamRole::weights && !connected)
    return {};  // the slope that all channels of a PReLU share
  if (param.role == ParamRole::averaged) return {1};  // the same for all channels
  if (connected && own.size() == 4) return {own[0], own[1] * own[2] * own[3]};
  if (own.size() == 4) return {own[0], own[3], own[1], own[2]};
  return own;
}

}  // namespace

std::vector<BlobsOfLayer> blobs_of(const Net& net) {
  std::vector<BlobsOfLayer> layers;
  for (const auto& layer : net.layers()) {
    const bool connected = layer->type() == "connected";
    const std::size_t first = layers.size();
    for (Param* param : layer->params()) {
      if (!param->in_files) continue;
      auto of = std::find_if(layers.begin() + static_cast<std::ptrdiff_t>(first), layers.end(),
                             [&](const BlobsOfLayer& each) { return each.name == param->owner; });
      if (of == layers.end()) of = layers.insert(of, {.name = param->owner, .type = ""});
      const bool matrix = connected && param->role == ParamRole::weights;
      of->blobs.push_back({Stored(*param, matrix), caffe_shape(*param, matrix)});
      if (param->role == ParamRole::mean) of->type = "BatchNorm";
      if (param->role == ParamRole::scale) of->type = "Scale";
      if (param->role == ParamRole::bias && of->type.empty()) of->type = "Bias";
      if (param->role == ParamRole::weights)
        of->type = connected                          ? "InnerProduct"
                   : layer->type() == "convolutional" ? "Convolution"
                   : layer->type() == "prelu"         ? "PReLU"
                                                      : "Deconvolution";
    }
    // A BatchNorm must come before its Scale.
    std::stable_partition(
        layers.begin() + static_cast<std::ptrdiff_t>(first), layers.end(),
        [](const BlobsOfLayer& each) { return each.type != "Scale" && each.type != "Bias"; });
    for (std::size_t i = first; i < layers.size(); ++i)
      std::ranges::sort(layers[i].blobs, {}, &CaffeBlob::number);
  }
  return layers;
}

Status take_blob(const CaffeSource& source, const std::string& what, caffe_files::BlobProto& from,
                 const CaffeBlob& blob, const Tensor& to) {
  if (!has_shape(from, blob.shape))
    return Error{ErrorKind::data, source.where,
                 fmt::format("{} is {}, the net's is {}", what, shape_text(shape_of(from)),
                             shape_text(blob.shape)),
                 "give the net's layer another name, so that it begins anew"};
  const bool single = blob.stored.param->role == ParamRole::averaged;
  OMNI_TRY(const std::vector<float> values, values_of(from, single ? 1 : to.count(), source, what));
  const HostAccess access(to, HostAccess::Mode::write);
  if (single)
    std::ranges::fill(access.f32(), values.front());
  else
    for_each_value(blob.stored, [&](std::size_t ours, std::size_t theirs) {
      access.f32()[ours] = values[theirs];
    });
  return {};
}

Status put_blob(const CaffeBlob& blob, const Tensor& from, float factor,
                caffe_files::BlobProto& to) {
  for (const std::int64_t dimension : blob.shape) to.mutable_shape()->add_dim(dimension);
  const bool single = blob.stored.param->role == ParamRole::averaged;
  const HostAccess access(from, HostAccess::Mode::read);
  to.mutable_data()->Resize(single ? 1 : static_cast<int>(from.count()), 0);
  if (single)
    to.set_data(0, access.f32().front());
  else
    for_each_value(blob.stored, [&](std::size_t ours, std::size_t theirs) {
      to.set_data(static_cast<int>(theirs), access.f32()[ours] * factor);
    });
  if (std::ranges::all_of(to.data(), [](float value) { return std::isfinite(value); })) return {};
  return Error{ErrorKind::diverged, blob.stored.param->name, "holds values that are not finite",
               "nothing was written"};
}

Result<CaffeFileWriter> CaffeFileWriter::create(const std::filesystem::path& path) {
  OMNI_TRY(AtomicFile file, AtomicFile::create(path));
  return CaffeFileWriter(path, std::move(file));
}

namespace {

std::string varint(std::uint64_t value) {
  std::array<std::uint8_t, 10> bytes{};
  const std::uint8_t* end =
      google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(value, bytes.data());
  return {bytes.begin(), bytes.begin() + (end - bytes.data())};
}

}  // namespace

Status CaffeFileWriter::write(const std::string& bytes) {
  total_ += bytes.size();
  if (total_ > kMostCaffeBytes) return too_large();
  return file_.write(bytes);
}

Error CaffeFileWriter::too_large() const {
  return {ErrorKind::failed, path_.string(),
          fmt::format("would have more than {} bytes", kMostCaffeBytes),
          "protobuf, and so Caffe, reads no larger messages: save .weights"};
}

Status CaffeFileWriter::number(int field, std::uint64_t value) {
  return write(varint(static_cast<std::uint64_t>(field) << 3) + varint(value));
}

Status CaffeFileWriter::bytes(int field, const std::string& bytes) {
  OMNI_CHECK(write(varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(bytes.size())));
  return write(bytes);
}

Status CaffeFileWriter::message(int field, const google::protobuf::MessageLite& message) {
  std::string text;
  if (message.ByteSizeLong() > kMostCaffeBytes || !message.SerializeToString(&text))
    return too_large();
  return bytes(field, text);
}

}  // namespace omni
