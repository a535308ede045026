// A NetDescription is a net as readers of files describe it and Net::build() takes it. It is
// independent of file formats. This header also has the options of its training. A reader of a file
// has checked the range of every number.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "layers/solver_options.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/extent.hpp"
#include "runtime/result.hpp"

namespace omni {

enum class Activation : int;  // {}: linear
enum class Curve : int;
enum class Distance : int;

// The following types describe the parameters of a layer.

// ParamRole is the meaning of a parameter. `averaged` is the number of mini-batches over which mean
// and variance are averaged; older ones count less.
enum class ParamRole { weights, bias, scale, mean, variance, averaged };

struct Filler {
  // `bilinear` makes filters that enlarge an image: each is a pyramid over height and width.
  // `shares` are uniform above 0, and those of an output have the sum 1.
  enum class Kind { constant, uniform, normal, bilinear, shares } kind = Kind::constant;
  float scale = 0;          // the constant, the half width, the standard deviation
  bool by_inputs = false;   // scale is divided by the root of how many inputs an output has
  bool by_outputs = false;  // likewise, of outputs that an input has; both: by the mean of the two
  float centre = 0;         // is added to uniform and normal values
  int kept = 0;  // of the values of one input, so many are not 0 in the mean; 0: all are kept

  bool operator==(const Filler&) const = default;
};

struct ParamDescription {
  std::optional<Filler> filler{};  // nullopt: the layer's own
  float rate = 1;                  // multiplies the solver's
  std::optional<float> decay{};    // likewise; nullopt: 1 for weights, 0 for others
  std::string shared_as{};         // by all parameters of this name; "": not shared
  std::string owner{};             // the layer that has it in files of parameters; "": its own
  bool in_files = true;            // false: it never changes, and files that name layers lack it
};

// The following types are the options of the types of layers.

// These are the options of batch normalisation, with scale and shift.
struct BatchnormOptions {
  float momentum = 0.99f;  // share of the running averages that a mini-batch leaves as it is
  double epsilon = 1e-5;   // added to the variance
  bool counts = false;     // the averages are means of all mini-batches, older ones counting less
  bool frozen = false;     // training, too, normalises by the averages, which stay as they are
  Activation activation{};
};

// Sides are numbers for the height and for the width.
struct Sides {
  int h = 1, w = 1;

