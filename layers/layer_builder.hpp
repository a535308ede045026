// The types of layers, and what a layer's constructor may ask for.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "layers/layer.hpp"
#include "layers/options.hpp"
#include "runtime/tasks/tensor.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {

// StarPU counts a vector's elements in 32 bits.
inline constexpr std::uint64_t kMaxElements = std::numeric_limits<std::uint32_t>::max();

// Most tensors of one net: each takes some memory before it is allocated. ResNet-50 in kMaxSlices
// slices declares some 85,000.
inline constexpr std::size_t kMaxTensors = 1 << 19;

// Neurons of a connected layer, in blocks that are tasks.
struct ConnectedBlocks {
  int width = 1;     // neurons of each; the last one has the rest
  int per_rank = 0;  // that each rank computes, for the images of all; 0: every rank computes all
};

struct GradientSums {
  int count = 1;
  int slices_each = 0;  // consecutive slices per sum; 0: slice i adds to sum i mod count
};

// What the layers of one net share while it is built and afterwards.
struct NetParts {
  bool training = false;
  bool adam = false;
  bool update_in_backward = false;
  bool complete_gradients = true;  // of the mini-batch; else other ranks have their parts
  bool overwrite_diffs = false;
  bool round_weights = false;    // once an update, instead of for every product
  GradientSums gradient_sums{};  // of parameters to whose gradient every slice adds
  std::function<ConnectedBlocks(int inputs, int outputs)> connected_blocks{};
  float label_smoothing = 0;
  DataType values = DataType::f32;  // of activations and their gradients
  Slices slices;
  TensorPool tensors;
  std::deque<Param> params;
  std::deque<Input> inputs;
  std::unordered_map<const Blob*, Input*> newest_consumer;
  Blob data;                          // the images; its value tensors are set per mini-batch
  std::size_t replicated_layers = 0;  // so many first layers read replicas
  bool own_models = false;            // each group trains its replica, see Sharing
  bool own_gradients = false;         // in the merged phase: the master net never computes it
  const std::deque<Param>* master_params = nullptr;  // of the net that holds the master copies
  std::vector<std::unique_ptr<Layer>> layers;
};

// The options, inputs, tensors and parameters of a layer being made. Keeps the bookkeeping (names,
// gradient routing, who owns what) out of the layers.
class LayerBuilder {
 public:
  LayerBuilder(NetParts& parts, const Section& section, std::string_view type,
               std::span<const Key> keys);

  OptionReader& options() { return options_; }
  int index() const { return static_cast<int>(parts_.layers.size()); }
  bool training() const { return parts_.training; }
  float label_smoothing() const { return parts_.label_smoothing; }
  bool stops_backward() const { return stop_backward_; }
  const Slices& slices() const { return parts_.slices; }
  ConnectedBlocks connected_blocks(int inputs, int outputs) const {
    return parts_.connected_blocks(inputs, outputs);
  }
  DataType values() const { return parts_.values; }
  std::string_view type() const { return type_; }
  const std::string& where() const { return where_; }

  // The previous layer's output, or the images. Registers the layer as its consumer.
  Input& input() { return input_from(index() - 1); }
  Input& input_from(int layer);
  // Output of a layer, for a layer that only passes it on: readers of both share its gradient.
  Blob& alias(int layer);
  // Extent of a layer's output, for layers that may not read it.
  const Extent& extent_of(int layer) const;
  // A Darknet layer reference (negative: relative) as an index, refused under `key` when out of
  // range.
  int resolve(std::string_view key, int reference);

  Blob blob(const std::string& name, Extent extent) { return blob(name, extent, values()); }
  Blob float_blob(const std::string& name, Extent extent) {
    return blob(name, extent, DataType::f32);
  }
  Tensor& tensor(const std::string& name, std::size_t count, DataType type = DataType::f32);
  Tensor& matrix(const std::string& name, int rows, int columns, DataType type = DataType::f32) {
    return tensor(name, static_cast<std::size_t>(rows) * columns, type);
  }
  // One tensor per slice of `per_image` values per image.
  std::vector<Tensor*> per_slice(const std::string& name, std::size_t per_image,
                                 DataType type = DataType::f32);
  // can_update_in_backward: the layer has a task that computes the gradient and updates. The layer
  // must use it where the result says so (Param::updated_in_backward).
  Param& param(Param description, bool can_update_in_backward = false);

  // Called by the net after the layer's constructor.
  void finish(std::unique_ptr<Layer> layer);

 private:
  Blob blob(const std::string& name, Extent extent, DataType type);
  std::string qualified(const std::string& name) const;
  Input& add_input(int layer);
  bool room_for(std::size_t tensors);  // refuses otherwise
  NetParts& parts_;
  std::string type_, where_;
  OptionReader options_;
  float rate_;
  bool load_, stop_backward_;
  std::size_t bytes_before_;
  std::vector<Input*> used_;
};

// ---- every layer type registers itself in its own file: the registry answers "what is [conv]?",
// names the keys it understands, and prints the support matrix ----

// Parameters of a layer with several groups: a copy per group, or one for all groups if no later
// layer has copies. `either`: as the layers beside it (few or no parameters).
enum class InGroups { either, copies, one };

struct LayerType {
  std::string_view name;  // Darknet's section name
  std::vector<std::string_view> aliases{};
  std::string_view summary;
  std::vector<Key> keys{};  // own keys; the ones common to all layers are added by the registry
  std::string_view in_vain = "";                  // keys without effect, see with_keys_in_vain()
  std::unique_ptr<Layer> (*make)(LayerBuilder&);  // problems go to builder.options()
  InGroups in_groups = InGroups::either;
};

// Static object in the layer's file: registers before main.
struct LayerRegistration {
  explicit LayerRegistration(LayerType type);
};

template <class T>
std::unique_ptr<Layer> make_layer(LayerBuilder& builder) {
  return std::make_unique<T>(builder);
}

// The arguments of one slice's task, from those of the mini-batch.
template <class Args>
Args with_images(Args args, int images) {
  args.n = images;
  return args;
}

const std::vector<LayerType>& layer_types();  // sorted by name
std::span<const Key> common_layer_keys();

// The type of a section by name or alias; an error with "did you mean", or "not a classification
// layer".
Result<const LayerType*> find_layer_type(const Section& section);

}  // namespace omni
