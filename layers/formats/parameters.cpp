#include "layers/formats/parameters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "layers/formats/darknet/darknet.hpp"
#include "runtime/tasks/host_access.hpp"

namespace omni {
namespace {

bool is_caffemodel(const std::filesystem::path& path) { return path.extension() == ".caffemodel"; }
bool is_hdf5(const std::filesystem::path& path) { return path.extension() == ".h5"; }

// Returns null if .weights have a place for all parameters that files have.
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
      if (param->role == ParamRole::averaged)
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

namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

// What the layers compute, one word after the other, however the format cuts it into layers.
// Numbers of layers are left out: the two nets may count differently.
std::vector<std::string> words_of(const Net& net) {
  std::vector<std::string> words;
  for (const auto& layer : net.layers()) {
    const Extent& out = layer->output().extent;
    const bool joins = layer->type() == "route" || layer->type() == "shortcut";
    if (layer->type() == "activation")
      words.push_back(layer->detail());
    else if (layer->type() != "batchnorm")
      words.push_back(fmt::format("{}{}{} to {}x{}x{}", layer->type(), joins ? "" : " ",
                                  joins ? "" : layer->detail(), out.w, out.h, out.c));
    std::string rest = layer->in_one_task();
    for (std::size_t at = 0; at < rest.size();) {
      const std::size_t end = std::min(rest.find(' ', at), rest.size());
      if (const std::string word = rest.substr(at, end - at); word != "bias" && word != "sum")
        words.push_back(word);
      at = end + 1;
    }
  }
  return words;
}

// How pixels become values, where that is not with all nets the same.
ByteValues values_of(const AugmentOptions& input) {
  return input.byte_values.value_or(ByteValues{.scale = 1.0f / 255});
}

}  // namespace

Status copy_parameters(Net& from, const AugmentOptions& from_input, Net& to,
                       const AugmentOptions& to_input, const std::string& name_of_to) {
  const auto refusal = [&](std::string what) {
    return Error{ErrorKind::usage, name_of_to, std::move(what),
                 "nothing was written; --as is the same net in another form"};
  };
  const ByteValues theirs = values_of(from_input), ours = values_of(to_input);
  const bool flat = from_input.flat && to_input.flat;
  if (from.options().input != to.options().input) return refusal("its input has another size");
  if (!flat && (theirs.mean != ours.mean || std::abs(theirs.scale / ours.scale - 1) > 1e-6f))
    return refusal(fmt::format("its input is (pixel - {}) * {}, that of {} (pixel - {}) * {}",
                               ours.mean[0], ours.scale, from.name(), theirs.mean[0],
                               theirs.scale));
  const bool turns = !flat && theirs.blue_first != ours.blue_first && to.options().input.c == 3;
  const std::vector<std::string> words = words_of(from), words_of_to = words_of(to);
  for (std::size_t i = 0; i < std::max(words.size(), words_of_to.size()); ++i) {
    const std::string of_from = i < words.size() ? words[i] : "nothing",
                      of_to = i < words_of_to.size() ? words_of_to[i] : "nothing";
    if (of_from != of_to)
      return refusal(fmt::format("it has {} where {} has {}", of_to, from.name(), of_from));
  }
  // Parameters that have a counterpart, in the order of layers and of roles.
  struct Found {
    const Layer* layer;
    Param* param;
  };
  const auto params_of = [](Net& net) {
    std::vector<Found> all;
    for (const auto& layer : net.layers()) {
      const std::size_t first = all.size();
      for (Param* param : layer->params())
        if (param->in_files && param->role != ParamRole::averaged)
          all.push_back({layer.get(), param});
      std::ranges::sort(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(), {},
                        [](const Found& each) { return each.param->role; });
    }
    return all;
  };
  const auto outputs = [](Net& net) { return net.layers().back()->output().extent; };
  const std::vector<Found> source = params_of(from), target = params_of(to);
  if (source.size() != target.size() || outputs(from) != outputs(to))
    return refusal(fmt::format("it has {} parameters and {} outputs, {} has {} and {}",
                               target.size(), outputs(to).count(), from.name(), source.size(),
                               outputs(from).count()));
  for (std::size_t i = 0; i < source.size(); ++i) {
    const Param &a = *source[i].param, &b = *target[i].param;
    if (a.role != b.role || a.shape != b.shape)
      return refusal(fmt::format("{} is {}, but {} of {} is {}", b.name, text_of(b.shape), a.name,
                                 from.name(), text_of(a.shape)));
    const bool reads_image = source[i].layer->inputs().front()->blob == &from.image();
    if (turns && reads_image && source[i].layer->type() == "batchnorm")
      return refusal(fmt::format("{} is of colours in another order", a.name));
    const HostAccess read(*a.master, HostAccess::Mode::read),
        write(*b.master, HostAccess::Mode::write);
    std::ranges::copy(read.f32(), write.f32().begin());
    if (turns && reads_image && a.role == ParamRole::weights)
      for (std::size_t at = 0; at + 2 < write.f32().size(); at += 3)
        std::swap(write.f32()[at], write.f32()[at + 2]);
  }
  const auto averages = [](Net& net) {
    std::vector<Param*> all;
    for (Param* param : net.params())
      if (param->role == ParamRole::averaged) all.push_back(param);
    return all;
  };
  const std::vector<Param*> batches = averages(from), of_target = averages(to);
  if (!batches.empty() && batches.size() != of_target.size())
    return refusal(
        fmt::format("{} would be lost: it does not say of how many mini-batches it "
                    "averages",
                    batches.front()->name));
  for (std::size_t i = 0; i < of_target.size(); ++i) {
    const HostAccess write(*of_target[i]->master, HostAccess::Mode::write);
    std::ranges::fill(write.f32(), 1.0f);
    if (batches.empty()) continue;
    const HostAccess read(*batches[i]->master, HostAccess::Mode::read);
    std::ranges::copy(read.f32(), write.f32().begin());
  }
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
