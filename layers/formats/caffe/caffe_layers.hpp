// This header has the types of Caffe's layers, and functions that make the description of a layer.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layers/formats/caffe/caffe_fields.hpp"
#include "layers/net_description.hpp"

namespace omni {

// A CaffeTransform says how a data layer makes values from pixels.
struct CaffeTransform {
  int crop = 0;  // 0: none
  bool mirror = false, grey = false, colour = false;
  bool is_color = true;  // of ImageData
  float scale = 1;
  std::vector<float> means{};  // one, or one of each channel; none: 0
  std::string place_of_means{};
  std::string mean_file{}, place_of_file{};
};

// A CaffeMeasure is an Accuracy layer, with the label that it ignores.
struct CaffeMeasure {
  std::string blob{}, where{}, place_of_ignored{};
  int ignored = -1;   // -1: none
  bool tests = true;  // is in the TEST phase
};

struct CaffeInput;

// A CaffeNet holds what is known of a net while its layers are read, in the order of the file.
struct CaffeNet {
  TrainableNet& net;
  std::string image{};          // the blob of the images; "": none yet
  std::string image_place{};    // where it is described
  bool knows_channels = false;  // false: those of the data are guessed
  CaffeTransform transform{};
  std::string train_source{}, test_source{};  // LMDBs that layers of data name
  std::set<std::string, std::less<>> made{};  // all blobs
  // Blobs of labels, with the number of the input with whose images they come.
  std::map<std::string, std::size_t, std::less<>> labels{};
  std::optional<std::size_t> labels_of{};  // the input whose labels are read; none: no layer does
  // Blobs that are read as labels, and those that are read otherwise.
  std::set<std::string, std::less<>> read_as_labels{}, read_as_values{};
  std::vector<std::shared_ptr<CaffeInput>> others{};  // the inputs behind the first
  std::set<std::string, std::less<>> flat{};          // blobs that are vectors
  std::set<std::string, std::less<>> shared{};        // names of parameters
  std::map<std::string, int, std::less<>> reads{};    // how often a blob's name is a bottom
  std::optional<LayerDescription> loss{};
  std::string loss_input{};
  bool loss_tests = false;  // the loss is in the TEST phase
  std::ptrdiff_t layers_before_loss = 0;
  std::optional<LayerDescription> probabilities{};           // of a Softmax without loss
  std::map<std::string, std::string, std::less<>> losses{};  // tops of losses: what they read
  std::set<std::string, std::less<>> targets{};              // blobs that losses read
  std::set<std::string, std::less<>> beside{};  // other blobs that only measures may read
  std::vector<CaffeMeasure> measured{};
  std::vector<std::pair<std::string, std::string>> tested{};  // likewise, of TEST and Softmax
  std::vector<std::string> remarks{};                         // for who trains the net

  bool has_values(std::string_view blob) const {  // is no blob of labels
    return read_as_values.contains(blob) && !read_as_labels.contains(blob);
  }
};

// A CaffeInput is a further input of a net. `to` and `net` describe nothing but the input.
struct CaffeInput {
  TrainableNet net{};
  CaffeNet to{.net = net};
};

// A CaffeLayer is a layer that is being read. emit() adds its description to the net.
struct CaffeLayer {
  CaffeFields fields;  // of the whole layer
  CaffeFields own;     // of its parameter, as convolution_param; without one, of the whole layer
  CaffeNet& to;
  LayerDescription description;
  bool tests = true;  // is in the TEST phase

  bool is_old() const;  // V1
  std::string bottom(int index = 0) const { return fields.text("bottom", index); }
  void emit(std::string_view type, LayerOptions options);
  // Notes that the layer reads labels. Refuses a bottom without labels, and labels of two inputs.
  void read_labels(int bottom);
  void name(std::string_view option, std::string_view field);  // where an option is written
};

struct CaffeType {
  std::string_view name{}, old_name{};  // old: of V1's enum; "": it has none
  std::string_view param{};  // field with its options; "": none. The old form may lack it
  enum class Kind { layer, data, loss, measure } kind = Kind::layer;
  int bottoms = 1, most_bottoms = 1, most_tops = 1;  // of a layer
  bool takes_vectors = false;                        // a flattened blob
  bool transforms = false;                           // has transform_param
  bool targets = false;                              // a loss whose second bottom may be any blob
  void (*read)(CaffeLayer&) = nullptr;
};

const std::vector<CaffeType>& caffe_types();
// Returns the type of a layer. Otherwise the error says "did you mean", or "not supported" and why.
Result<const CaffeType*> find_caffe_type(const CaffeFields& layer);

// caffe_types() joins the lists that these functions return.
std::vector<CaffeType> caffe_weighted_types();
std::vector<CaffeType> caffe_channel_types();  // what is by channel: BatchNorm, Scale, Bias
std::vector<CaffeType> caffe_other_types();
std::vector<CaffeType> caffe_loss_types();

// Adds a remark for each Accuracy of another blob than the net's output, since right answers are
// only counted of that. Those of the TEST phase say which label does not count.
Status check_caffe_measures(CaffeNet& to);

// A CaffeState is what rules of layers ask for, in one phase.
struct CaffeState {
  std::string_view phase;
  int level = 0;
  std::set<std::string, std::less<>> stages{};

