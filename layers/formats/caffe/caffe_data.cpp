// This file reads Caffe's data layers. The images come from the option --data. The layers only say
// the size of the mini-batch and of the input, and how pixels become values.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "layers/formats/caffe/caffe_binary.hpp"
#include "layers/formats/caffe/caffe_layers.hpp"
#include "runtime/data/formats.hpp"
#include "runtime/data/lmdb/lmdb_file.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

constexpr int kLongestSide = 1 << 16, kMostChannels = 1 << 12, kMostVectorValues = 1 << 24;

// Returns the message that has the field: transform_param, or in the old format the parameter of
// the data layer.
CaffeFields holder_of(const CaffeLayer& layer, std::string_view field) {
  CaffeFields transform = layer.fields.nested("transform_param");
  return !transform.has(field) && layer.own.has(field) ? layer.own : transform;
}

CaffeTransform transform_of(const CaffeLayer& layer) {
  if (!layer.fields.has("transform_param") && !layer.own.has_field("crop_size")) return {};
  CaffeFields transform = layer.fields.nested("transform_param");
  CaffeTransform read{.crop = holder_of(layer, "crop_size").whole("crop_size", 0, kLongestSide),
                      .mirror = holder_of(layer, "mirror").flag("mirror"),
                      .grey = transform.flag("force_gray"),
                      .colour = transform.flag("force_color"),
                      .is_color = !layer.own.has_field("is_color") || layer.own.flag("is_color"),
                      .scale = holder_of(layer, "scale").real("scale"),
                      .place_of_means = transform.where("mean_value", 0)};
  if (CaffeFields holder = holder_of(layer, "mean_file");
      holder.has_field("mean_file") && holder.has("mean_file")) {
    read.mean_file = holder.text("mean_file");
    read.place_of_file = holder.where("mean_file");
    if (transform.has("mean_value"))
      transform.refuse("mean_value", "mean_value with mean_file", "remove one of them", 0);
  }
  for (int i = 0; i < transform.count("mean_value"); ++i)
    read.means.push_back(transform.real("mean_value", -1e6f, 1e6f, i));
  if (read.grey && read.colour)
    transform.refuse("force_gray", "force_gray with force_color", "remove one of them");
  return read;
}

void read_transform(CaffeLayer& layer) {
  CaffeNet& to = layer.to;
  const CaffeTransform& transform = to.transform = transform_of(layer);
  AugmentOptions& augment = to.net.augment;
  Extent& input = to.net.options.input;
  if (transform.crop > 0) {
    input.h = input.w = transform.crop;
    augment.own_size = true;
  }
  augment.flip = transform.mirror;
  augment.byte_values->scale = transform.scale;
  const bool forced = transform.grey || transform.colour;
  if (!forced && transform.means.size() != 3) return;
  const int channels = transform.grey ? 1 : 3;
  if (forced && to.knows_channels && input.c != channels)
    layer.fields.nested("transform_param")
        .refuse(transform.grey ? "force_gray" : "force_color",
                fmt::format("{} with images of {} channel{}",
                            transform.grey ? "force_gray" : "force_color", input.c,
                            input.c == 1 ? "" : "s"),
                "remove one of them");
  if (!to.knows_channels) input.c = channels;
  to.knows_channels = true;
}

// Returns a path that the net names. As for a net, it is relative to the working directory. If
// there is nothing of the kind, it is relative to the folder of the net.
template <class Is>
std::filesystem::path found_path(const CaffeNet& to, const std::filesystem::path& path,
                                 const Is& is) {
  const std::string net = to.net.where.substr(0, to.net.where.rfind(':'));
  const auto beside = std::filesystem::path(net).parent_path() / path;
  return !path.empty() && !is(path) && is(beside) ? beside : path;
}

// Reads a mean that is an image.
Status take_mean_image(CaffeNet& to) {
  if (to.transform.mean_file.empty()) return {};
  std::error_code ignored;
  const auto is_file = [&](const auto& each) { return is_regular_file(each, ignored); };
  const std::filesystem::path path = found_path(to, to.transform.mean_file, is_file);
  if (!is_file(path))
    return Error{ErrorKind::usage, to.transform.place_of_file,
                 fmt::format("no such mean_file: {}", shown_name(path.string())),
                 "its path is relative to the working directory, or to the net's folder"};
  OMNI_TRY(MeanImage mean, read_caffe_mean(path));
  to.net.augment.mean_image = std::make_shared<const MeanImage>(std::move(mean));
  return {};
}

