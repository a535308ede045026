#include "layers/formats/parameters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <variant>

#include "codelets/elementwise/activation_functors.hpp"
#include "layers/formats/darknet/darknet.hpp"
#include "runtime/log.hpp"
#include "runtime/tasks/host_access.hpp"

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

namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

// A Word is one step of the computation of a net. It does not depend on how a file format cuts the
// steps into layers.
struct Word {
  std::string text, where;
  std::vector<std::size_t> reads;  // numbers of words, counted from 1; 0: the image
};

// Returns the numbers of a layer that decide its results and are not in Layer::detail().
std::string numbers_of(const LayerOptions& options) {
  if (const auto* filter = std::get_if<FilterOptions>(&options))
    return fmt::format(" pad {}x{}", filter->padding.w, filter->padding.h);
  // Half of the padding lies before the image. The windows that fit decide how much lies behind it.
  if (const auto* window = std::get_if<WindowOptions>(&options))
    return fmt::format(" pad {}x{}{}", window->padding.w / 2, window->padding.h / 2,
                       window->padding != Sides{0, 0} && window->counts_padding ? " counted" : "");
  if (const auto* lrn = std::get_if<LocalResponseOptions>(&options))
    return fmt::format(" alpha {:.6g} beta {:.6g} kappa {:.6g}", lrn->alpha, lrn->beta, lrn->kappa);
  if (const auto* sum = std::get_if<SumOptions>(&options))
    return fmt::format(" factors {:.6g} {:.6g}", sum->alpha, sum->beta);
  if (const auto* softmax = std::get_if<SoftmaxOptions>(&options))
    return fmt::format(" groups {} temperature {:.6g}", softmax->groups, softmax->temperature);
  return "";
}

std::string text_of(const BatchnormOptions& options) {
  return fmt::format("norm epsilon {:.6g}{}", options.epsilon, options.frozen ? " frozen" : "");
}

// Returns the words of a net in the order of its layers. They hold no numbers of layers, because
// two nets may count layers differently.
std::vector<Word> words_of(const Net& net, const NetDescription& described) {
  std::vector<Word> words;
  std::map<const Blob*, std::size_t> makers{{&net.image(), 0}};
  for (std::size_t i = 0; i < net.layers().size(); ++i) {
    const Layer& layer = *net.layers()[i];
    const LayerOptions& options = described.layers.at(i).options;
    const std::string& type = layer.type();
    // A route to one layer is an alias: its readers read that layer directly.
    if (type == "route" && described.layers[i].inputs.size() == 1) continue;
    std::vector<std::size_t> reads;
    for (const Input* input : layer.inputs()) reads.push_back(makers.at(input->blob));
    const auto add = [&](std::string text) {
      words.push_back({std::move(text), layer.where(), std::move(reads)});
      reads = {words.size()};
    };
    const auto* norm = std::get_if<BatchnormOptions>(&options);
    const auto* filter = std::get_if<FilterOptions>(&options);
    const auto* connected = std::get_if<ConnectedOptions>(&options);
    const auto* sum = std::get_if<SumOptions>(&options);
    // The order of the inputs of a sum does not matter if their extents are equal and they have no
    // factors.
    if (sum != nullptr && sum->alpha == 1 && sum->beta == 1 &&
        layer.inputs()[0]->extent() == layer.inputs()[1]->extent())
      std::ranges::sort(reads);
    const Extent& out = layer.output().extent;
    if (norm != nullptr)
      add(text_of(*norm));
    else if (type == "activation")
      add(layer.detail());
    else
      add(fmt::format("{}{}{} to {}x{}x{}", type,
                      type == "route" || sum != nullptr ? "" : " " + layer.detail(),
                      numbers_of(options), out.w, out.h, out.c));
    if ((filter != nullptr && filter->normalise) || (connected != nullptr && connected->normalise))
      add(text_of(BatchnormOptions{}));
    const Activation activation = norm != nullptr        ? norm->activation
                                  : filter != nullptr    ? filter->activation
                                  : connected != nullptr ? connected->activation
                                  : sum != nullptr       ? sum->activation
                                                         : Activation::linear;
    if (activation != Activation::linear) add(std::string(activation_name(activation)));
    makers[&layer.output()] = words.size();
  }
  return words;
}

// Returns the places in the net file of those words that another word reads.
std::string places_of(const std::vector<std::size_t>& reads, const std::vector<Word>& words) {
  std::vector<std::string> places;
  for (const std::size_t each : reads)
    places.push_back(each == 0 ? "the image" : words[each - 1].where);
  return fmt::format("{}", fmt::join(places, " and "));
}

// Returns how pixels become values. A net that gives no numbers for this scales bytes to the range
// from 0 to 1.
ByteValues values_of(const AugmentOptions& input) {
  return input.byte_values.value_or(ByteValues{.scale = 1.0f / 255});
}
std::string text_of(const ByteValues& values) {
  return fmt::format("(pixel - {}) * {}", values.mean[0], values.scale);
}

}  // namespace

Status copy_parameters(Net& from, const TrainableNet& of_from, Net& to, const TrainableNet& of_to,
                       const std::string& name_of_to) {
  const auto refusal = [&](std::string what) {
    return Error{ErrorKind::usage, name_of_to, std::move(what),
                 "nothing was written; --as is the same net in another form"};
  };
  const AugmentOptions &from_input = of_from.augment, &to_input = of_to.augment;
  const ByteValues theirs = values_of(from_input), ours = values_of(to_input);
  const bool flat = from_input.flat && to_input.flat;
  const bool turns = !flat && theirs.blue_first != ours.blue_first && to.options().input.c == 3;
  std::array<float, 3> mean = theirs.mean;
  if (turns) std::swap(mean[0], mean[2]);
  if (from.options().input != to.options().input) return refusal("its input has another size");
  const bool same = mean == ours.mean && std::abs(theirs.scale / ours.scale - 1) <= 1e-6f;
  if (!flat && !same)
    return refusal(
        fmt::format("its input is {}, that of {} {}", text_of(ours), from.name(), text_of(theirs)));
  if (flat && !(same && theirs.blue_first == ours.blue_first))
    log::warn("{}: vectors are the same for {}, but images are not: {}{} here, {}{} there",
              name_of_to, from.name(), text_of(ours), ours.blue_first ? ", blue first" : "",
              text_of(theirs), theirs.blue_first ? ", blue first" : "");
  if (!(from_input.mean_image == to_input.mean_image) || (turns && to_input.mean_image))
    return refusal(fmt::format("the mean of its images is another than that of {}", from.name()));
  const std::vector<Word> words = words_of(from, of_from), words_of_to = words_of(to, of_to);
  for (std::size_t i = 0; i < std::max(words.size(), words_of_to.size()); ++i) {
    const std::string of_from_is = i < words.size() ? words[i].text : "nothing",
                      of_to_is = i < words_of_to.size() ? words_of_to[i].text : "nothing";
    if (of_from_is != of_to_is)
      return refusal(fmt::format("it has {} where {} has {}", of_to_is, from.name(), of_from_is));
    if (words[i].reads != words_of_to[i].reads)
      return refusal(fmt::format("{} reads {}, but {} of {} reads {}", words_of_to[i].where,
                                 places_of(words_of_to[i].reads, words_of_to), words[i].where,
                                 from.name(), places_of(words[i].reads, words)));
  }
  // A Found is a parameter and its layer. They are in the order of layers and of roles, in which
  // both nets agree.
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
