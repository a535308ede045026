// This header has the sections of a cfg file that are layers. For each it has the keys, as data,
// and a function that makes a layer description from a section. Reading, "did you mean" and
// `omni-run layers` use the declared keys.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/formats/darknet/sections.hpp"
#include "layers/net_description.hpp"

namespace omni {

// A DarknetLayerReader reads one section of a cfg file.
struct DarknetLayerReader {
  OptionReader& options;
  LayerDescription& layer;
  int index;                       // of the layer
  float smoothing;                 // of the targets, as [net] says
  std::vector<InputPart>& inputs;  // those that sections [input] describe

  // Reads the key `activation`. Only element-wise activations are known.
  Activation activation(std::string_view fallback);
  // Notes in the layer's description that its `option` is this key of the file. `note` is appended
  // to a warning about it.
  void name(std::string_view option, std::string_view key, const char* note = "");
  // Returns the output of the layer that a reference means. A negative reference is relative.
  // Refuses a reference that is out of range.
  std::string earlier(std::string_view key, int reference);
  // Notes a remark that is printed when the net is to be trained. If `key` is "", the remark is
  // about the section.
  void remark(std::string_view key, std::string_view text);
};

struct DarknetType {
  std::string_view name;  // also the name of the layer type
  std::vector<std::string_view> aliases{};
  std::string_view summary;
  std::vector<Key> keys{};                      // own keys; those of all layers are added
  std::string_view in_vain = "";                // keys without effect, see with_keys_in_vain()
  void (*read)(DarknetLayerReader&) = nullptr;  // null: there is nothing to read
};

const std::vector<DarknetType>& darknet_types();  // sorted by name
std::span<const Key> common_layer_keys();
// Returns the type of a section by name or alias. Otherwise the error says "did you mean", or "not
// supported".
Result<const DarknetType*> find_darknet_type(const Section& section);

// darknet_types() joins the lists that these functions return.
std::vector<DarknetType> darknet_weighted_types();
std::vector<DarknetType> darknet_other_types();

// Returns the layers that the sections describe. `smoothing` is the label smoothing of [softmax].
// `inputs` receives the inputs of sections [input].
Result<std::vector<LayerDescription>> describe_layers(const std::vector<Section>& sections,
                                                      float smoothing, bool strict,
                                                      std::vector<InputPart>& inputs);
// These are the keys of an input and of its augmentation, in [net] and in [input].
std::span<const Key> input_keys();
// Reads these keys. `section` names the section.
InputPart read_darknet_input(OptionReader& options, std::string_view section);

// A ClassesKey is the option for the number of filters or neurons of the last layer that has some.
// set_classes() sets it, and that of each auxiliary loss, to the number of classes. It refuses a
// net in which no single layer decides a number, check_classes() a loss with other outputs.
struct ClassesKey {
  std::string where;
  std::string_view key;
};
Result<ClassesKey> set_classes(std::vector<Section>& layers, int classes);
Status check_classes(const NetDescription& net, int classes, const ClassesKey& set);

}  // namespace omni
