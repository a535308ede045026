#include "layers/layer_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "codelets/loss/label_metrics.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {
namespace {

std::vector<LayerType>& registered() {
  static std::vector<LayerType> types;
  return types;
}

}  // namespace

Layer::Layer(LayerBuilder& builder)
    : index_(builder.index()),
      type_(builder.described().type),
      where_(builder.described().where),
      slices_(&builder.slices()) {}

void Layer::share_output(Layer& before, TensorPool& tensors) {
  const auto replace = [&](std::vector<Tensor*>& theirs, const std::vector<Tensor*>& ours) {
    for (const Tensor* each : theirs) before.tensor_bytes_ -= tensors.leave_out(*each);
    theirs = ours;
  };
  replace(before.output_.value, output_.value);
  if (!inputs_.front()->wants_gradient()) return;
  replace(before.output_.diff, output_.diff);
  inputs_.front()->diff = output_.diff;
}

void Layer::add_gradients_in_place(TensorPool& tensors) {
  if (!adds_gradients()) return;
  for (Input* input : inputs_) {
    if (!input->wants_gradient() || input->diff == input->blob->diff) continue;
    for (const Tensor* each : input->diff) tensor_bytes_ -= tensors.leave_out(*each);
    input->diff = input->blob->diff;
    input->adds = true;
  }
}

LayerBuilder::LayerBuilder(NetParts& parts, const LayerDescription& described,
                           std::vector<int> inputs)
    : parts_(parts),
      described_(described),
      inputs_(std::move(inputs)),
      bytes_before_(parts.tensors.bytes()) {
  if (training())
    for (const std::string& remark : described.remarks) log::warn_once("{}", remark);
}

void LayerBuilder::refuse(std::string_view option, std::string what, std::string hint) {
  if (!status_) return;
  status_ = Error{ErrorKind::usage, described_.place_of(option), std::move(what), std::move(hint)};
}

void LayerBuilder::warn(std::string_view option, std::string_view remark) const {
  if (const auto place = described_.places.find(option); place != described_.places.end())
    log::warn_once("{}: {} {}{}", place->second.where, shown_name(place->second.written), remark,
                   place->second.note);
}

void LayerBuilder::finish(std::unique_ptr<Layer> layer) {
  layer->inputs_ = std::move(used_);
  layer->tensor_bytes_ = parts_.tensors.bytes() - bytes_before_;
  parts_.layers.push_back(std::move(layer));
}

Blob& LayerBuilder::blob_of(std::size_t input) const {
  const int layer = inputs_[input];
  return layer < 0 ? parts_.data : parts_.layers[static_cast<std::size_t>(layer)]->read_by_others();
}

Input& LayerBuilder::add_input(std::size_t which) {
  Input& input = parts_.inputs.emplace_back();
  input.blob = &blob_of(which);
  used_.push_back(&input);
  return input;
}

Input& LayerBuilder::input(std::size_t which) {
  Input& input = add_input(which);
  Blob& blob = *input.blob;
  if (parts_.training && !blob.diff.empty()) {
    input.diff = blob.diff;
    // Backward runs from the last layer to the first. So among the layers that read a blob, the
    // last one writes the blob's own gradient. Each other one gets a private tensor, which the net
    // adds afterwards. Net::fuse_layers() drops it for layers that can add to the gradient.
    Input*& newest = parts_.newest_consumer[&blob];
    if (newest != nullptr) {
      const std::size_t before = parts_.tensors.bytes();
      newest->diff =
          per_slice(fmt::format("share{}", parts_.inputs.size()), blob.extent.count(), values());
      for (const auto& reader : parts_.layers)  // that layer counts them, not this one
        if (std::ranges::find(reader->inputs_, newest) != reader->inputs_.end()) {
          const std::size_t bytes = parts_.tensors.bytes() - before;
          reader->tensor_bytes_ += bytes;
          bytes_before_ += bytes;
        }
    }
    newest = &input;
  }
  return input;
}

bool LayerBuilder::learns(std::size_t which) const {
  std::vector<const Blob*> sources{&blob_of(which)};
  for (auto layer = parts_.layers.rbegin(); layer != parts_.layers.rend(); ++layer) {
    if (std::ranges::find(sources, &(*layer)->read_by_others()) == sources.end()) continue;
    if (std::ranges::any_of((*layer)->params(), &Param::trainable)) return true;
    for (const Input* input : (*layer)->inputs()) sources.push_back(input->blob);
  }
  return false;
}

std::string LayerBuilder::qualified(const std::string& name) const {
  return fmt::format("{:03}.{}.{}", index(), described_.type, name);
}

Blob LayerBuilder::blob(const std::string& name, Extent extent, DataType type) {
  if (!extent.countable()) {
    refuse("", fmt::format("{} would be {}x{}x{}", name, extent.w, extent.h, extent.c),
           "make the layer or its input smaller: 2147483647 elements are the most");
    extent = {1, 1, 1};
  }
  Blob blob{.extent = extent, .value = per_slice(name, extent.count(), type), .diff = {}};
  if (parts_.training) blob.diff = per_slice(name + ".diff", extent.count(), type);
  return blob;
}

bool LayerBuilder::room_for(std::size_t tensors) {
  if (parts_.tensors.count() + tensors <= kMaxTensors) return true;
  refuse("", fmt::format("the net would need more than {} tensors", kMaxTensors),
         "use larger slices or fewer layers");
  return false;
}

Tensor& LayerBuilder::tensor(const std::string& name, std::size_t count, DataType type) {
  if (count > kMaxElements) {
    refuse("", fmt::format("{} would need more than {} elements in one tensor", name, kMaxElements),
           "use a smaller batch, slice or layer");
    count = 1;
  }
  if (!room_for(1)) return parts_.tensors.last();
  return parts_.tensors.declare(qualified(name), count, type);
}