  static constexpr Sides square(int side) { return {side, side}; }
  constexpr bool operator==(const Sides&) const = default;
};

// These are the options of filters. There are `padding` pixels on each side of the image.
struct FilterOptions {
  int filters = 1;
  Sides size{}, stride{}, padding{0, 0}, dilation{};
  int groups = 1;
  bool normalise = false;  // over the mini-batch, in place of a bias
  Activation activation{};
};
struct ConnectedOptions {
  int outputs = 1;
  bool normalise = false;
  Activation activation{};
};
inline constexpr int kMaxWindow = 255;  // squared, below kNoCell<std::uint16_t>
struct WindowOptions {
  bool whole_image = false;
  Sides size{}, stride{};
  Sides padding{0, 0};          // of both sides together
  bool rounds_up = false;       // true: one window more for the rest, if it begins in the image
  bool counts_padding = false;  // true: a mean is over the cells of the padding, too
};
struct CropOptions {
  int height = 1, width = 1;
  bool flip = false, adjust = true;  // adjust: values are mapped from [0,1] to [-1,1]
};
struct UpsampleOptions {
  int stride = 2;
  float scale = 1;
};
struct ReorgOptions {
  int stride = 1;
  bool to_depth = true;
};
struct ActivationOptions {
  Activation activation{};
};
// Values below 0 are multiplied by a slope. Without `constant` slopes are learned, one per channel
// or one `shared` by all.
struct PReluOptions {
  std::optional<float> constant{};
  bool shared = false;
};
// The layer computes (shift + scale * x)^power.
struct PowerOptions {
  float power = 1, scale = 1, shift = 0;
};
// The layer copies the channels from `first` to `last` - 1, or to the end if `last` is 0. With
// `parts` it copies part number `part` of so many equal parts.
struct SliceOptions {
  int first = 0, last = 0;
  int part = 0, parts = 0;
};
struct DropoutOptions {
  float probability = 0.5f;
};
struct LocalResponseOptions {
  int size = 5;
  float alpha = 1e-4f, beta = 0.75f, kappa = 1;
};
struct SumOptions {
  float alpha = 1, beta = 1;  // factors of the two inputs
  Activation activation{};
  bool of_equals = false;  // inputs of another size are refused
};
// The layer computes a function of each value. `parameter` is the alpha of an elu.
struct CurveOptions {
  Curve curve{};
  float parameter = 1;
};
// The loss is the mean over the images of a mini-batch with a label that is not ignored, the mean
// over all images, or the sum.
enum class MeanLoss { of_labelled, of_all, none };
struct SoftmaxOptions {
  int groups = 1;
  float temperature = 1;
  bool loss = true, spatial = false;
  float smoothing = 0;  // target probability of all wrong classes together
  MeanLoss mean = MeanLoss::of_labelled;
  int ignored = -1;     // label without a loss; -1: none
  int not_judged = -1;  // label that does not count for the accuracy; -1: none
};
struct DistanceOptions {
  Distance distance{};
  float scale = 1;
};
// The loss compares the first input with a target, value by value: the second input, or without
// one the label.
struct TargetOptions {
  bool logistic = false;       // false: half the squared distance
  bool mean = false;           // over the values of an image; false: their sum
  bool teaches_target = true;  // layers that make the target learn, too
};
// The layer takes an input of the net out of the sample, in which they lie one behind the other.
struct PartOptions {
  int first = 0;  // value
  Extent extent{};
};
using LayerOptions =
    std::variant<std::monostate, FilterOptions, ConnectedOptions, WindowOptions, CropOptions,
                 UpsampleOptions, ReorgOptions, BatchnormOptions, ActivationOptions, PReluOptions,
                 PowerOptions, CurveOptions, SliceOptions, DropoutOptions, LocalResponseOptions,
                 SumOptions, SoftmaxOptions, DistanceOptions, TargetOptions, PartOptions>;

struct LayerDescription {
  std::string type;                          // of layer_types()
  std::string name;                          // "": it has none
  std::string where;                         // "lenet.cfg:12"
  std::vector<std::string> inputs, outputs;  // names of blobs; an output may replace an input
  LayerOptions options{};
  std::map<ParamRole, ParamDescription> params{};
  bool load = true;             // false: initial values are kept when weights are loaded
  bool stops_backward = false;  // this layer and all before it stay as they are
  // Several losses are added up with these weights. The last layer's is the net's own: its output
  // is that of the net. Others are auxiliary, and are computed in training alone.
  float loss_weight = 1;
  bool auxiliary = false;
  // A Place tells where an option is in the file. `note` is appended to a warning about the option.
  struct Place {
    std::string where, written, note{};
  };
  std::map<std::string, Place, std::less<>> places{};
  std::vector<std::string> remarks{};  // with places in the file; printed if the net is trained

  const std::string& place_of(std::string_view option) const {
    const auto place = places.find(option);
    return place == places.end() ? where : place->second.where;
  }
};

// The following types describe nets.

inline constexpr int kMostImages = 1 << 20;           // in a batch
inline constexpr std::size_t kMostValues = 1u << 30;  // of all inputs together

// NetOptions are the size of the input and the way in which a mini-batch is formed.
struct NetOptions {
  Extent input;
  int batch = 1, subdivisions = 1;

  int micro_batch() const { return batch / subdivisions; }
};

struct NetDescription {
  std::string name;   // file name without folder and extension
  std::string where;  // "lenet.cfg:1"
  NetOptions options;
  // The name of the input, a blob with the shape of options.input. If there are several inputs
  // (AugmentOptions::parts), it is the sample, from which a layer of type part takes each of them.
  std::vector<std::string> inputs;
  std::vector<LayerDescription> layers;
  std::string statements;  // that describe the layers; the same for equal layers
};

// SnapshotOptions say when a training saves its parameters and the solver's state in files for
// other programs.
struct SnapshotOptions {
  std::uint64_t every = 0;  // iterations; 0: only at the end
  bool at_end = false;
  std::string prefix;  // of the files' names

