#include "layers/formats/caffe/caffe_writer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/log.hpp"

namespace omni {

CaffeWriter::CaffeWriter(const TrainableNet& of, const Net& net) : of_(of), net_(net) {
  for (const LayerDescription& layer : of.layers) {
    if (!layer.name.empty()) names_of_file_.insert(layer.name);
    names_of_file_.insert(layer.inputs.begin(), layer.inputs.end());
    names_of_file_.insert(layer.outputs.begin(), layer.outputs.end());
  }
  labels_ = unused("label");
}

void CaffeWriter::refuse(std::string what, std::string_view why) {
  if (status_)
    status_ = Error{ErrorKind::usage, described().where, std::move(what), std::string(why)};
}

std::string CaffeWriter::unused(const std::string& wanted, bool is_own) {
  std::string name = wanted;
  for (int i = 2; used_.contains(name) || (!is_own && names_of_file_.contains(name)); ++i)
    name = fmt::format("{}_{}", wanted, i);
  used_.insert(name);
  return name;
}

std::string CaffeWriter::blob(std::size_t input) const {
  const std::string& name = described().inputs.at(input);
  const auto found = blobs_.find(name);
  return found == blobs_.end() ? name : found->second;
}

caffe::LayerParameter& CaffeWriter::add(std::string_view type, std::string_view kind) {
  caffe::LayerParameter& layer = *out_.add_layer();
  const std::string& own = described().name;
  layer.set_name(own.empty() ? unused(fmt::format("{}{}", kind, number_)) : unused(own, true));
  layer.set_type(std::string(type));
  for (std::size_t i = 0; i < described().inputs.size(); ++i) layer.add_bottom(blob(i));
  const std::string& output = described().outputs.front();
  std::string top = own.empty() ? layer.name() : output;
  if (top.find('\n') != std::string::npos) {  // of a blob that no file names
    std::ranges::replace(top, '\n', '_');
    top = unused(top);
  }
  layer.add_top(top);
  blobs_[output] = top;
  return layer;
}

caffe::LayerParameter& CaffeWriter::add_behind(const std::string& type, const std::string& name) {
  const std::string top = out_.layer(out_.layer_size() - 1).top(0);
  caffe::LayerParameter& layer = *out_.add_layer();
  layer.set_name(name);
  layer.set_type(type);
  layer.add_bottom(top);
  layer.add_top(top);
  return layer;
}

const Param* CaffeWriter::param(ParamRole role) const {
  const auto& all = built().params();
  const auto found = std::ranges::find(all, role, &Param::role);
  return found == all.end() ? nullptr : *found;
}

bool CaffeWriter::in_files(ParamRole role) const {
  const Param* of = param(role);
  return of != nullptr && of->in_files;
}

void CaffeWriter::put_filler(ParamRole role, caffe::FillerParameter& to) const {
  const Filler& filler = param(role)->filler;
  const auto said = described().params.find(role);
  const Filler own =
      said == described().params.end() ? Filler{} : said->second.filler.value_or(Filler{});
  if (own.by_inputs || own.by_outputs) {
    using Norm = caffe::FillerParameter;
    to.set_type(filler.kind == Filler::Kind::uniform ? "xavier" : "msra");
    if (own.by_outputs) to.set_variance_norm(own.by_inputs ? Norm::AVERAGE : Norm::FAN_OUT);
    return;
  }
  switch (filler.kind) {
    case Filler::Kind::shares: return to.set_type("positive_unitball");
    case Filler::Kind::constant:
      to.set_type("constant");
      if (filler.scale != 0) to.set_value(filler.scale);
      return;
    case Filler::Kind::uniform:
      to.set_type("uniform");
      to.set_min(filler.centre - filler.scale);
      return to.set_max(filler.centre + filler.scale);
    case Filler::Kind::normal:
      to.set_type("gaussian");
      if (filler.centre != 0) to.set_mean(filler.centre);
      if (filler.kept > 0) to.set_sparse(filler.kept);
      return to.set_std(filler.scale);
    case Filler::Kind::bilinear: return to.set_type("bilinear");
  }
}

void CaffeWriter::put_rates(std::initializer_list<ParamRole> roles,
                            caffe::LayerParameter& layer) const {
  const auto is_usual = [&](ParamRole role) {
    return param(role)->rate == 1 && param(role)->decay == 1;
  };
  if (std::ranges::all_of(roles, is_usual)) return;
  for (const ParamRole role : roles) {
    caffe::ParamSpec& factors = *layer.add_param();
    factors.set_lr_mult(param(role)->rate);
    factors.set_decay_mult(param(role)->decay);
  }
}

void CaffeWriter::put_transform(caffe::LayerParameter& layer, const InputPart& of,
                                const TrainableNet::Files& files, bool trains) const {
  const AugmentOptions& augment = of.augment;
  const Extent& input = of.extent;
  const ByteValues values = augment.byte_values.value_or(ByteValues{.scale = 1.0f / 255});
  caffe::TransformationParameter& transform = *layer.mutable_transform_param();
  if (values.scale != 1) transform.set_scale(values.scale);
  if (augment.flip && trains) transform.set_mirror(true);
  if (augment.mean_image) {
    transform.set_mean_file(files.mean);
  } else if (values.mean != ByteValues().mean) {
    const bool one = values.mean[0] == values.mean[1] && values.mean[0] == values.mean[2];
    for (int c = 0; c < (one ? 1 : input.c); ++c)
      transform.add_mean_value(values.mean[static_cast<std::size_t>(c)]);
  }
  if (layer.type() != "Data") return;
  if (files.phases == files.unsaid || augment.own_size)
    transform.set_crop_size(static_cast<std::uint32_t>(input.h));
  input.c == 1 ? transform.set_force_gray(true) : transform.set_force_color(true);
}

void CaffeWriter::put_shapes(caffe::LayerParameter& layer, const InputPart& of,
                             std::uint32_t batch) const {
  const Extent& input = of.extent;
  caffe::BlobShape& shape = *layer.mutable_input_param()->add_shape();
  shape.add_dim(batch);
  shape.add_dim(input.c);
  if (!of.augment.flat) shape.add_dim(input.h);
  if (!of.augment.flat) shape.add_dim(input.w);
  if (layer.top_size() > 1) layer.mutable_input_param()->add_shape()->add_dim(batch);
}

void CaffeWriter::put_source(caffe::LayerParameter& layer, const InputPart& of, std::uint32_t batch,
                             const TrainableNet::Files& files, bool trains) const {
  const Extent& input = of.extent;
  if (layer.type() == "Data") {
    caffe::DataParameter& data = *layer.mutable_data_param();
    const std::string& source = trains ? files.train : files.test;
    const std::string usual = of.name.empty() ? "" : of.name + "_";
    data.set_source(!source.empty() ? source : usual + (trains ? "train_lmdb" : "test_lmdb"));
    data.set_backend(caffe::DataParameter::LMDB);
    data.set_batch_size(batch);
    if (source.empty())
      log::warn("the written net reads images from {}, an LMDB that {} does not name",
                data.source(), of_.name);
    return;
  }
  caffe::MemoryDataParameter& data = *layer.mutable_memory_data_param();
  data.set_batch_size(batch);
  data.set_channels(static_cast<std::uint32_t>(input.c));
  data.set_height(static_cast<std::uint32_t>(input.h));
  data.set_width(static_cast<std::uint32_t>(input.w));
}

// Nets without a loss that read pixels as they are have an Input. Images that are squares come
// from an LMDB, others, like vectors, from the memory: only that layer says their size. So do
// images of a prototxt that says their size otherwise than by crop_size.
void CaffeWriter::put_data() {
  if (of_.augment.parts.empty())
    return put_input(
        of_.inputs.front(),
        {.name = "", .extent = of_.options.input, .augment = of_.augment, .labels = true},
        of_.files);
  std::size_t number = 0;
  for (const LayerDescription& layer : of_.layers) {
    if (layer.type != "part") continue;
    const InputPart& part = of_.augment.parts[number];
    blobs_[layer.outputs.front()] = part.name;
    put_input(
        part.name, part,
        number < of_.files_of_inputs.size() ? of_.files_of_inputs[number] : TrainableNet::Files());
    ++number;
  }
}

void CaffeWriter::put_input(const std::string& blob, const InputPart& of,
                            const TrainableNet::Files& files) {
  const Extent& input = of.extent;
  const bool learns = net_.layers().back()->is_loss(), square = input.h == input.w;
  const bool as_stored = of.augment.byte_values == ByteValues{.blue_first = true} &&
                         !of.augment.mean_image && !of.augment.flip;
  const bool only_shapes = files.only_shapes || (!learns && as_stored);
  const bool in_lmdb =
      square && input.h > 1 && (input.c == 1 || input.c == 3) &&
      (files.phases == files.unsaid || of.augment.own_size || !files.train.empty());
  const bool same = files.phases == files.same || (only_shapes && files.phases != files.apart);
  const std::string name = unused(learns ? "images" : "data");
  for (const bool trains : {true, false}) {
    if (!trains && (same || files.phases == files.training)) return;
    const int batch =
        trains || files.test_batch == 0 ? of_.options.micro_batch() : files.test_batch;
    caffe::LayerParameter& layer = *out_.add_layer();
    layer.set_name(name);
    layer.set_type(only_shapes ? "Input" : in_lmdb ? "Data" : "MemoryData");
    layer.add_top(blob);
    if (of.labels && (learns || !only_shapes)) layer.add_top(labels_);
    if (!same) layer.add_include()->set_phase(trains ? caffe::TRAIN : caffe::TEST);
    if (only_shapes) {
      put_shapes(layer, of, static_cast<std::uint32_t>(batch));
      continue;
    }
    put_transform(layer, of, files, trains);
    put_source(layer, of, static_cast<std::uint32_t>(batch), files, trains);
  }
}

}  // namespace omni