// Checks the means of the channels and passes them on. The number of channels may be known only
// after the command line has been read.
Status take_means(CaffeNet& to) {
  const std::vector<float>& means = to.transform.means;
  if (means.empty()) return {};
  const int most = static_cast<int>(ByteValues().mean.size());
  const bool flat = to.net.augment.flat;  // then the data have the channels
  const int channels = to.net.options.input.c, of = flat && channels != 1 ? most : channels;
  const auto refusal = [&](std::string what, const char* hint) {
    return Error{ErrorKind::usage, to.transform.place_of_means, std::move(what), hint};
  };
  if (means.size() != 1 && std::ssize(means) != of)
    return refusal(fmt::format("{} values of mean_value for images of {} channel{}", means.size(),
                               channels, channels == 1 ? "" : "s"),
                   "give one, or one of each channel");
  if (of > most)
    return refusal(fmt::format("mean_value with images of {} channels", channels),
                   "only grey images and colours have one");
  for (std::size_t c = 0; c < ByteValues().mean.size(); ++c)
    to.net.augment.byte_values->mean[c] = means[std::min(c, means.size() - 1)];
  return {};
}

// Reads a field that is repeated for every image or every blob. The first value counts.
int of_first(CaffeFields& fields, std::string_view name, int high) {
  const bool repeated = fields.is_repeated(name);
  if (!fields.has(name)) {
    fields.refuse("", fmt::format("has no {}", name), "add it to the layer's parameters");
    return 1;
  }
  return fields.whole(name, 1, high, repeated ? 0 : -1);
}

bool is_lmdb(CaffeFields& data) {
  return data.has_field("backend") && data.has("source") && data.word("backend") == "LMDB";
}

void read_extent(CaffeLayer& layer) {
  Extent& input = layer.to.net.options.input;
  input = {.h = of_first(layer.own, "height", kLongestSide),
           .w = of_first(layer.own, "width", kLongestSide),
           .c = of_first(layer.own, "channels", kMostChannels)};
  layer.to.knows_channels = true;
}

}  // namespace

void set_caffe_input(CaffeNet& to, CaffeFields& shape, std::string_view field, int count, int at) {
  if (count != 2 && count != 4) {
    shape.refuse(field, fmt::format("an input of {} dimensions", count),
                 "4 are for images: number, channels, height and width; 2 for vectors", 0);
    return;
  }
  Extent& input = to.net.options.input;
  to.net.options.batch = shape.whole(field, 1, kMostImages, at);
  input.c = shape.whole(field, 1, count == 2 ? kMostVectorValues : kMostChannels, at + 1);
  input.h = count == 2 ? 1 : shape.whole(field, 1, kLongestSide, at + 2);
  input.w = count == 2 ? 1 : shape.whole(field, 1, kLongestSide, at + 3);
  to.knows_channels = true;
  to.net.augment.byte_values = ByteValues{.blue_first = true};
}

void read_caffe_data(CaffeLayer& layer) {
  CaffeFields &fields = layer.fields, &own = layer.own;
  CaffeNet& to = layer.to;
  const bool is_input = fields.text_of_type() == "Input";
  const int tops = fields.count("top");
  int first = 0;
  if (to.image.empty() && tops > 0) {
    to.image = fields.text("top", first++);
    to.image_place = fields.where();
    to.net.inputs = {to.image};
  } else if (!is_input) {
    return fields.refuse("", "has no top", "name the blob of the images");
  }
  if (!is_input && tops > 2)
    fields.refuse("top", "more tops than images and labels", "they are the first two", 2);
  for (int top = first; top < tops; ++top) to.labels.emplace(fields.text("top", top), 0);
  if (first == 0) return;

  NetOptions& options = to.net.options;
  to.net.files.phases = to.net.files.training;
  to.net.files.only_shapes = is_input;
  options.input = {0, 0, 3};
  if (is_input || own.count("shape") > 0) {
    if (own.count("shape") == 0)
      return own.refuse("", "has no shape", "as in input_param { shape { dim: 64 dim: 1 ... } }");
    CaffeFields shape = own.nested("shape", 0);
    set_caffe_input(to, shape, "dim", shape.count("dim"));
  } else {
    const bool is_dummy = own.has_field("num");
    options.batch = of_first(own, is_dummy ? "num" : "batch_size", kMostImages);
    if (own.has_field("channels")) read_extent(layer);
  }
  if (own.has_field("is_color")) {
    options.input.c = own.flag("is_color") ? 3 : 1;
    to.knows_channels = true;
  }
  to.net.augment.byte_values = ByteValues{.blue_first = true};
  read_transform(layer);
  if (is_lmdb(own))
    to.train_source = own.text("source");
  else if (own.has("source"))
    layer.description.remarks.push_back(fmt::format("{}: the data are those of --data, not of {}",
                                                    fields.where(),
                                                    shown_name(own.text("source"))));
}

