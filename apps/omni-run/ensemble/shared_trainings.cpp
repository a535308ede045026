#include "apps/omni-run/ensemble/shared_trainings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "runtime/communicator/ranks.hpp"
#include "runtime/data/damaged_images.hpp"
#include "runtime/log.hpp"
#include "scheduling/groups/group_layout.hpp"

namespace omni {
namespace {

auto what_is_opened(const DataArguments& data) {
  return std::tuple(data.source, data.data_seed.value_or(data.seed), data.test, data.scale_features,
                    data.hold_out, data.damaged);
}

}  // namespace

Result<std::shared_ptr<DatasetPair>> SharedTrainings::open(
    const DataArguments& arguments, const Net& net, bool flat,
    const std::function<Result<DatasetPair>()>& open_now) {
  const Extent input = net.options().input;
  for (const Opened& each : opened_)
    if (what_is_opened(each.arguments) == what_is_opened(arguments) && each.input == input &&
        each.classes == net.classes() && each.flat == flat)
      return each.data;
  OMNI_TRY(DatasetPair data, open_now());
  opened_.push_back({.arguments = arguments,
                     .input = input,
                     .classes = net.classes(),
                     .flat = flat,
                     .data = std::make_shared<DatasetPair>(std::move(data))});
  return opened_.back().data;
}

SharedStream* SharedTrainings::stream(const Dataset* data, const SampleOptions& options) {
  if (window_ == 0 || data == nullptr) return nullptr;
  const auto found = std::ranges::find_if(streams_, [&](const SharedStream& each) {
    return &each.samples().dataset() == data && each.samples().options() == options;
  });
  if (found != streams_.end()) return &*found;
  if (!options.training && !SharedStream::fits(*data, options, window_)) return nullptr;
  return &streams_.emplace_back(*data, options, window_);
}

void SharedTrainings::forget_trainings() {
  streams_.clear();
  planned_bytes = 0;
}

std::string SharedTrainings::source_of(const Dataset& data) const {
  const auto found = std::ranges::find_if(
      opened_, [&](const auto& each) { return each.data->train.get() == &data; });
  if (found == opened_.end()) return "";
  const auto [source, seed, test, scaled, hold_out, damaged] = what_is_opened(found->arguments);
  return fmt::format("{} ({}) seed={} test={} scaled={} hold_out={} damaged={}",
                     std::filesystem::absolute(source).string(), found->data->name, seed, test,
                     scaled, hold_out, damaged);
}

void SharedTrainings::say_samples() const {
  for (const SharedStream& stream : streams_)
    log::info("shared {}samples: {} prepared, {:.0f} MiB for the window",
              stream.samples().options().training ? "" : "test ", stream.prepared(),
              static_cast<double>(stream.bytes()) / 0x1p20);
}

void SharedTrainings::say_damaged() const {
  std::string own;
  for (const Opened& each : opened_)
    for (const Dataset* data : {each.data->train.get(), each.data->test.get()})
      if (const DamagedImages* found = data != nullptr ? data->damaged() : nullptr;
          found != nullptr && found->count() > 0)
        own += fmt::format("{}: {}\n", each.data->name, found->summary());
  std::set<std::string> lines;
  for (const std::string& rank : ranks::gather(own))
    for (const std::string_view line : split(rank, '\n')) lines.emplace(line);
  lines.erase("");
  for (const std::string& each : lines)
    if (ranks::first()) log::warn("{}", each);
}

bool SharedTrainings::takes_check_of(const DatasetPair& data) {
  const auto found =
      std::ranges::find_if(opened_, [&](const auto& each) { return each.data.get() == &data; });
  return found != opened_.end() && !std::exchange(found->checked, true);
}

}  // namespace omni