std::vector<Tensor*> LayerBuilder::per_slice(const std::string& name, std::size_t per_image,
                                             DataType type) {
  if (!room_for(slices().sizes.size())) return {};
  std::vector<Tensor*> tensors;
  for (const int images : slices().sizes)
    tensors.push_back(&tensor(fmt::format("{}.{}", name, tensors.size()),
                              per_image * static_cast<std::size_t>(images), type));
  return tensors;
}

const std::vector<Tensor*>& LayerBuilder::auxiliary_metrics() {
  std::vector<Tensor*>& metrics = parts_.auxiliary_metrics.emplace_back();
  for (int slice = 0; slice < slices().count(); ++slice)
    metrics.push_back(&tensor(fmt::format("metrics.{}", slice), kMetrics));
  return metrics;
}

Param& LayerBuilder::param(Param description, bool can_update_in_backward) {
  std::size_t count = 1;
  for (const std::int64_t size : description.shape) {
    std::uint64_t product = 0;
    count =
        checked_multiply(count, static_cast<std::uint64_t>(size), &product) ? product : UINT64_MAX;
  }
  // The nets of all compute groups are built alike, so a parameter has the same number in each of
  // them.
  const Param* master =
      parts_.master_params != nullptr ? &(*parts_.master_params)[parts_.params.size()] : nullptr;
  Param& param = parts_.params.emplace_back(std::move(description));
  const bool learns = parts_.training && param.trainable;
  if (learns && parts_.layers.size() < parts_.replicated_layers)
    param.replica = &tensor(param.name + ".replica", count);
  param.master = master != nullptr ? master->master : &tensor(param.name, count);
  param.value = param.replica != nullptr ? param.replica : param.master;
  // The optimizer state belongs to the first group's net, as the master copy does.
  const auto shared = [&](Tensor* Param::*tensor, const char* name) {
    return master != nullptr ? master->*tensor : &this->tensor(param.name + name, count);
  };
  const bool own = param.replica != nullptr && parts_.own_models;
  const auto remembered = [&](Tensor* Param::*tensor, const char* name) {
    return own ? &this->tensor(param.name + name, count) : shared(tensor, name);
  };
  param.updated_in_backward = can_update_in_backward && learns && parts_.update_in_backward &&
                              param.replica == nullptr &&
                              (parts_.complete_gradients || param.parts_per_rank > 0);
  param.overwrites_diff = param.can_overwrite_diff && learns && parts_.overwrite_diffs;
  if (learns && !param.updated_in_backward) {
    // Groups take turns in the merged phase, so all of them use the same gradient tensor.
    if (master != nullptr && param.replica == nullptr && !parts_.own_gradients) {
      param.diff = master->diff;
      param.partial_diffs = master->partial_diffs;
      param.sums.count = master->sums.count;
    } else {
      param.diff = &tensor(param.name + ".diff", count);
      if (param.by_slice) param.sums = parts_.gradient_sums;
      for (int sum = 1; sum < param.sums.count; ++sum)
        param.partial_diffs.push_back(&tensor(fmt::format("{}.diff{}", param.name, sum), count));
    }
  }
  if (learns) {
    param.velocity = remembered(&Param::velocity, ".velocity");
    if (parts_.adam) param.mean_square = remembered(&Param::mean_square, ".mean_square");
  }
  if (own) {
    param.change = shared(&Param::change, ".change");
    param.centre_velocity = shared(&Param::centre_velocity, ".centre_velocity");
  }
  if (param.in_products && learns && parts_.round_weights)
    param.master->round_into(tensor(param.name + ".bf16", count, DataType::bf16));
  param.name = qualified(param.name);
  param.load = described_.load;
  param.owner = described_.name;
  if (const auto said = described_.params.find(param.role); said != described_.params.end()) {
    param.rate = said->second.rate;
    param.in_files = said->second.in_files;
    if (!said->second.owner.empty()) param.owner = said->second.owner;
    param.decay = said->second.decay.value_or(param.decay);
    param.filler = said->second.filler.value_or(param.filler);
    const float inputs = static_cast<float>(count) / static_cast<float>(param.shape[0]),
                outputs = param.role == ParamRole::weights && described_.type == "connected"
                              ? static_cast<float>(param.shape[0])
                              : static_cast<float>(count) / static_cast<float>(param.shape.back());
    if (param.filler.by_inputs && param.filler.by_outputs)
      param.filler.scale /= std::sqrt((inputs + outputs) / 2);
    else if (param.filler.by_inputs || param.filler.by_outputs)
      param.filler.scale /= std::sqrt(param.filler.by_inputs ? inputs : outputs);
    if (!said->second.shared_as.empty())
      refuse("", fmt::format("{} is shared as {}", param.name, shown_name(said->second.shared_as)),
             "layers do not share parameters: give each its own");
  }
  return param;
}

LayerRegistration::LayerRegistration(LayerType type) {
  auto& types = registered();
  const auto place = std::lower_bound(
      types.begin(), types.end(), type.name,
      [](const LayerType& each, std::string_view name) { return each.name < name; });
  types.insert(place, std::move(type));
}

const std::vector<LayerType>& layer_types() { return registered(); }

Result<const LayerType*> find_layer_type(const LayerDescription& layer) {
  const auto type = std::ranges::find(layer_types(), layer.type, &LayerType::name);
  if (type != layer_types().end()) return &*type;
  return Error{ErrorKind::usage, layer.where,
               fmt::format("there is no type of layer {}", shown_name(layer.type)), ""};
}

}  // namespace omni
