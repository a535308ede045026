#include "layers/layer_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/nearest.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {
namespace {

// Keys of every Darknet layer. The ignored ones have no meaning when classifying.
constexpr std::array<Key, 6> kCommonKeys{{
    {"learning_rate", "1", "multiplies the net's learning rate for this layer"},
    {"stopbackward", "0", "1: this layer and all before it stay as they are"},
    {"dontload", "0",
     "1: keep the initial values when weights are loaded; the file has some all the same, "
     "but need not at the end of the net"},
    {"dontsave", "0", "1: initial values are not overwritten in saved .weights", Effect::none},
    {"dontloadscales", "0", "1: keep the initial batch-norm scales when weights are loaded",
     Effect::none},
    {"numload", "0", "how many filters to load", Effect::none},
}};

constexpr std::string_view kCommonKeysInVain =
    "onlyforward=0 truth=0 smooth=0 noweights=0 train_only_bn=0 burnin_update=0 "
    "dont_update=0 clip=0 stream=-1 wait_stream=-1";

// Sections of Darknet's other trades, and why they are refused.
constexpr std::array kForeign{
    "yolo",        "region",        "detection", "iseg",           "rnn",      "crnn",   "gru",
    "lstm",        "conv_lstm",     "history",   "gaussian_yolo",  "sam",      "empty",  "silence",
    "contrastive", "local_avgpool", "local_avg", "scale_channels", "implicit", "reorg3d"};

std::vector<LayerType>& registered() {
  static std::vector<LayerType> types;
  return types;
}

}  // namespace

Layer::Layer(LayerBuilder& builder)
    : index_(builder.index()),
      type_(builder.type()),
      where_(builder.where()),
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

LayerBuilder::LayerBuilder(NetParts& parts, const Section& section, std::string_view type,
                           std::span<const Key> keys)
    : parts_(parts),
      type_(type),
      where_(section.where()),
      options_(section, keys),
      rate_(options_.real("learning_rate", 1, 0)),
      load_(!options_.flag("dontload", false)),
      stop_backward_(options_.flag("stopbackward", false)),
      bytes_before_(parts.tensors.bytes()) {}

void LayerBuilder::finish(std::unique_ptr<Layer> layer) {
  layer->inputs_ = std::move(used_);
  layer->tensor_bytes_ = parts_.tensors.bytes() - bytes_before_;
  parts_.layers.push_back(std::move(layer));
}

Input& LayerBuilder::add_input(int layer) {
  Input& input = parts_.inputs.emplace_back();
  input.blob =
      layer < 0 ? &parts_.data : &parts_.layers[static_cast<std::size_t>(layer)]->read_by_others();
  used_.push_back(&input);
  return input;
}

Blob& LayerBuilder::alias(int layer) { return *add_input(layer).blob; }

