// This file reads [net]: the input, how a mini-batch is formed, augmentation and the solver. It
// also applies settings of the command line.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "layers/formats/darknet/darknet.hpp"
#include "layers/formats/darknet/layer_sections.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"

namespace omni {
namespace {

constexpr std::array kInputKeys{
    Key{"height", "", "input height"},
    Key{"width", "", "input width"},
    Key{"channels", "3", "input channels"},
    Key{"inputs", "", "values of a flat input, in place of height, width and channels"},
    Key{"min_crop", "", "augmentation: smallest length of the shorter side after resizing"},
    Key{"max_crop", "", "augmentation: largest length of the shorter side after resizing"},
    Key{"angle", "0", "augmentation: largest rotation, in degrees"},
    Key{"aspect", "1", "augmentation: largest change of the aspect ratio, a factor"},
    Key{"saturation", "1", "augmentation: largest factor"},
    Key{"exposure", "1", "augmentation: largest factor"},
    Key{"hue", "0", "augmentation: largest shift, a share of the colour circle"},
    Key{"flip", "0", "augmentation: 1 mirrors half of the images"},
    Key{"center", "0", "augmentation: 1 cuts from the centre, without rotation and zoom"},
};

constexpr std::array kNetKeys{
    Key{"batch", "1", "images per update"},
    Key{"subdivisions", "1", "mini-batches per update; their gradients are added"},
    Key{"learning_rate", "0.001", "step length of the updates; policy and burn_in vary it"},
    Key{"momentum", "0.9", "share of the last update that goes into the next one"},
    Key{"decay", "0.0001", "L2 penalty of weights (not of biases)"},
    Key{"clip_gradients", "0", "largest L2 norm of all gradients together; 0: any"},
    Key{"policy", "constant", "one of: constant step steps exp poly sigmoid random sgdr inv"},
    Key{"burn_in", "0", "first batches, during which the rate rises"},
    Key{"power", "4", "for burn_in, poly, random and inv: exponent"},
    Key{"step", "1", "for step and sigmoid: updates"},
    Key{"scale", "1", "for step: factor"},
    Key{"steps", "", "for steps: list of updates"},
    Key{"scales", "", "for steps: list of factors"},
    Key{"gamma", "1", "for exp, sigmoid and inv"},
    Key{"learning_rate_min", "0.00001", "for sgdr: learning rate at the end of a cycle"},
    Key{"sgdr_cycle", "max_batches", "for sgdr: updates from learning_rate down to its minimum"},
    Key{"sgdr_mult", "2", "for sgdr: length of each cycle relative to the one before"},
    Key{"max_batches", "0", "updates to do (iterations); 0: no end"},
    Key{"label_smooth_eps", "0", "for [softmax]: target probability of all wrong classes together"},
    Key{"adam", "0", "1 is Adam, 0 is SGD with momentum"},
    Key{"B1", "0.9", "for Adam: share of the last updates' mean gradient, in place of momentum"},
    Key{"B2", "0.999", "for Adam: share of the last updates' mean squared gradient"},
    Key{"eps", "0.0000001",
        "for Adam: lower bound of the root of the squared gradient (summed over a batch)"},
    Key{"time_steps", "1", "it is for recurrent nets", Effect::refused},
};

// These keys of [net] have no effect. Most are AlexeyAB's: data augmentation, noise and bad labels,
// memory, progress.
constexpr std::string_view kKeysInVain =
    "clip=0 random=0 min_ratio= max_ratio= notruth=0 sequential_subdivisions=1 "
    "augment_speed=2 try_fix_nan=0 letter_box=0 blur=0 gaussian_noise=0 mixup=0 cutmix=0 "
    "mosaic=0 mosaic_bound=0 ema_alpha=0 resize_step=32 max_chart_loss=20 loss_scale=1 "
    "use_cuda_graph=0 dynamic_minibatch=0 optimized_memory=0 workspace_size_limit_MB=1024 "
    "contrastive=0 contrastive_jit_flip=0 contrastive_color=0 unsupervised=0 attention=0 "
    "adversarial_lr=0 badlabels_reject_percentage=0 badlabels_rejection_percentage=0 "
    "weights_reject_freq=0 equidistant_point=0 num_sigmas_reject_badlabels=0 track=0 "
    "seq_scales= show_receptive_field=0";

// Reads the options that the command line can set, unless it has set them.
void read_named(OptionReader& options, NamedOptions& named) {
  const auto read = [&](auto& to, std::string_view key, auto&& from_file) {
    if (to)
      options.set_elsewhere(key);
    else if (options.has(key))
      to = from_file();
  };
  const auto whole = [&](std::optional<int>& to, std::string_view key, int low,
                         int high = std::numeric_limits<int>::max()) {
    read(to, key, [&] { return options.integer(key, low, low, high); });
  };
  const auto real = [&](std::optional<float>& to, std::string_view key, float low,
                        float high = std::numeric_limits<float>::max()) {
    read(to, key, [&] { return options.real(key, low, low, high); });
  };
  whole(named.batch, "batch", 1, kMostImages);
  whole(named.subdivisions, "subdivisions", 1, kMostImages);
  real(named.learning_rate, "learning_rate", 0);
  real(named.momentum, "momentum", -1, 1);
  real(named.decay, "decay", 0);
  read(named.policy, "policy", [&] {
    return static_cast<RatePolicy>(options.choice("policy", "constant", kRatePolicyNames));
  });
  whole(named.burn_in, "burn_in", 0);
  whole(named.max_batches, "max_batches", 0);
}

// Reads the options of Adam. With a beta of 1 the means would never change. Without eps a value
// whose gradient is 0 would become 0/0.
void read_adam(OptionReader& options, SolverOptions& solver) {
  solver.adam = options.flag("adam", false);
  const float below_one = std::nextafter(1.0f, 0.0f);
  const float mean_memory = options.real("B1", 0.9f, 0, below_one);
  solver.square_memory = options.real("B2", 0.999f, 0, below_one);
  solver.epsilon = options.real("eps", 1e-7f, 1e-20f);
  if (!solver.adam) return options.warn_no_effect({"B1", "B2", "eps"}, "without adam=1");
  if (solver.momentum != mean_memory)
    options.warn("momentum",
                 fmt::format("has no effect with adam=1; B1={} takes its place", mean_memory));
  solver.momentum = mean_memory;
}

void read_solver(OptionReader& options, const NamedOptions& named, SolverOptions& solver) {
  solver.learning_rate = named.learning_rate.value_or(solver.learning_rate);
  solver.momentum = named.momentum.value_or(solver.momentum);
  solver.decay = named.decay.value_or(solver.decay);
  read_adam(options, solver);
  solver.clip_gradients = options.real("clip_gradients", 0, 0);
  solver.policy = named.policy.value_or(solver.policy);
  solver.burn_in = named.burn_in.value_or(solver.burn_in);
  solver.power = options.real("power", 4);
  solver.step = options.integer("step", 1, 1);
  solver.scale = options.real("scale", 1, 0);
  solver.gamma = options.real("gamma", 1);
  solver.steps = options.integers("steps");
  solver.scales = options.reals("scales");
  solver.max_batches = named.max_batches.value_or(solver.max_batches);
  solver.learning_rate_min = options.real("learning_rate_min", 1e-5f, 0);
  solver.cycle = options.integer("sgdr_cycle", 0, 1);
  solver.cycle_factor = options.integer("sgdr_mult", 2, 1);
}

void check_solver(OptionReader& options, const SolverOptions& solver) {
  if (solver.policy == RatePolicy::steps && solver.steps.size() != solver.scales.size())
    options.refuse("steps",
                   fmt::format("{} steps but {} scales", solver.steps.size(), solver.scales.size()),
                   "give one scale per step");
  if (solver.policy == RatePolicy::steps && solver.steps.empty())
    options.refuse("policy", "policy=steps without steps", "add steps= and scales=");
  if (solver.policy == RatePolicy::poly && solver.max_batches == 0)
    options.refuse("policy", "policy=poly needs max_batches", "add max_batches= or --max-batches");
  if (solver.policy == RatePolicy::sgdr && solver.cycle == 0 && solver.max_batches == 0)
    options.refuse("policy", "policy=sgdr needs the length of a cycle",
                   "add sgdr_cycle= or max_batches=");
}

void read_augment(OptionReader& options, AugmentOptions& augment) {
  augment.min_crop = options.integer("min_crop", 0, 1, 1 << 16);
  augment.max_crop = options.integer("max_crop", 0, 1, 1 << 16);
  if (options.has("max_crop") && augment.max_crop < augment.min_crop)
    options.refuse("max_crop", "max_crop is smaller than min_crop", "swap them");
  augment.angle = options.real("angle", 0, 0, 180);
  augment.aspect = options.real("aspect", 1, 1e-3f);
  augment.saturation = options.real("saturation", 1, 1e-3f);
  augment.exposure = options.real("exposure", 1, 1e-3f);
  augment.hue = options.real("hue", 0, 0, 1);
  augment.flip = options.flag("flip", false);
  augment.center = options.flag("center", false);
}

// Reads the size of the input. A flat input consists of vectors with `inputs` values, which are not
// cropped, flipped or recoloured.
void read_extent(OptionReader& options, std::string_view section, Extent& input,
                 AugmentOptions& augment) {
  augment.flat = options.has("inputs") && !options.has("height") && !options.has("width");
  if (augment.flat) {
    input = {1, 1, options.integer("inputs", 1, 1, 1 << 24)};
    options.warn_no_effect({"channels", "min_crop", "max_crop", "angle", "aspect", "saturation",
                            "exposure", "hue", "flip", "center"},
                           "on a flat input");
    return;
  }
  for (const std::string_view key : {"height", "width"})
    if (!options.has(key))
      options.refuse("", fmt::format("[{}] has no {}", section, key),
                     "add it; or inputs= for vectors");
  input = {.h = options.integer("height", 1, 1, 1 << 16),
           .w = options.integer("width", 1, 1, 1 << 16),
           .c = options.integer("channels", 3, 1, 1 << 12)};
  if (!input.countable())
    options.refuse(
        "height",
        fmt::format("images of {}x{}x{} have too many elements", input.w, input.h, input.c),
        "make them smaller: 2147483647 elements are the most");
  const std::size_t count = input.count();
  if (!options.failed() && options.has("inputs") &&
      static_cast<std::size_t>(options.integer("inputs", 1, 1)) != count)
    options.refuse("inputs", fmt::format("height, width and channels make {} inputs", count),
                   "leave out inputs=, or the others");
}

// The subdivisions of a net file say how many images fit in memory at once. If the command line
// changes only the batch, no more images are computed at once, with as few subdivisions as
// possible. If fewer than half as many images would then be computed at once, as for a prime batch,
// nothing is changed.
void keep_images_at_once(const NamedOptions& file, NetOptions& net) {
  const int before = file.subdivisions.value_or(1), most = file.batch.value_or(1) / before;
  if (before == 1) return;
  int at_once = std::min(net.batch, most);
  while (at_once > 1 && net.batch % at_once != 0) --at_once;
  if (at_once == net.batch || at_once >= most / 2) net.subdivisions = net.batch / at_once;
}

Status add_settings(Section& net, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      return Error{ErrorKind::usage, "--set " + setting, "expected KEY=VALUE",
                   "--set momentum=0.8"};
    const std::string key = setting.substr(0, equals);
    if (std::ranges::find(net_keys(), key, &Key::name) == net_keys().end())
      return Error{ErrorKind::usage, "--set " + setting, "unknown key of [net]",
                   "omni-run layers lists them"};
    net.options.push_back({key, setting.substr(equals + 1), kCommandLine});
  }
  return {};
}

// Returns a text that is the same for sections with the same options in the same order. Checkpoints
// have a hash of the texts of all layers.
std::string normalised(const Section& section) {
  std::string text = "[" + section.type + "]";
  for (const Option& option : section.options) text += option.key + "=" + option.value + ";";
  return text;
}

}  // namespace