void check_caffe_test_data(const CaffeLayer& layer) {
  CaffeFields own = layer.own;
  if (is_lmdb(own)) layer.to.test_source = own.text("source");
  const bool shaped = own.has_field("shape") && own.count("shape") > 0,
             counted = own.has_field("batch_size") && own.has("batch_size");
  layer.to.net.files.phases = layer.to.net.files.apart;
  layer.to.net.files.test_batch = shaped    ? own.nested("shape", 0).whole("dim", 1, kMostImages, 0)
                                  : counted ? own.whole("batch_size", 1, kMostImages)
                                            : 0;
  const CaffeTransform test = transform_of(layer), &train = layer.to.transform;
  const auto refuse = [&](const char* field, std::string what, const char* hint) {
    holder_of(layer, field).refuse(field, std::move(what), hint, 0);
  };
  const auto compare = [&](const char* field, const auto& in_test, const auto& in_training) {
    if (in_test != in_training)
      refuse(field, fmt::format("{}: {} in tests, {} in training", field, in_test, in_training),
             "images are read alike in both phases: write the same in both");
  };
  compare("crop_size", test.crop, train.crop);
  compare("mean_file", shown_name(test.mean_file), shown_name(train.mean_file));
  compare("scale", test.scale, train.scale);
  compare("mean_value", fmt::format("{}", fmt::join(test.means, " ")),
          fmt::format("{}", fmt::join(train.means, " ")));
  compare("force_gray", test.grey, train.grey);
  compare("force_color", test.colour, train.colour);
  compare("is_color", test.is_color, train.is_color);
  if (test.mirror) refuse("mirror", "mirror: true in tests", "tests take images as they are");
}

namespace {

// If the training LMDB that the net names exists, it is the data, with the test LMDB if one is
// named, unless the command line names other data. If the net does not say how large images are,
// the first training image does.
Status take_lmdbs(CaffeNet& to, const std::string& data) {
  to.net.files.train = to.train_source;
  to.net.files.test = to.test_source;
  to.net.files.mean = to.transform.mean_file;
  std::string train = two_files({.source = data, .net_input = {}}).first;
  const std::string source = found_path(to, to.train_source, LmdbFile::is),
                    test_source = found_path(to, to.test_source, LmdbFile::is);
  const bool exists = !source.empty() && LmdbFile::is(source);
  if (!source.empty() && !exists) {
    to.net.absent = Error{ErrorKind::usage, to.image_place,
                          fmt::format("there is no LMDB {}", shown_name(to.train_source)),
                          "name the data with --data; computed patterns are --data synthetic"};
    if (!data.empty())
      to.remarks.push_back(
          fmt::format("{}: {}: the data are those of --data", to.image_place, to.net.absent->what));
  }
  if (data.empty() && exists) {
    train = to.net.data = source;
    if (!test_source.empty()) to.net.data += "," + test_source;
  }
  Extent& input = to.net.options.input;
  if (train.empty() || !LmdbFile::is(train)) return {};
  if (to.knows_channels && input.h > 0 && input.w > 0) return {};
  OMNI_TRY(const Extent first, first_extent_of_lmdb(train));
  if (first.h > 0 && (input.h == 0 || input.w == 0)) {
    input.h = first.h;
    input.w = first.w;
  }
  if (!to.knows_channels && first.h > 0 && first.c > 0) {
    input.c = first.c;
    to.knows_channels = true;
  }
  return {};
}

}  // namespace

Status finish_caffe_input(CaffeNet& to, const std::string& data,
                          std::vector<std::string>& settings) {
  TrainableNet& net = to.net;
  Extent& input = net.options.input;
  std::vector<std::string> others;
  for (const std::string& setting : settings) {
    const std::size_t equals = std::min(setting.find('='), setting.size());
    const std::string_view key = std::string_view(setting).substr(0, equals);
    int* const side = key == "height"     ? &input.h
                      : key == "width"    ? &input.w
                      : key == "channels" ? &input.c
                                          : nullptr;
    if (side == nullptr) {
      others.push_back(setting);
      continue;
    }
    const int most = key == "channels" ? kMostVectorValues : kLongestSide;
    const auto value =
        number_in<int>(std::string_view(setting).substr(std::min(equals + 1, setting.size())));
    if (!value || *value < 1 || *value > most)
      return Error{ErrorKind::usage, "--set " + setting, "is out of range",
                   fmt::format("expected a whole number from 1 to {}", most)};
    *side = *value;
    if (key == "channels") to.knows_channels = true;
  }
  settings = std::move(others);
  OMNI_CHECK(take_lmdbs(to, data));
  if (input.h == 0 || input.w == 0)
    return Error{ErrorKind::usage, to.image_place, "the size of the images is not known",
                 "give crop_size in transform_param, or --set height=28 --set width=28"};
  if (!input.countable())
    return Error{
        ErrorKind::usage, to.image_place,
        fmt::format("images of {}x{}x{} have too many elements", input.w, input.h, input.c),
        "make them smaller: 2147483647 elements are the most"};
  net.augment.flat = input.h == 1 && input.w == 1;
  if (net.augment.flat) net.augment.own_size = false;  // nothing is cut out of vectors
  OMNI_CHECK(take_means(to));
  OMNI_CHECK(take_mean_image(to));
  if (!to.knows_channels)
    to.remarks.push_back(
        fmt::format("{}: does not say how many channels images have: 3 are taken (--set channels=1 "
                    "for grey ones)",
                    to.image_place));
  return {};
}

}  // namespace omni