  bool any() const { return every > 0 || at_end; }
};

// A TrainableNet is a net with the other settings of its file: solver, augmentation, length of the
// training.
struct TrainableNet : NetDescription {
  SolverOptions solver;
  AugmentOptions augment;
  SnapshotOptions snapshots;
  int averaged_losses = 1;            // mini-batches whose mean loss the log shows
  std::uint64_t designed_length = 0;  // updates, whatever the command line says; 0: not known
  std::string data;                   // as of --data, if the file names data that are there
  std::optional<Error> absent;        // that data which the file names are not there
  std::string title;                  // that the file gives the net; "": none
  // These are files that the net's file names, whether or not they are there; "": it names none.
  // The rest is what it says about data, which only decides how the net is written again.
  struct Files {
    std::string train{}, test{}, mean{};                     // images, and their mean
    enum { unsaid, training, apart, same } phases = unsaid;  // of its layers of data
    bool only_shapes = false;                                // true: it has no source of data
    bool has_rules = false;  // for stages or levels, or of a loss in one phase
    int test_batch = 0;      // images of a mini-batch of tests, if they have a layer of their own
  };
  Files files;
  std::vector<Files> files_of_inputs;  // of a net with several inputs, in place of `files`
  // These are the defaults of the file for --seed, and for the iterations between reports and
  // tests.
  std::optional<std::uint64_t> seed{}, display{}, test_every{};
  bool tests_first = false;  // before the first iteration, if `test_every` counts
  std::string text;          // of the file, with settings; for equal ones the same
  // A Place tells where an option of the training is in the file, and the key that the file's
  // format has for it.
  struct Place {
    std::string where, written;
  };
  std::map<std::string, Place, std::less<>> places;
  std::set<std::string, std::less<>> commanded;  // options that the command line sets

  const std::string& place_of(std::string_view option) const {
    const auto place = places.find(option);
    return place == places.end() ? where : place->second.where;
  }
  std::string written_as(std::string_view option) const {
    const auto place = places.find(option);
    return place == places.end() ? std::string(option) : place->second.written;
  }
};

// Joins the inputs of a net. Its layers of type part are those of `parts`, in this order; they come
// first afterwards. The extents of the layers are known, the places in the sample are set here.
Status join_inputs(TrainableNet& net, std::vector<InputPart> parts);

// NamedOptions are options of the command line. If one is set, it replaces the file's.
struct NamedOptions {
  std::optional<int> batch{}, subdivisions{}, burn_in{}, max_batches{};
  std::optional<float> learning_rate{}, momentum{}, decay{};
  std::optional<RatePolicy> policy{};

  void for_each(auto use) const {
    use("batch", batch);
    use("subdivisions", subdivisions);
    use("burn_in", burn_in);
    use("max_batches", max_batches);
    use("learning_rate", learning_rate);
    use("momentum", momentum);
    use("decay", decay);
    use("policy", policy);
  }
};

// ReadOptions tell how a net file is read.
struct ReadOptions {
  NamedOptions named{};
  std::vector<std::string> settings{};  // key=value, as if the file ended with them
  int classes = 0;                      // outputs that the losses get; 0: the file's
  std::vector<std::string> stages{};    // of Caffe's rules, in both phases
  std::optional<int> level{};           // likewise; none: the files'
  bool strict = false;                  // unknown keys are errors
  bool endless = false;                 // true: --epochs ends the training, not max_batches
  bool learns = true;                   // false: the rate is 0, unless the command line sets one
  std::string data{};                   // as of --data; "": the data that the file names, if any

  // Returns the values that replace the file's. `commanded` names the options that the command line
  // sets.
  NamedOptions named_beside(const std::set<std::string, std::less<>>& commanded) const {
    NamedOptions all = named;
    if (!learns && !commanded.contains("learning_rate")) all.learning_rate = 0.0f;
    if (!learns && !commanded.contains("policy")) all.policy = RatePolicy::constant;
    return all;
  }
};

}  // namespace omni
