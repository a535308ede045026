// This file reads the sections of layers with weights: filters that slide over the image, and
// connected layers.
#include <fmt/format.h>

#include "layers/formats/darknet/layer_sections.hpp"

namespace omni {
namespace {

// Several of these layers have these keys.
constexpr Key kFilters{"filters", "1", "output channels"};
constexpr Key kSize{"size", "1", "filter height and width"};
constexpr Key kStride{"stride", "1", "step of the window"};
constexpr Key kNormalize{"batch_normalize", "0", "1: normalise before the activation"};
constexpr Key kActivation{"activation", "logistic",
                          "after the bias: linear relu leaky logistic tanh and more of Darknet's"};
constexpr std::string_view kNotBinary = "weights are floats";
constexpr std::string_view kNotDeformed = "filters are not deformed";

FilterOptions read_filters(DarknetLayerReader& reader) {
  FilterOptions filters;
  filters.size = Sides::square(reader.options.integer("size", 1, 1, 4096));
  filters.stride = Sides::square(reader.options.integer("stride", 1, 1, 4096));
  filters.filters = reader.options.integer("filters", 1, 1, 1 << 20);
  filters.activation = reader.activation("logistic");
  return filters;
}

// Reads the padding of filters. As in Darknet, pad=1 means size/2 and overrides the key padding.
int read_padding(DarknetLayerReader& reader, int size) {
  const int padding = reader.options.integer("padding", 0, 0, 4096);
  if (!reader.options.flag("pad", false)) return padding;
  reader.name("padding", "pad");
  return size / 2;
}

void read_convolutional(DarknetLayerReader& reader) {
  OptionReader& options = reader.options;
  FilterOptions filters = read_filters(reader);
  const int size = filters.size.h, wanted = options.integer("dilation", 1, 1, 4096),
            dilation = size == 1 ? 1 : wanted;
  const int taps = read_padding(reader, size);  // in taps, as in AlexeyAB's Darknet
  if (dilation > 1 && 2 * taps != size - 1)
    options.warn("dilation",
                 "makes another size here than in AlexeyAB's Darknet, which leaves it out of the "
                 "size unless the padding is (size-1)/2");
  filters.dilation = Sides::square(dilation);
  filters.padding = Sides::square(taps * dilation);
  filters.stride.h = options.integer("stride_y", filters.stride.h, 1, 4096);
  filters.stride.w = options.integer("stride_x", filters.stride.w, 1, 4096);
  filters.groups = options.integer("groups", 1, 1, 1 << 20);
  filters.normalise = options.flag("batch_normalize", false);
  reader.layer.options = filters;
}

void read_deconvolutional(DarknetLayerReader& reader) {
  FilterOptions filters = read_filters(reader);
  filters.padding = Sides::square(read_padding(reader, filters.size.h));
  filters.normalise = reader.options.flag("batch_normalize", false);
  reader.layer.options = filters;
}

// Reads [local], where pad=1 means size/2 as in [convolutional]. Darknet pads by 1 whatever the
// size is, but counts (h - 1) / stride + 1 outputs. The two agree only for a size of 3. For that
// size the padding is the same as in Darknet.
void read_local(DarknetLayerReader& reader) {
  FilterOptions filters = read_filters(reader);
  filters.padding = Sides::square(reader.options.flag("pad", false) ? filters.size.h / 2 : 0);
  reader.layer.options = filters;
}

void read_connected(DarknetLayerReader& reader) {
  ConnectedOptions connected;
  connected.outputs = reader.options.integer("output", 1, 1, 1 << 24);
  const float deviation = reader.options.real("weights_std", 0, 0, 1e6f);
  if (deviation != 0)
    reader.layer.params[ParamRole::weights].filler = {Filler::Kind::normal, deviation};
  connected.normalise = reader.options.flag("batch_normalize", false);
  connected.activation = reader.activation("logistic");
  reader.layer.options = connected;
}

}  // namespace

std::vector<DarknetType> darknet_weighted_types() {
  return {
      {.name = "convolutional",
       .aliases = {"conv"},
       .summary = "convolution with bias or batch normalisation, and an activation",
       .keys = {kFilters,
                kSize,
                kStride,
                {"stride_x", "stride", "step along the width"},
                {"stride_y", "stride", "step along the height"},
                {"pad", "0", "1: padding=size/2"},
                {"padding", "0", "on each side, unless pad=1"},
                {"dilation", "1", "distance of the filter's taps; multiplies the padding"},
                {"groups", "1", "channels are filtered in so many separate groups"},
                kNormalize,
                kActivation,
                {"binary", "0", kNotBinary, Effect::refused},
                {"xnor", "0", kNotBinary, Effect::refused},
                {"flipped", "0", "it is for weights files with transposed filters",
                 Effect::refused},
                {"antialiasing", "0", "there is no blur between the filter and the stride",
                 Effect::refused},
                {"share_index", "", "layers do not share weights", Effect::refused},
                {"cbn", "0", "batches are normalised by themselves", Effect::refused},
                {"sway", "0", kNotDeformed, Effect::refused},
                {"rotate", "0", kNotDeformed, Effect::refused},
                {"stretch", "0", kNotDeformed, Effect::refused},
                {"stretch_sway", "0", kNotDeformed, Effect::refused},
                {"coordconv", "0", "no coordinates are added to the input", Effect::refused}},
       .in_vain = "assisted_excitation=0 bin_output=0 grad_centr=0 reverse=0 dot=0",
       .read = read_convolutional},
      {.name = "deconvolutional",
       .aliases = {"deconv"},
       .summary = "transposed convolution with bias or batch normalisation, and an activation",
       .keys = {kFilters,
                kSize,
                {"stride", "1", "enlarges the image"},
                {"pad", "0", "1: padding=size/2"},
                {"padding", "0", "taken off each side, unless pad=1"},
                kNormalize,
                kActivation},
       .read = read_deconvolutional},
      {.name = "local",
       .summary = "convolution with filters of its own at every place, and an activation",
       .keys = {kFilters, kSize, kStride, {"pad", "0", "1: size/2 on each side"}, kActivation},
       .read = read_local},
      {.name = "connected",
       .aliases = {"conn"},
       .summary = "fully connected, with bias or batch normalisation, and an activation",
       .keys =
           {{"output", "1", "neurons"},
            {"batch_normalize", "0", "1: normalise before the activation"},
            {"weights_std", "0",
             "standard deviation of the initial weights; 0: Darknet's. Darknet has no such key"},
            {"activation", "logistic",
             "after the bias: linear relu leaky logistic tanh and more of Darknet's"}},
       .read = read_connected},
  };
}

}  // namespace omni
