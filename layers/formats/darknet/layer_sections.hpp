// The sections of a cfg that are layers: the keys that each understands, as data, and how a section
// becomes a description. The declaration drives reading, "did you mean" and `omni-run layers`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/formats/darknet/sections.hpp"
#include "layers/net_description.hpp"

namespace omni {

// A section being read.
struct DarknetLayerReader {
  OptionReader& options;
  LayerDescription& layer;
  int index;        // of the layer
  float smoothing;  // of the targets, as [net] says

  // The activation key; only element-wise ones are known.
  Activation activation(std::string_view fallback);
  // Tells the layer that its `option` is this key. `note` follows a warning about it.
  void name(std::string_view option, std::string_view key, const char* note = "");
  // The layer's output that a reference (negative: relative) means, refused when out of range.
  std::string earlier(std::string_view key, int reference);
  // Said when the net is to be trained; about the section, when the key is "".
  void remark(std::string_view key, std::string_view text);
};

struct DarknetType {
  std::string_view name;  // also of the type of layer
  std::vector<std::string_view> aliases{};
  std::string_view summary;
  std::vector<Key> keys{};                      // own keys; those of all layers are added
  std::string_view in_vain = "";                // keys without effect, see with_keys_in_vain()
  void (*read)(DarknetLayerReader&) = nullptr;  // null: there is nothing to read
};

const std::vector<DarknetType>& darknet_types();  // sorted by name
std::span<const Key> common_layer_keys();
// The type of a section by name or alias; an error with "did you mean", or "not supported".
Result<const DarknetType*> find_darknet_type(const Section& section);

// The parts of the list.
std::vector<DarknetType> darknet_weighted_types();
std::vector<DarknetType> darknet_other_types();

// The layers that the sections describe. `smoothing`: of the targets of [softmax].
Result<std::vector<LayerDescription>> describe_layers(const std::vector<Section>& sections,
                                                      float smoothing, bool strict);

// Another number of classes: the option that decides how many outputs the last layer with weights
// has. Refuses a net in which no single layer decides it, naming the section.
struct ClassesKey {
  std::string where;
  std::string_view key;
};
Result<ClassesKey> set_classes(std::vector<Section>& layers, int classes);
Status check_classes(const NetDescription& net, int classes, const ClassesKey& set);

}  // namespace omni