  bool has(const CaffeFields& layer) const;  // the layer's rules put it in this state
};
struct CaffeStates {
  CaffeState train{.phase = "TRAIN"}, test{.phase = "TEST"};
};
bool asks_for_stages(const CaffeFields& layer);  // or levels, in its rules
// Reads the level and the stages of the net, and those that the solver and the command line add.
CaffeStates read_caffe_states(const CaffeFields& net, CaffeFields* solver, const ReadOptions& how);

// Reads a filler, which says how a parameter is initialised. Caffe's default is the constant 0,
// even for weights. Weights of filters give their size, as only they may be pyramids.
Filler read_caffe_filler(CaffeFields fields, std::optional<Sides> filter = {});
// Reads lr_mult, decay_mult and the name of parameter `number` of the layer. The old format has
// lists of them instead.
void read_caffe_multipliers(CaffeLayer& layer, int number, ParamDescription& param);
// Refuses multipliers for more parameters than `most`, the number that the layer has.
void check_caffe_multipliers(CaffeLayer& layer, int most, const char* hint);

// Reads a data layer: the input, the mini-batch and how images become values.
void read_caffe_data(CaffeLayer& layer);
// Refuses a data layer of the TEST phase that makes other values from pixels than the one of
// training does.
void check_caffe_test_data(const CaffeLayer& layer);
// Sets the input from its `count` dimensions, from number `at` on. They are images, channels,
// height and width, or images and values.
void set_caffe_input(CaffeNet& to, CaffeFields& shape, std::string_view field, int count,
                     int at = 0);
// Checks the input when all layers are read. Takes settings of it, such as height=28, out of the
// command line's `settings`. `data` is ReadOptions::data.
Status finish_caffe_input(CaffeNet& to, const std::string& data,
                          std::vector<std::string>& settings);

// The next functions find the inputs of a net. note_caffe_values() notes which blobs a layer reads
// otherwise than as labels; all layers are noted before the inputs are read.
void note_caffe_values(const CaffeFields& layer, const CaffeType& type, CaffeNet& to);
// Reads the field `input` of the net, with `input_dim` or `input_shape`. The first blob has the
// images. Others that layers read as values are inputs, too, else they have labels.
void read_caffe_inputs(CaffeFields& net, CaffeNet& to);
// Returns where the input of a layer of data is described. A layer Input that has labels alone
// describes none.
CaffeNet& input_of_caffe_data(const CaffeFields& layer, CaffeNet& to);
// Notes the blobs of a layer of data. Further tops of a layer Input may be inputs, too.
void note_caffe_input(CaffeFields layer, CaffeNet& input, CaffeNet& to);
// Returns the input whose images a layer of data of the TEST phase has; null: it is refused.
CaffeNet* tested_caffe_input(CaffeFields layer, CaffeNet& to);
// Calls finish_caffe_input() for all inputs. Several are joined, with a layer for each of them in
// front of all others.
Status finish_caffe_inputs(CaffeNet& to, const std::string& data,
                           std::vector<std::string>& settings);

// read_sides() reads a height and a width, given as kernel_size or as kernel_h and kernel_w. If
// neither is given, both are `fallback`. If `fallback` is below 0, they have to be given. If only
// one of kernel_h and kernel_w is given, the other one is `other`. It has to be given if `other` is
// below 0.
struct SideNames {
  std::string_view both, h, w;
};
Sides read_sides(CaffeFields& fields, const SideNames& names, int fallback, int low, int high,
                 int other = -1);

// Reads the solver's options, its length, and the number of mini-batches of an update. Before the
// call, the net's options are those of one mini-batch. If `fields` is null, there is no file of a
// solver.
Status read_caffe_solver(CaffeFields* fields, const ReadOptions& how, TrainableNet& net);
// Returns max_iter of the solver's file: the length of the training in iterations.
std::uint64_t length_of_caffe_solver(CaffeText& solver);
// Sets fields of a solver from the command line's settings, such as base_lr=0.1 or
// stepvalue=100,200.
Status set_caffe_solver(CaffeText& solver, const std::vector<std::string>& settings);

}  // namespace omni
