#include "layers/formats/same_net.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <variant>

#include "codelets/elementwise/activation_functors.hpp"
#include "layers/formats/same_input.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"
#include "runtime/tasks/host_access.hpp"

namespace omni {
namespace {

std::string shape_of(const Param& param) { return fmt::format("{}", fmt::join(param.shape, "x")); }

// A Word is one step of the computation of a net. It does not depend on how a file format cuts the
// steps into layers.
struct Word {
  std::string text, where;
  std::vector<std::size_t> reads;  // numbers of words, counted from 1; 0: the image
  std::map<std::string_view, std::string> learns{};  // what only training uses, except parameters
  bool load = true;                                  // false: its parameters are not loaded
  bool reads_colours = false;         // channels of an input are the image's, not mixed
  bool mixes = false;                 // its result depends on the order of these channels
  bool named = true;                  // files that name layers have it
  std::map<ParamRole, Param*> has{};  // without counts of averaged mini-batches
};

// Returns the numbers of a layer that decide its results and are not in Layer::detail().
std::string numbers_of(const std::string& type, const LayerOptions& options) {
  if (const auto* filter = std::get_if<FilterOptions>(&options))
    return fmt::format(" pad {}x{}", filter->padding.w, filter->padding.h);
  // Half of the padding lies before the image. The windows that fit decide how much lies behind it.
  if (const auto* window = std::get_if<WindowOptions>(&options))
    return fmt::format(" pad {}x{}{}", window->padding.w / 2, window->padding.h / 2,
                       type == "avgpool" && window->padding != Sides{0, 0} && window->counts_padding
                           ? " counted"
                           : "");
  if (const auto* lrn = std::get_if<LocalResponseOptions>(&options))
    return fmt::format(" alpha {:.6g} beta {:.6g} kappa {:.6g}", lrn->alpha, lrn->beta, lrn->kappa);
  if (const auto* sum = std::get_if<SumOptions>(&options))
    return fmt::format(" factors {:.6g} {:.6g}", sum->alpha, sum->beta);
  if (const auto* softmax = std::get_if<SoftmaxOptions>(&options))
    return fmt::format(" groups {} temperature {:.6g}{}", softmax->groups, softmax->temperature,
                       softmax->loss ? "" : " without loss");
  if (const auto* cost = std::get_if<DistanceOptions>(&options))
    return fmt::format(" distance {} scale {:.6g}", static_cast<int>(cost->distance), cost->scale);
  if (const auto* target = std::get_if<TargetOptions>(&options)) return target->mean ? " mean" : "";
  if (const auto* crop = std::get_if<CropOptions>(&options))
    return fmt::format(" adjust {}", crop->adjust);
  if (const auto* upsample = std::get_if<UpsampleOptions>(&options))
    return fmt::format(" scale {:.6g}", upsample->scale);
  if (const auto* reorg = std::get_if<ReorgOptions>(&options))
    return reorg->to_depth ? " to depth" : " from depth";
  return "";
}

std::string text_of(const BatchnormOptions& options) {
  return fmt::format("norm epsilon {:.6g}{}", options.epsilon, options.frozen ? " frozen" : "");
}

void put_training(const BatchnormOptions& options,
                  std::map<std::string_view, std::string>& learns) {
  if (options.frozen) return;
  learns["averages"] = fmt::format("with {:.6g}", options.momentum);
  if (options.counts) learns["averages"] += " counted";
}

// The detail of these layers has numbers of layers, which differ between formats.
bool joins(const std::string& type) {
  return type == "route" || type == "shortcut" || type == "product" || type == "larger";
}

bool is_of_norm(ParamRole role) { return role != ParamRole::weights && role != ParamRole::bias; }

// Returns whether each channel of the output depends on the same channel of the inputs alone.
bool keeps_channels(const std::string& type) {
  constexpr std::array kTypes{"activation", "avgpool",  "batchnorm", "crop",  "curve",
                              "dropout",    "larger",   "maxpool",   "power", "prelu",
                              "product",    "shortcut", "upsample"};
  return std::ranges::find(kTypes, type) != kTypes.end();
}

// Returns the words of a net in the order of its layers. They hold no numbers of layers, because
// two nets may count layers differently.
std::vector<Word> words_of(const Form& form) {
  std::vector<Word> words;
  std::map<const Blob*, std::size_t> makers{{&form.net.image(), 0}};
  std::set<const Blob*> colours;  // whose channels are those of the image
  if (form.described.augment.parts.empty()) colours.insert(&form.net.image());
  for (std::size_t i = 0; i < form.net.layers().size(); ++i) {
    const Layer& layer = *form.net.layers()[i];
    const LayerDescription& described = form.described.layers.at(i);
    const LayerOptions& options = described.options;
    const std::string& type = layer.type();
    // A route to one layer is an alias: its readers read that layer directly.
    if (type == "route" && described.inputs.size() == 1) continue;
    std::vector<std::size_t> reads;
    for (const Input* input : layer.inputs()) reads.push_back(makers.at(input->blob));
    const std::size_t first = words.size();
    const auto add = [&](std::string text) {
      words.push_back({.text = std::move(text), .where = layer.where(), .reads = std::move(reads)});
      reads = {words.size()};
      return &words.back().learns;
    };
    const auto* norm = std::get_if<BatchnormOptions>(&options);
    const auto* filter = std::get_if<FilterOptions>(&options);
    const auto* connected = std::get_if<ConnectedOptions>(&options);
    const auto* sum = std::get_if<SumOptions>(&options);
    const auto* softmax = std::get_if<SoftmaxOptions>(&options);
    // The order of the inputs of a sum does not matter if their extents are equal and they have no
    // factors.
    if (sum != nullptr && sum->alpha == 1 && sum->beta == 1 &&
        layer.inputs()[0]->extent() == layer.inputs()[1]->extent())
      std::ranges::sort(reads);
    const Extent& out = layer.output().extent;
    if (norm != nullptr)
      put_training(*norm, *add(text_of(*norm)));
    else if (type == "activation")
      add(layer.detail());
    else
      add(fmt::format("{}{}{} to {}x{}x{}", type, joins(type) ? "" : " " + layer.detail(),
                      numbers_of(type, options), out.w, out.h, out.c));
    const std::size_t of_weights = words.size() - 1;
    const bool normalises =
        (filter != nullptr && filter->normalise) || (connected != nullptr && connected->normalise);
    if (normalises) put_training(BatchnormOptions{}, *add(text_of(BatchnormOptions{})));
    const std::size_t of_norm = words.size() - 1;
    for (Param* param : layer.params()) {
      if (param->role == ParamRole::averaged) continue;
      const bool with_norm =
          is_of_norm(param->role) || (normalises && param->role == ParamRole::bias);
      words[with_norm ? of_norm : of_weights].has[param->role] = param;
    }
    const auto is_colours = [&](const Input* input) { return colours.contains(input->blob); };
    Word& computing = words[of_weights];
    computing.reads_colours = std::ranges::any_of(layer.inputs(), is_colours);
    const bool keeps = keeps_channels(type) && std::ranges::all_of(layer.inputs(), is_colours);
    computing.mixes = computing.reads_colours && computing.has.empty() && !keeps;
    if (computing.reads_colours && keeps)
      colours.insert(&layer.output());
    else
      colours.erase(&layer.output());
    if (type == "part" && out.c == 3 && out.h * out.w > 1) colours.insert(&layer.output());
    if (softmax != nullptr && softmax->smoothing > 0)
      computing.learns["label_smooth_eps"] = fmt::format("{:.6g}", softmax->smoothing);
    if (softmax != nullptr && softmax->ignored != kNoLabel)
      computing.learns["ignore_label"] = fmt::format("{}", softmax->ignored);
    if (softmax != nullptr && softmax->mean != MeanLoss::of_labelled)
      computing.learns["mean"] = fmt::format("{}", static_cast<int>(softmax->mean));
    if (described.loss_weight != 1)
      computing.learns["loss_weight"] = fmt::format("{:.6g}", described.loss_weight);
    if (const auto* target = std::get_if<TargetOptions>(&options);
        target != nullptr && described.inputs.size() > 1 && !target->teaches_target)
      computing.learns["teach"] = "0";
    if (described.stops_backward) computing.learns["stops"] = "backward";
    computing.load = described.load;
    const Activation activation = norm != nullptr        ? norm->activation
                                  : filter != nullptr    ? filter->activation
                                  : connected != nullptr ? connected->activation
                                  : sum != nullptr       ? sum->activation
                                                         : Activation::linear;
    if (activation != Activation::linear) add(std::string(activation_name(activation)));
    for (std::size_t word = first; word < words.size(); ++word)
      words[word].named = !described.name.empty();
    makers[&layer.output()] = words.size();
  }
  return words;
}

// Returns the places in the net file of those words that another word reads.
std::string places_of(const std::vector<std::size_t>& reads, const std::vector<Word>& words) {
  std::vector<std::string> places;
  for (const std::size_t each : reads)
    places.push_back(each == 0 ? "the image" : words[each - 1].where);
  return fmt::format("{}", fmt::join(places, " and "));
}

Status check_same_words(const Form& from, const std::vector<Word>& theirs, const Form& to,
                        const std::vector<Word>& ours) {
  OMNI_CHECK(check_same_inputs(from, to));
  for (std::size_t i = 0; i < std::max(theirs.size(), ours.size()); ++i) {
    const std::string of_from = i < theirs.size() ? theirs[i].text : "nothing",
                      of_to = i < ours.size() ? ours[i].text : "nothing";
    if (of_from != of_to)
      return refusal(to, fmt::format("it has {} where {} has {}", of_to, from.net.name(), of_from));
    if (theirs[i].load != ours[i].load)
      return refusal(to, fmt::format("{} has dontload, which it has not in the other net",
                                     (theirs[i].load ? ours : theirs)[i].where));
    if (theirs[i].reads != ours[i].reads)
      return refusal(to, fmt::format("{} reads {}, but {} of {} reads {}", ours[i].where,
                                     places_of(ours[i].reads, ours), theirs[i].where,
                                     from.net.name(), places_of(theirs[i].reads, theirs)));
    for (const auto& [role, param] : theirs[i].has)
      if (const auto same = ours[i].has.find(role);
          same != ours[i].has.end() && same->second->shape != param->shape)
        return refusal(to, fmt::format("{} is {}, but {} of {} is {}", same->second->name,
                                       shape_of(*same->second), param->name, from.net.name(),
                                       shape_of(*param)));
  }
  return {};
}

// Returns what is lost if a parameter learns as in the second net.
std::string other_training(const Param& theirs, const Param& ours) {
  if (theirs.rate != ours.rate)
    return fmt::format("learning rate times {:g} of {}", theirs.rate, theirs.name);
  if (theirs.rate > 0 && theirs.decay != ours.decay)
    return fmt::format("decay times {:g} of {}", theirs.decay, theirs.name);
  const Filler &a = theirs.filler, &b = ours.filler;
  const auto near = [](float x, float y) { return std::abs(x - y) <= 1e-6f * std::abs(x); };
  if (a.kind != b.kind || !near(a.scale, b.scale) || !near(a.centre, b.centre) || a.kept != b.kept)
    return fmt::format("initial values of {}", theirs.name);
  return "";
}

// Copies the values of a parameter. `turns` says whether its channels are colours in another order.
Status copy_values(const Param& from, const Param& to, bool turns) {
  const HostAccess read(*from.master, HostAccess::Mode::read),
      write(*to.master, HostAccess::Mode::write);
  std::ranges::copy(read.f32(), write.f32().begin());
  if (turns)
    for (std::size_t at = 0; at + 2 < write.f32().size(); at += 3)
      std::swap(write.f32()[at], write.f32()[at + 2]);
  return {};
}

// Returns whether all values are the constant with which the parameter begins.
bool is_constant(const Param& param, float value) {
  const HostAccess read(*param.master, HostAccess::Mode::read);
  return std::ranges::all_of(read.f32(), [&](float each) { return each == value; });
}

std::vector<Param*> counts_of(Net& net) {
  std::vector<Param*> all;
  for (Param* param : net.params())
    if (param->role == ParamRole::averaged) all.push_back(param);
  return all;
}

// Copies the counts of averaged mini-batches. A net whose files lack them gives 1 for each.
Status copy_counts(const Form& from, const Form& to, MayLose may_lose) {
  const std::vector<Param*> theirs = counts_of(from.net), ours = counts_of(to.net);
  if (!theirs.empty() && theirs.size() != ours.size() && may_lose == MayLose::nothing)
    return refusal(to, fmt::format("{} would be lost: it does not say of how many mini-batches it "
                                   "averages",
                                   theirs.front()->name));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const HostAccess write(*ours[i]->master, HostAccess::Mode::write);
    std::ranges::fill(write.f32(), 1.0f);
    if (theirs.size() != ours.size()) continue;
    const HostAccess read(*theirs[i]->master, HostAccess::Mode::read);
    std::ranges::copy(read.f32(), write.f32().begin());
  }
  return {};
}

// Warns of test images that are read otherwise if they have another size than the input.
void warn_of_sizes(const Form& from, const Form& to) {
  const AugmentOptions &theirs = from.described.augment, &ours = to.described.augment;
  if (theirs.own_size != ours.own_size)
    log::warn("test images of other sizes are cut by {}, but resized by {}",
              (ours.own_size ? to : from).file, (ours.own_size ? from : to).file);
  if (theirs.min_crop != ours.min_crop || theirs.max_crop != ours.max_crop)
    log::warn("{}: min_crop {} and max_crop {} decide the size of test images, too: it is lost",
              from.file, theirs.min_crop, theirs.max_crop);
}

}  // namespace