std::span<const Key> input_keys() { return kInputKeys; }

std::span<const Key> net_keys() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all(kNetKeys.begin(), kNetKeys.end());
    all.insert(all.begin() + 2, kInputKeys.begin(), kInputKeys.end());
    return with_keys_in_vain(all, kKeysInVain);
  }();
  return keys;
}

InputPart read_darknet_input(OptionReader& options, std::string_view section) {
  InputPart read{.name = "data", .extent = {}};
  read_extent(options, section, read.extent, read.augment);
  read_augment(options, read.augment);
  return read;
}

Status set_named(NamedOptions& named, std::string_view key, std::string_view value) {
  const Section net{.type = "net", .file = {}, .options = {{std::string(key), std::string(value)}}};
  OptionReader options(net, net_keys());
  read_named(options, named);
  return options.status();
}

Result<TrainableNet> describe_darknet_net(DarknetCfg cfg, const ReadOptions& how) {
  TrainableNet read;
  read.name = cfg.name;
  read.where = cfg.net.where();
  NamedOptions of_file;
  OptionReader file(cfg.net, net_keys());
  read_named(file, of_file);
  if (const Option* length = cfg.net.find("max_batches"))
    read.designed_length = number_in<std::uint64_t>(length->value).value_or(0);
  OMNI_CHECK(add_settings(cfg.net, how.settings));
  OMNI_CHECK(check_keys(cfg.net, net_keys(), how.strict));
  how.named.for_each([&](const char* key, const auto& value) {
    if (value) read.commanded.insert(key);
  });
  for (const Option& option : cfg.net.options)
    if (option.line == kCommandLine) read.commanded.insert(option.key);
  NamedOptions named = how.named_beside(read.commanded);
  OptionReader options(cfg.net, net_keys());
  read_named(options, named);
  if (how.endless && named.max_batches.value_or(0) == 0)
    named.max_batches = std::numeric_limits<int>::max();
  const auto is_set = [&](std::string_view key) { return options.where(key) == "command line"; };
  read.options.batch = named.batch.value_or(1);
  read.options.subdivisions = named.subdivisions.value_or(1);
  if (is_set("batch") && !is_set("subdivisions")) keep_images_at_once(of_file, read.options);
  if (read.options.batch % read.options.subdivisions != 0)
    options.refuse("subdivisions",
                   fmt::format("batch {} is not divisible by subdivisions {}", read.options.batch,
                               read.options.subdivisions),
                   "choose a divisor of the batch");
  InputPart input = read_darknet_input(options, cfg.net.type);
  read.options.input = input.extent;
  read.augment = input.augment;
  const float smoothing = options.real("label_smooth_eps", 0, 0, 1);
  read_solver(options, named, read.solver);
  check_solver(options, read.solver);
  OMNI_CHECK(options.status());
  for (const Key& key : net_keys())
    if (options.has(key.name))
      read.places[std::string(key.name)] = {options.where(key.name), std::string(key.name)};
  ClassesKey classes;
  if (how.classes > 0) {
    OMNI_TRY(classes, set_classes(cfg.layers, how.classes));
  }
  read.inputs = {"data"};
  std::vector<InputPart> inputs;
  OMNI_TRY(read.layers, describe_layers(cfg.layers, smoothing, how.strict, inputs));
  if (!inputs.empty()) {
    input.labels = true;
    inputs.insert(inputs.begin(), std::move(input));
    read.layers.insert(read.layers.begin(), {.type = "part",
                                             .name = "",
                                             .where = read.where,
                                             .inputs = {},
                                             .outputs = {"data"},
                                             .options = PartOptions{.extent = read.options.input}});
    OMNI_CHECK(join_inputs(read, std::move(inputs)));
  }
  if (how.classes > 0) OMNI_CHECK(check_classes(read, how.classes, classes));
  if (smoothing > 0 && read.layers.back().type != "softmax")
    log::warn_once("{}: label_smooth_eps has no effect without [softmax]", read.where);
  for (const Section& layer : cfg.layers) read.statements += normalised(layer);
  read.text = normalised(cfg.net) + read.statements;
  return read;
}

}  // namespace omni
