// Every layer type registers itself in its own file. The registry answers "what is [conv]?", names
// the keys it understands, and prints the support matrix.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "layers/layer_builder.hpp"

namespace omni {

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