Status check_same_net(const Form& from, const Form& to, MayLose may_lose) {
  const std::vector<Word> theirs = words_of(from), ours = words_of(to);
  OMNI_CHECK(check_same_words(from, theirs, to, ours));
  warn_of_sizes(from, to);
  if (may_lose == MayLose::training) return {};
  std::vector<std::string> lost = lost_of_inputs(from, to);
  bool names = false;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    names |= theirs[i].named && !ours[i].named;
    for (const auto& [what, how] : theirs[i].learns)
      if (const auto same = ours[i].learns.find(what);
          same == ours[i].learns.end() || same->second != how)
        lost.push_back(fmt::format("{}: {} {}", theirs[i].where, what, how));
    for (const auto& [what, how] : ours[i].learns)
      if (!theirs[i].learns.contains(what))
        lost.push_back(fmt::format("{}: no {} {}", theirs[i].where, what, how));
    for (const auto& [role, param] : theirs[i].has)
      if (const auto same = ours[i].has.find(role); same != ours[i].has.end())
        if (std::string what = other_training(*param, *same->second); !what.empty())
          lost.push_back(std::move(what));
  }
  if (names) lost.insert(lost.begin(), "the names of layers");
  const TrainableNet &a = from.described, &b = to.described;
  if (!a.title.empty() && a.title != b.title)
    lost.push_back(fmt::format("the name {} of the net", shown_name(a.title)));
  if (a.files.has_rules) lost.push_back("rules of stages, levels and losses");
  if (a.files.test_batch > 0 && a.files.test_batch != b.files.test_batch)
    lost.push_back(fmt::format("mini-batches of {} images in tests", a.files.test_batch));
  if (lost.empty()) return {};
  constexpr std::size_t kNamed = 6;
  std::string text =
      fmt::format("{}", fmt::join(std::span(lost).first(std::min(lost.size(), kNamed)), "; "));
  if (lost.size() > kNamed) text += fmt::format("; and {} more", lost.size() - kNamed);
  return Error{ErrorKind::usage, to.file, "this would be lost: " + text,
               "nothing was written; --for-tests keeps what tests need"};
}

