#include "layers/formats/same_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// Returns how pixels become values. A net that gives no numbers for this scales bytes to the range
// from 0 to 1.
ByteValues values_of(const AugmentOptions& input) {
  return input.byte_values.value_or(ByteValues{.scale = 1.0f / 255});
}
std::string text_of(const ByteValues& values) {
  return fmt::format("(pixel - {}) * {}", values.mean[0], values.scale);
}

// Returns the inputs of a net; one without parts has one.
std::vector<InputPart> inputs_of(const TrainableNet& net) {
  if (!net.augment.parts.empty()) return net.augment.parts;
  return {{.name = "", .extent = net.options.input, .augment = net.augment}};
}

bool turns_colours(const InputPart& from, const InputPart& to) {
  return !(from.augment.flat && to.augment.flat) &&
         values_of(from.augment).blue_first != values_of(to.augment).blue_first && to.extent.c == 3;
}
}  // namespace

Error refusal(const Form& to, std::string what) {
  return {ErrorKind::usage, to.file, std::move(what),
          "nothing was written; it has to be the same net in another form"};
}

bool turns_colours(const Form& from, const Form& to) {
  const auto theirs = inputs_of(from.described), ours = inputs_of(to.described);
  bool turns = false;
  for (std::size_t i = 0; i < std::min(theirs.size(), ours.size()); ++i)
    turns = turns || turns_colours(theirs[i], ours[i]);
  return turns;
}

namespace {

Status check_same_input(const Form& from, const InputPart& from_part, const Form& to,
                        const InputPart& to_part) {
  const AugmentOptions &from_input = from_part.augment, &to_input = to_part.augment;
  const ByteValues theirs = values_of(from_input), ours = values_of(to_input);
  const bool flat = from_input.flat && to_input.flat, turns = turns_colours(from_part, to_part);
  std::array<float, 3> mean = theirs.mean;
  if (turns) std::swap(mean[0], mean[2]);
  if (from_part.extent != to_part.extent) return refusal(to, "its input has another size");
  const bool same = mean == ours.mean && std::abs(theirs.scale / ours.scale - 1) <= 1e-6f;
  if (!flat && !same)
    return refusal(to, fmt::format("its input is {}, that of {} {}", text_of(ours), from.net.name(),
                                   text_of(theirs)));
  if (flat && !(same && theirs.blue_first == ours.blue_first))
    log::warn("{}: vectors are the same for {}, but images are not: {}{} here, {}{} there", to.file,
              from.net.name(), text_of(ours), ours.blue_first ? ", blue first" : "",
              text_of(theirs), theirs.blue_first ? ", blue first" : "");
  if (!(from_input.mean_image == to_input.mean_image) || (turns && to_input.mean_image))
    return refusal(
        to, fmt::format("the mean of its images is another than that of {}", from.net.name()));
  return {};
}

std::vector<std::string> other_training(const AugmentOptions& theirs, AugmentOptions ours) {
  std::vector<std::string> lost;
  const auto compare = [&](const char* name, const auto& a, const auto& b) {
    if (a != b) lost.push_back(fmt::format("{} {}", name, a));
  };
  compare("min_crop", theirs.min_crop, ours.min_crop);
  compare("max_crop", theirs.max_crop, ours.max_crop);
  compare("center", theirs.center, ours.center);
  compare("angle", theirs.angle, ours.angle);
  compare("aspect", theirs.aspect, ours.aspect);
  compare("saturation", theirs.saturation, ours.saturation);
  compare("exposure", theirs.exposure, ours.exposure);
  compare("hue", theirs.hue, ours.hue);
  compare("mirrored images", theirs.flip, ours.flip);
  return lost;
}

}  // namespace

Status check_same_inputs(const Form& from, const Form& to) {
  const auto theirs = inputs_of(from.described), ours = inputs_of(to.described);
  if (theirs.size() != ours.size())
    return refusal(to, fmt::format("it has {} input{}, {} has {}", ours.size(),
                                   ours.size() == 1 ? "" : "s", from.net.name(), theirs.size()));
  for (std::size_t i = 0; i < ours.size(); ++i)
    OMNI_CHECK(check_same_input(from, theirs[i], to, ours[i]));
  return {};
}

std::vector<std::string> lost_of_inputs(const Form& from, const Form& to) {
  const auto theirs = inputs_of(from.described), ours = inputs_of(to.described);
  std::vector<std::string> lost;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (theirs[i].name != ours[i].name)
      lost.push_back(fmt::format("the name {} of an input", shown_name(theirs[i].name)));
    std::ranges::move(other_training(theirs[i].augment, ours[i].augment), std::back_inserter(lost));
  }
  return lost;
}

}  // namespace omni
