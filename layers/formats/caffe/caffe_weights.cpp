// A .caffemodel file is a net whose layers have blobs. Layers are found by their names.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "layers/formats/caffe/caffe.hpp"
#include "layers/formats/caffe/caffe_blobs.hpp"
#include "layers/formats/caffe/caffe_files.pb.h"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/tasks/host_access.hpp"

namespace omni {
namespace {

std::string first_few(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 8;
  std::string text =
      fmt::format("{}", fmt::join(std::span(names).first(std::min(names.size(), kNamed)), ", "));
  if (names.size() > kNamed) text += fmt::format(" and {} more", names.size() - kNamed);
  return text;
}

Error two_of_one_name(const Net& net, const BlobsOfLayer& layer) {
  return {ErrorKind::usage, net.name(),
          fmt::format("two layers are called {}", shown_name(layer.name)),
          "a .caffemodel finds parameters by name: give each its own"};
}

Status take_layer(const CaffeSource& source, CaffeBlobs from, BlobsOfLayer& to) {
  const std::string layer = "layer " + shown_name(to.name);
  if (from.size() != to.blobs.size())
    return Error{
        ErrorKind::data, source.where,
        fmt::format("{}: has {} blobs, the net's has {}", layer, from.size(), to.blobs.size()),
        "give the net's layer another name, so that it begins anew"};
  for (std::size_t number = 0; number < from.size(); ++number) {
    const CaffeBlob& own = to.blobs[number];
    if (own.stored.param->load)
      OMNI_CHECK(take_blob(source, fmt::format("{}: blob {}", layer, number), *from[number], own,
                           *own.stored.param->master));
  }
  const Param* averaged = to.averaged();
  if (averaged == nullptr || !averaged->load) return {};
  const float batches = HostAccess(*averaged->master, HostAccess::Mode::read).f32().front();
  const float share = batches == 0 ? 0 : 1 / batches;
  for (const std::size_t number : {0, 1}) {
    const HostAccess access(*to.blobs[number].stored.param->master,
                            HostAccess::Mode::write);  // which has just been written
    for (float& value : access.f32()) value *= share;
  }
  return {};
}

}  // namespace

Status load_caffe_weights(Net& net, std::span<const std::filesystem::path> files,
                          AbsentLayers of_absent) {
  std::vector<BlobsOfLayer> layers = blobs_of(net);
  std::map<std::string, BlobsOfLayer*, std::less<>> by_name;
  for (BlobsOfLayer& layer : layers)
    if (!by_name.emplace(layer.name, &layer).second && !layer.name.empty())
      return two_of_one_name(net, layer);
  std::set<std::string, std::less<>> taken;
  for (const std::filesystem::path& file : files) {
    OMNI_TRY(const CaffeSource source, CaffeSource::open(file));
    std::vector<std::string> others;
    bool any = false;
    const Status read =
        for_each_caffe_layer(source, [&](const std::string& name, CaffeBlobs blobs) -> Status {
          if (blobs.empty()) return {};
          const auto of = by_name.find(name);
          if (of == by_name.end()) {
            others.push_back(shown_name(name));
            return {};
          }
          OMNI_CHECK(take_layer(source, blobs, *of->second));
          any = true;
          taken.insert(name);
          return {};
        });
    if (!read) return read;
    if (!any)
      return Error{ErrorKind::data, source.where, "has parameters of no layer that the net has",
                   fmt::format("its layers: {}", first_few(others))};
    if (!others.empty()) log::info("{}: not in the net: {}", source.where, first_few(others));
  }
  std::vector<std::string> absent;
  for (const BlobsOfLayer& layer : layers)
    if (!taken.contains(layer.name)) absent.push_back(shown_name(layer.name));
  if (!absent.empty() && of_absent != AbsentLayers::kept)
    return Error{ErrorKind::data, files.back().string(),
                 fmt::format("no parameters of {}", first_few(absent)),
                 "nothing is written that is not in the file"};
  if (!absent.empty())
    log::warn("{}: no parameters of {}: they keep their initial values", files.back().string(),
              first_few(absent));
  return {};
}

bool is_caffe_weights(const std::filesystem::path& path) {
  const auto source = CaffeSource::open(path);
  return source &&
         for_each_caffe_layer(*source, [](const std::string&, CaffeBlobs) { return Status(); });
}

Status check_caffe_names(const Net& net) {
  std::set<std::string, std::less<>> names;
  for (const BlobsOfLayer& layer : blobs_of(net)) {
    if (layer.name.empty())
      return Error{ErrorKind::usage, net.name(), "its layers have no names, as a .caffemodel needs",
                   "save .weights, or train the net as a .prototxt"};
    if (!names.insert(layer.name).second) return two_of_one_name(net, layer);
  }
  return {};
}

Status check_caffe_size(const Net& net, const std::filesystem::path& path) {
  std::uint64_t values = 0;
  for (const BlobsOfLayer& layer : blobs_of(net))
    for (const CaffeBlob& blob : layer.blobs) {
      std::uint64_t count = 1;
      for (const std::int64_t dimension : blob.shape)
        count *= static_cast<std::uint64_t>(dimension);
      values += count;
    }
  // A .solverstate of Adam or AdaDelta has two values for each parameter.
  const std::uint64_t most = values * sizeof(float) * (net.adam() ? 2 : 1);
  if (most <= kMostCaffeBytes) return {};
  return Error{ErrorKind::usage, path.string(),
               fmt::format("{} values would need {} bytes in a file of Caffe, which reads {}",
                           values, most, kMostCaffeBytes),
               "save .weights"};
}

Status save_caffe_weights(const Net& net, const std::filesystem::path& path) {
  OMNI_CHECK(check_caffe_names(net));
  OMNI_TRY(CaffeFileWriter file, CaffeFileWriter::create(path));
  OMNI_CHECK(file.bytes(kCaffeNetName, net.name()));
  for (const BlobsOfLayer& layer : blobs_of(net)) {
    caffe_files::Layer message;
    message.set_name(layer.name);
    message.set_type(layer.type);
    float batches = 0;
    if (const Param* averaged = layer.averaged())
      batches = HostAccess(*averaged->master, HostAccess::Mode::read).f32().front();
    // If no mini-batch was counted, averages are written as those of one mini-batch. A factor of 0
    // would mean that there are no averages.
    if (batches == 0) batches = 1;
    for (const CaffeBlob& each : layer.blobs) {
      caffe_files::BlobProto& blob = *message.add_blobs();
      OMNI_CHECK(put_blob(each, *each.stored.param->master, batches, blob));
      if (each.stored.param->role == ParamRole::averaged) blob.set_data(0, batches);
    }
    OMNI_CHECK(file.message(kCaffeLayers, message));
  }
  return file.commit();
}

}  // namespace omni