Status copy_parameters(const Form& from, const Form& to, MayLose may_lose) {
  const std::vector<Word> theirs = words_of(from), ours = words_of(to);
  OMNI_CHECK(check_same_words(from, theirs, to, ours));
  const bool turns = turns_colours(from, to);
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    if (turns && theirs[i].mixes)
      return refusal(to, fmt::format("{} reads colours in another order", theirs[i].where));
    for (const auto& [role, param] : theirs[i].has) {
      const auto found = ours[i].has.find(role);
      const bool turned = turns && theirs[i].reads_colours;
      const bool by_colour = is_of_norm(role) ||
                             (role == ParamRole::bias && theirs[i].text.starts_with("norm ")) ||
                             (role == ParamRole::weights &&
                              (param->shape.back() != 3 || theirs[i].text.starts_with("deconv")));
      if (turned && by_colour)
        return refusal(to, fmt::format("{} is of colours in another order", param->name));
      if (found != ours[i].has.end() && found->second->in_files)
        OMNI_CHECK(copy_values(*param, *found->second, turned && role == ParamRole::weights));
      // The other net computes with a constant in its place.
      else if (const float constant = found == ours[i].has.end() ? 0 : found->second->filler.scale;
               !is_constant(*param, constant))
        return refusal(
            to, fmt::format("{} would be lost: it has {} in its place", param->name, constant));
    }
    for (const auto& [role, param] : ours[i].has)
      if (param->in_files && !theirs[i].has.contains(role))
        return refusal(to, fmt::format("{} has no {}", from.net.name(), param->name));
  }
  return copy_counts(from, to, may_lose);
}

}  // namespace omni
