#include "layers/formats/caffe/caffe_binary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "layers/formats/caffe/caffe_files.pb.h"

namespace omni {
namespace {

namespace pb = google::protobuf;
using Wire = pb::internal::WireFormatLite;

class SourceBytes final : public pb::io::CopyingInputStream {
 public:
  explicit SourceBytes(const CaffeSource& source) : source_(source), left_(source.size) {}

  int Read(void* buffer, int size) override {
    const std::uint64_t count = std::min(left_, static_cast<std::uint64_t>(size));
    if (count == 0 || !status) return 0;
    status = source_.read({static_cast<std::byte*>(buffer), count});
    left_ -= count;
    return status ? static_cast<int>(count) : -1;
  }

  Status status{};

 private:
  const CaffeSource& source_;
  std::uint64_t left_;
};

constexpr std::string_view kHdf5 = "\x89HDF\r\n\x1a\n";

}  // namespace

Error CaffeSource::damaged(std::string what) const {
  return {ErrorKind::data, where, std::move(what), "the file is truncated, or of another kind"};
}

Result<CaffeSource> CaffeSource::open(const std::filesystem::path& path) {
  OMNI_TRY(InputFile file, InputFile::open(path));
  const std::uint64_t size = file.size();
  if (size > kMostCaffeBytes)
    return Error{ErrorKind::data, path.string(),
                 fmt::format("larger than {} bytes", kMostCaffeBytes),
                 "protobuf, and so Caffe, reads no larger messages"};
  std::string begin(std::min<std::uint64_t>(size, kHdf5.size()), '\0');
  OMNI_CHECK(file.read(std::as_writable_bytes(std::span(begin))));
  if (begin == kHdf5)
    return Error{ErrorKind::usage, path.string(), "HDF5 files are not read",
                 "convert it with Caffe: snapshot_format: BINARYPROTO in the solver, or in Python "
                 "net = caffe.Net('net.prototxt', 'x.h5', caffe.TEST); net.save('x.caffemodel')"};
  auto rest = std::make_shared<InputFile>(std::move(file));
  auto first = std::make_shared<std::string>(std::move(begin));
  return CaffeSource{.where = path.string(),
                     .size = size,
                     .read = [rest, first](std::span<std::byte> bytes) -> Status {
                       const std::size_t count = std::min(first->size(), bytes.size());
                       std::ranges::copy(std::as_bytes(std::span(*first)).first(count),
                                         bytes.begin());
                       first->erase(0, count);
                       return rest->read(bytes.subspan(count));
                     }};
}

Status read_caffe_message(const CaffeSource& source, const OfNumber& number, const OfBytes& bytes) {
  SourceBytes from(source);
  pb::io::CopyingInputStreamAdaptor adaptor(&from);
  pb::io::CodedInputStream input(&adaptor);
  const auto refusal = [&](std::string what) -> Status {
    OMNI_CHECK(std::move(from.status));
    return source.damaged(std::move(what));
  };
  std::string text;
  while (const std::uint32_t tag = input.ReadTag()) {
    const int field = Wire::GetTagFieldNumber(tag);
    const auto at = static_cast<std::uint64_t>(input.CurrentPosition());
    if (Wire::GetTagWireType(tag) == Wire::WIRETYPE_VARINT) {
      std::uint64_t value = 0;
      if (!input.ReadVarint64(&value)) return refusal(fmt::format("cut off at byte {}", at));
      number(field, static_cast<std::int64_t>(value));
    } else if (Wire::GetTagWireType(tag) == Wire::WIRETYPE_LENGTH_DELIMITED) {
      std::uint32_t length = 0;
      if (!input.ReadVarint32(&length)) return refusal(fmt::format("cut off at byte {}", at));
      const auto begin = static_cast<std::uint64_t>(input.CurrentPosition());
      if (length > source.size - begin)
        return refusal(fmt::format("field {} at byte {} has {} bytes, only {} follow", field, at,
                                   length, source.size - begin));
      if (!input.ReadString(&text, static_cast<int>(length)))
        return refusal(fmt::format("cut off at byte {}", at));
      OMNI_CHECK(bytes(field, text));
    } else if (!Wire::SkipField(&input, tag)) {
      return refusal(fmt::format("is no message of protobuf at byte {}", at));
    }
  }
  if (!input.ConsumedEntireMessage() ||
      static_cast<std::uint64_t>(input.CurrentPosition()) != source.size)
    return refusal(fmt::format("is no message of protobuf at byte {}", input.CurrentPosition()));
  return std::move(from.status);
}

Status parse_caffe_message(const CaffeSource& source, const std::string& bytes,
                           pb::MessageLite& into) {
  if (into.ParseFromString(bytes)) return {};
  return source.damaged("a message in it cannot be parsed");
}

Status for_each_caffe_layer(const CaffeSource& source, const OfLayer& use) {
  bool any = false;
  const auto give = [&](const std::string& name, auto* blobs) {
    any = true;
    return use(name,
               std::vector<caffe_files::BlobProto*>(blobs->pointer_begin(), blobs->pointer_end()));
  };
  const auto read = [&](int field, const std::string& bytes) -> Status {
    if (field == kCaffeLayers) {
      caffe_files::Layer layer;
      OMNI_CHECK(parse_caffe_message(source, bytes, layer));
      return give(layer.name(), layer.mutable_blobs());
    }
    if (field != kCaffeOldLayers) return {};
    caffe_files::OldLayer layer;
    OMNI_CHECK(parse_caffe_message(source, bytes, layer));
    if (layer.has_oldest())
      return Error{ErrorKind::data, source.where, "has layers of the oldest form",
                   "bring it up to date with Caffe's upgrade_net_proto_binary"};
    return give(layer.name(), layer.mutable_blobs());
  };
  OMNI_CHECK(read_caffe_message(
      source, [](int, std::int64_t) {}, read));
  return any ? Status() : source.damaged("has no layers");
}

std::vector<std::int64_t> shape_of(const caffe_files::BlobProto& blob) {
  if (blob.has_num() || blob.has_channels() || blob.has_height() || blob.has_width())
    return {blob.num(), blob.channels(), blob.height(), blob.width()};
  return {blob.shape().dim().begin(), blob.shape().dim().end()};
}

bool has_shape(const caffe_files::BlobProto& blob, std::span<const std::int64_t> shape) {
  const std::vector<std::int64_t> own = shape_of(blob);
  if (std::ranges::equal(own, shape)) return true;
  if (blob.has_shape() || own.size() < shape.size()) return false;
  const auto ones = std::ssize(own) - std::ssize(shape);
  return std::all_of(own.begin(), own.begin() + ones, [](std::int64_t d) { return d == 1; }) &&
         std::equal(own.begin() + ones, own.end(), shape.begin());
}

Result<std::vector<float>> values_of(caffe_files::BlobProto& blob, std::uint64_t count,
                                     const CaffeSource& source, const std::string& what) {
  const bool doubles = blob.double_data_size() > 0;
  const int has = doubles ? blob.double_data_size() : blob.data_size();
  if (static_cast<std::uint64_t>(has) != count)
    return source.damaged(fmt::format("{} has {} values, its shape needs {}", what, has, count));
  std::vector<float> values(count);
  if (doubles)
    std::ranges::transform(blob.double_data(), values.begin(),
                           [](double value) { return static_cast<float>(value); });
  else
    std::ranges::copy(blob.data(), values.begin());
  return values;
}

Result<MeanImage> parse_caffe_mean(const std::string& bytes, const CaffeSource& source) {
  caffe_files::BlobProto blob;
  OMNI_CHECK(parse_caffe_message(source, bytes, blob));
  std::vector<std::int64_t> shape = shape_of(blob);
  if (shape.size() == 4 && shape.front() == 1) shape.erase(shape.begin());
  const auto is_side = [](std::int64_t side) { return side > 0 && side <= 1 << 16; };
  if (shape.size() != 3 || !std::ranges::all_of(shape, is_side))
    return source.damaged(fmt::format("is {}, no mean of images", shape_text(shape)));
  const Extent extent{static_cast<int>(shape[1]), static_cast<int>(shape[2]),
                      static_cast<int>(shape[0])};
  OMNI_TRY(const std::vector<float> planes, values_of(blob, extent.count(), source, "the mean"));
  if (!std::ranges::all_of(planes, [](float value) { return std::isfinite(value); }))
    return source.damaged("has values that are not finite");
  MeanImage mean{extent, std::vector<float>(planes.size())};
  const std::size_t pixels = extent.count() / extent.c, channels = extent.c;
  for (std::size_t i = 0; i < planes.size(); ++i)
    mean.values[i % pixels * channels + i / pixels] = planes[i];
  return mean;
}

Result<MeanImage> read_caffe_mean(const std::filesystem::path& path) {
  constexpr std::uint64_t kMost = 256 << 20;
  OMNI_TRY(const CaffeSource source, CaffeSource::open(path));
  if (source.size > kMost) return source.damaged(fmt::format("larger than {} bytes", kMost));
  std::string bytes(source.size, '\0');
  OMNI_CHECK(source.read(std::as_writable_bytes(std::span(bytes))));
  return parse_caffe_mean(bytes, source);
}

Status save_caffe_mean(const MeanImage& mean, const std::filesystem::path& path) {
  caffe_files::BlobProto blob;
  const std::size_t channels = mean.extent.c;
  blob.set_num(1);
  blob.set_channels(mean.extent.c);
  blob.set_height(mean.extent.h);
  blob.set_width(mean.extent.w);
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t i = c; i < mean.values.size(); i += channels) blob.add_data(mean.values[i]);
  return write_file_atomically(path, blob.SerializeAsString());
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return shape.empty() ? "one value" : fmt::format("{}", fmt::join(shape, "x"));
}

}  // namespace omni
