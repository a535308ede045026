#include "layers/formats/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "layers/formats/darknet/darknet.hpp"

namespace omni {
namespace {

bool is_caffemodel(const std::filesystem::path& path) { return path.extension() == ".caffemodel"; }
bool is_hdf5(const std::filesystem::path& path) { return path.extension() == ".h5"; }

// Returns a parameter for which .weights files have no place; null if they have a place for all
// parameters that are saved.
const Param* without_place_in_darknet(const Net& net) {
  for (const auto& layer : net.layers())
    for (const Param* param : layer->params())
      if (param->in_files && !has_place_in_darknet(*layer, *param)) return param;
  return nullptr;
}

}  // namespace

std::vector<std::filesystem::path> parameter_files(std::string_view list) {
  std::error_code ignored;
  if (std::filesystem::exists(list, ignored)) return {list};
  std::vector<std::filesystem::path> files;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    files.emplace_back(list.substr(at, end - at));
    at = end + 1;
  }
  return files;
}

Status load_parameter_files(Net& net, const std::vector<std::filesystem::path>& files,
                            AbsentLayers absent) {
  if (is_caffemodel(files.front()) || is_hdf5(files.front()))
    return load_caffe_weights(net, files, absent);
  if (files.size() == 1) {
    if (absent == AbsentLayers::refused_with_values)
      if (const Param* param = without_place_in_darknet(net))
        return Error{ErrorKind::data, files.front().string(),
                     fmt::format("no {}: .weights have no place for it", param->name),
                     "nothing is written that is not in the file"};
    return load_darknet_weights(net, files.front());
  }
  return Error{ErrorKind::usage, files.front().string(),
               "is not the only file, but names no layers",
               "only .caffemodel files can follow each other"};
}

Status save_parameter_file(Net& net, const std::filesystem::path& path, std::uint64_t images_seen) {
  if (is_caffemodel(path)) return save_caffe_weights(net, path);
  return save_darknet_weights(net, path, images_seen);
}

Status check_parameter_file(const Net& net, const std::filesystem::path& path) {
  if (is_hdf5(path))
    return Error{ErrorKind::usage, path.string(), "HDF5 files are not written",
                 "save a .caffemodel"};
  if (is_caffemodel(path)) {
    OMNI_CHECK(check_caffe_names(net));
    return check_caffe_size(net, path);
  }
  for (const auto& layer : net.layers())
    for (const Param* param : layer->params())
      if (param->role == ParamRole::averaged || layer->type() == "prelu")
        return Error{ErrorKind::usage, path.string(),
                     fmt::format("{} would be lost: .weights have no place for it", param->name),
                     "save a .caffemodel"};
  return {};
}

Status check_nothing_lost(const Net& net, const std::filesystem::path& path) {
  OMNI_CHECK(check_parameter_file(net, path));
  if (is_caffemodel(path)) return {};
  if (const Param* param = without_place_in_darknet(net))
    return Error{ErrorKind::usage, path.string(),
                 fmt::format("{} would be lost: .weights have no place for it", param->name),
                 "nothing was written; convert to .caffemodel or .safetensors"};
  return {};
}

std::string_view parameter_format(const std::filesystem::path& path) {
  return is_caffemodel(path) ? "a .caffemodel" : "Darknet weights";
}

bool is_parameter_file(const std::filesystem::path& path) {
  if (is_caffemodel(path)) return is_caffe_weights(path);
  const auto reader = DarknetWeightsReader::open(path);
  return reader && reader->is_of_today();
}

}  // namespace omni