Input& LayerBuilder::input_from(int layer) {
  Input& input = add_input(layer);
  Blob& blob = *input.blob;
  if (parts_.training && !blob.diff.empty()) {
    input.diff = blob.diff;
    // Backward runs from the last layer to the first, so the newest consumer writes the blob's
    // gradient and every earlier one gets a private tensor, which the net adds afterwards.
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

const Extent& LayerBuilder::extent_of(int layer) const {
  return layer < 0 ? parts_.data.extent
                   : parts_.layers[static_cast<std::size_t>(layer)]->output().extent;
}

int LayerBuilder::resolve(std::string_view key, int reference) {
  const int target = reference < 0 ? index() + reference : reference;
  if (target >= 0 && target < index()) return target;
  options_.refuse(key, fmt::format("{} = {} does not name an earlier layer", key, reference),
                  index() == 0 ? "there is none yet"
                               : fmt::format("layers 0 to {}, or -1 to -{}", index() - 1, index()));
  return index() - 1;
}

std::string LayerBuilder::qualified(const std::string& name) const {
  return fmt::format("{:03}.{}.{}", index(), type_, name);
}

Blob LayerBuilder::blob(const std::string& name, Extent extent, DataType type) {
  if (!extent.countable()) {
    options_.refuse("", fmt::format("{} would be {}x{}x{}", name, extent.w, extent.h, extent.c),
                    "make the layer or its input smaller: 2147483647 elements are the most");
    extent = {1, 1, 1};
  }
  Blob blob{.extent = extent, .value = per_slice(name, extent.count(), type), .diff = {}};
  if (parts_.training) blob.diff = per_slice(name + ".diff", extent.count(), type);
  return blob;
}

bool LayerBuilder::room_for(std::size_t tensors) {
  if (parts_.tensors.count() + tensors <= kMaxTensors) return true;
  options_.refuse("", fmt::format("the net would need more than {} tensors", kMaxTensors),
                  "use larger slices or fewer layers");
  return false;
}

Tensor& LayerBuilder::tensor(const std::string& name, std::size_t count, DataType type) {
  if (count > kMaxElements) {
    options_.refuse(
        "", fmt::format("{} would need more than {} elements in one tensor", name, kMaxElements),
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

Param& LayerBuilder::param(Param description, bool can_update_in_backward) {
  std::size_t count = 1;
  for (const std::int64_t size : description.shape) {
    std::uint64_t product = 0;
    count =
        checked_multiply(count, static_cast<std::uint64_t>(size), &product) ? product : UINT64_MAX;
  }
  // The nets of all compute groups are built alike, so parameters correspond by number.
  const Param* master =
      parts_.master_params != nullptr ? &(*parts_.master_params)[parts_.params.size()] : nullptr;
  Param& param = parts_.params.emplace_back(std::move(description));
  // A vector is the same in every format.
  if (param.rows * param.spatial * param.channels == 1)
    param.channels = static_cast<std::int64_t>(count);
  const bool learns = parts_.training && param.trainable;
  if (learns && parts_.layers.size() < parts_.replicated_layers)
    param.replica = &tensor(param.name + ".replica", count);
  param.master = master != nullptr ? master->master : &tensor(param.name, count);
  param.value = param.replica != nullptr ? param.replica : param.master;
  // Like the master, what an update remembers is that of the first group's net.
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
    // Groups take turns in the merged phase, so one gradient does for all of them.
    if (master != nullptr && param.replica == nullptr && !parts_.own_gradients) {
      param.diff = master->diff;
      param.partial_diffs = master->partial_diffs;
    } else {
      param.diff = &tensor(param.name + ".diff", count);
      param.slices_per_sum = parts_.gradient_sums.slices_each;
      for (int sum = 1; param.by_slice && sum < parts_.gradient_sums.count; ++sum)
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
  param.rate = rate_;
  param.load = load_;
  return param;
}

std::span<const Key> common_layer_keys() {
  static const std::vector<Key> keys = with_keys_in_vain(kCommonKeys, kCommonKeysInVain);
  return keys;
}

LayerRegistration::LayerRegistration(LayerType type) {
  type.keys = with_keys_in_vain(type.keys, type.in_vain);
  const std::span<const Key> common = common_layer_keys();
  type.keys.insert(type.keys.end(), common.begin(), common.end());
  auto& types = registered();
  const auto place = std::lower_bound(
      types.begin(), types.end(), type.name,
      [](const LayerType& each, std::string_view name) { return each.name < name; });
  types.insert(place, std::move(type));
}

const std::vector<LayerType>& layer_types() { return registered(); }

Result<const LayerType*> find_layer_type(const Section& section) {
  std::vector<std::string_view> names;
  for (const LayerType& type : layer_types()) {
    names.push_back(type.name);
    names.insert(names.end(), type.aliases.begin(), type.aliases.end());
    if (type.name == section.type ||
        std::ranges::find(type.aliases, section.type) != type.aliases.end())
      return &type;
  }
  if (std::ranges::find(kForeign, section.type) != kForeign.end())
    return Error{ErrorKind::usage, section.where(),
                 fmt::format("section [{}] is not supported", section.type),
                 "omni-run layers lists what is"};
  const std::string_view close = nearest(section.type, names);
  return Error{ErrorKind::usage, section.where(), fmt::format("unknown section [{}]", section.type),
               close.empty() ? "omni-run layers lists the known ones"
                             : fmt::format("did you mean [{}]?", close)};
}

}  // namespace omni
