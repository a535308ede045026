// This header has the types of layers, and LayerBuilder, from which a layer's constructor gets its
// tensors and parameters.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "layers/layer.hpp"
#include "runtime/tasks/tensor.hpp"
#include "runtime/tasks/tensor_pool.hpp"

namespace omni {

// A vector may have at most this many elements, as StarPU counts them in 32 bits.
inline constexpr std::uint64_t kMaxElements = std::numeric_limits<std::uint32_t>::max();

// A net has at most this many tensors, since each takes memory even before it is allocated.
// ResNet-50 in kMaxSlices slices declares about 85,000.
inline constexpr std::size_t kMaxTensors = 1 << 19;

// ConnectedBlocks divides the neurons of a connected layer into blocks; each task computes one
// block.
struct ConnectedBlocks {
  int width = 1;     // neurons of each; the last one has the rest
  int per_rank = 0;  // that each rank computes, for the images of all; 0: every rank computes all
};

// NetParts are what the layers of one net share, while the net is built and afterwards.
struct NetParts {
  bool training = false;
  bool adam = false;
  bool update_in_backward = false;
  bool complete_gradients = true;  // false: other ranks have parts of the sums
  bool overwrite_diffs = false;
  bool round_weights = false;    // true: to bf16 once per update; false: for every product
  GradientSums gradient_sums{};  // of parameters to whose gradient every slice adds
  std::function<ConnectedBlocks(int inputs, int outputs)> connected_blocks{};
  DataType values = DataType::f32;  // of activations and their gradients
  Slices slices;
  TensorPool tensors;
  std::deque<Param> params;
  std::deque<Input> inputs;
  std::unordered_map<const Blob*, Input*> newest_consumer;
  Blob data;                          // the images; its value tensors are set per mini-batch
  std::size_t replicated_layers = 0;  // number of layers, from the first on, that read replicas
  bool own_models = false;            // each group trains its replica, see Sharing
  bool own_gradients = false;         // also in the merged phase: the master net computes none
  const std::deque<Param>* master_params = nullptr;     // of the net with the master copies
  std::vector<std::vector<Tensor*>> auxiliary_metrics;  // of each auxiliary loss, by slice
  std::vector<std::unique_ptr<Layer>> layers;
};

// LayerBuilder gives a layer's constructor the description, inputs, tensors and parameters. It
// manages names, gradient tensors and owners of tensors for all layers.
class LayerBuilder {
 public:
  // `inputs` are the numbers of the layers whose outputs are the inputs; -1 stands for the images.
  LayerBuilder(NetParts& parts, const LayerDescription& described, std::vector<int> inputs);

  template <class Options>
  const Options& options() {
    static const Options none;
    if (const auto* options = std::get_if<Options>(&described_.options)) return *options;
    refuse("", "has options of another type of layer");
    return none;
  }
  // Refuses an option, or the layer if `option` is "". Only the first refusal counts.
  void refuse(std::string_view option, std::string what, std::string hint = "");
  // Warns about an option, if the description has it.
  void warn(std::string_view option, std::string_view remark) const;
  const Status& status() const { return status_; }
  int index() const { return static_cast<int>(parts_.layers.size()); }
  bool training() const { return parts_.training; }
  const Slices& slices() const { return parts_.slices; }
  ConnectedBlocks connected_blocks(int inputs, int outputs) const {
    return parts_.connected_blocks(inputs, outputs);
  }
  DataType values() const { return parts_.values; }
  const LayerDescription& described() const { return described_; }

  // Returns, for each input, the number of the layer whose output it is; -1 stands for the images.
  const std::vector<int>& inputs() const { return inputs_; }
  // Returns an input, and registers the layer as one of its readers.
  Input& input(std::size_t which = 0);
  // Returns an input's blob, for a layer that adds no gradient to it. A layer that only passes the
  // blob on makes its output an alias of it (Layer::alias_output()), so both have the same
  // gradient.
  Blob& alias(std::size_t which = 0) { return *add_input(which).blob; }
  // Returns whether a layer from which an input comes has parameters that learn.
  bool learns(std::size_t which) const;
  // Returns the extent of an input. Unlike input(), it does not register the layer as a reader.
  const Extent& extent(std::size_t which = 0) const { return blob_of(which).extent; }

  Blob blob(const std::string& name, Extent extent) { return blob(name, extent, values()); }
  Blob float_blob(const std::string& name, Extent extent) {
    return blob(name, extent, DataType::f32);
  }
  Tensor& tensor(const std::string& name, std::size_t count, DataType type = DataType::f32);
  Tensor& matrix(const std::string& name, int rows, int columns, DataType type = DataType::f32) {
    return tensor(name, static_cast<std::size_t>(rows) * columns, type);
  }
  // Declares a tensor for each slice, with `per_image` values per image.
  std::vector<Tensor*> per_slice(const std::string& name, std::size_t per_image,
                                 DataType type = DataType::f32);
  // Declares the metrics of an auxiliary loss, by slice. The net's own loss adds them to its own.
  const std::vector<Tensor*>& auxiliary_metrics();
  const std::vector<std::vector<Tensor*>>& all_auxiliary_metrics() const {
    return parts_.auxiliary_metrics;
  }
  // Declares a parameter. `can_update_in_backward` means that a task of the layer can compute the
  // gradient and apply the update at once. If Param::updated_in_backward is true in the result, the
  // task must do so.
  Param& param(Param description, bool can_update_in_backward = false);

  // The net calls finish() after the layer's constructor.
  void finish(std::unique_ptr<Layer> layer);

 private:
  Blob blob(const std::string& name, Extent extent, DataType type);
  std::string qualified(const std::string& name) const;
  Blob& blob_of(std::size_t input) const;
  Input& add_input(std::size_t which);
  bool room_for(std::size_t tensors);  // false: the layer is refused
  NetParts& parts_;
  const LayerDescription& described_;
  std::vector<int> inputs_;
  Status status_;
  std::size_t bytes_before_;
  std::vector<Input*> used_;
};

// Every layer type registers itself in its own file, with the types below.

// With several groups, the parameters of a layer have copies per group, or one copy for all groups.
// One copy is possible only if no later layer has copies per group. `either` is for layers with few
// or no parameters: they follow the layers beside them.
enum class InGroups { either, copies, one };

struct LayerType {
  std::string_view name;
  std::unique_ptr<Layer> (*make)(LayerBuilder&);  // problems go to refuse()
  InGroups in_groups = InGroups::either;
};

// Each layer's file has a static object of type LayerRegistration, which registers the layer before
// main().
struct LayerRegistration {
  explicit LayerRegistration(LayerType type);
};

template <class T>
std::unique_ptr<Layer> make_layer(LayerBuilder& builder) {
  return std::make_unique<T>(builder);
}

// Returns the arguments of one slice's task, made from `args` and the number of images of the
// slice.
template <class Args>
Args with_images(Args args, int images) {
  args.n = images;
  return args;
}

const std::vector<LayerType>& layer_types();  // sorted by name
Result<const LayerType*> find_layer_type(const LayerDescription& layer);

}  // namespace omni
