// omni-run predict: the likeliest classes of images.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "apps/omni-run/commands/class_names.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/load_parameters.hpp"
#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "runtime/as_written.hpp"
#include "runtime/data/images/file_dataset.hpp"
#include "runtime/data/images/image_folder.hpp"
#include "runtime/log.hpp"
#include "scheduling/evaluator.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Images at once: no more of them than this, nor than there is room for in so many bytes.
constexpr std::size_t kMostAtOnce = 32, kBytesAtOnce = std::size_t{256} << 20;

// Some images of a data set, without labels. In the place of one that cannot be read there is a
// black one, and its error is kept: the others are predicted all the same.
class ChosenImages final : public Dataset {
 public:
  ChosenImages(const Dataset& of, std::vector<std::size_t> indices)
      : of_(of), indices_(std::move(indices)) {}

  std::size_t size() const override { return indices_.size(); }
  Extent extent() const override { return of_.extent(); }
  int classes() const override { return of_.classes(); }
  int label(std::size_t) const override { return kNoLabel; }
  std::string description() const override { return of_.description(); }
  Status read(std::size_t index, LeastSize least, Image& image) const override {
    Status status = of_.read(indices_[index], least, image);
    if (status || status.error().kind == ErrorKind::out_of_memory) return status;
    image.extent = has_all_sizes() ? Extent{1, 1, extent().c} : extent();
    image.pixels.assign(image.extent.count(), 0);
    const std::lock_guard lock(mutex_);
    errors_.emplace(index, std::move(status.error()));
    return {};
  }
  std::optional<Error> take_error(std::size_t index) {
    const std::lock_guard lock(mutex_);
    const auto found = errors_.extract(index);
    return found ? std::optional(found.mapped()) : std::nullopt;
  }

 private:
  const Dataset& of_;
  std::vector<std::size_t> indices_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, Error> errors_;
};

// The files that were named, and those in folders that were.
Result<std::vector<std::string>> image_files(const std::vector<std::string>& named) {
  std::vector<std::string> files;
  for (const std::string& name : named) try {
      const fs::file_status status = fs::status(name);
      if (!fs::exists(status))
        return Error{ErrorKind::usage, name, "no such file or folder", "images are named by path"};
      if (!fs::is_directory(status)) {
        files.push_back(name);
        continue;
      }
      OMNI_TRY(const std::vector<std::string> below, images_below(name));
      files.insert(files.end(), below.begin(), below.end());
    } catch (const fs::filesystem_error& problem) {
      return Error{ErrorKind::data, problem.path1().string(), problem.code().message(),
                   "is all of the folder readable?"};
    }
  return files;
}

// With a mini-batch of as many images as --batch says, or as are worthwhile.
Result<std::unique_ptr<Net>> open_for(std::size_t images, const NetArguments& arguments) {
  OMNI_TRY(NetSpec spec, read_net(arguments));
  const auto build = [&](std::size_t batch) {
    spec.net.options.push_back({"batch", std::to_string(batch), kCommandLine});
    return build_net(spec, arguments, false);
  };
  spec.net.options.push_back({"subdivisions", "1", kCommandLine});
  if (arguments.overrides("batch")) return build_net(spec, arguments, false);
  OMNI_TRY(auto one, build(1));
  const std::size_t parameters = one->parameter_count() * sizeof(float),
                    each = std::max<std::size_t>(1, one->tensor_bytes() - parameters);
  const std::size_t batch = std::min({images, kMostAtOnce, kBytesAtOnce / each});
  if (batch < 2) return one;
  return build(batch);
}

class Prediction {
 public:
  Prediction(Net& net, const ClassNames& names, const PredictArguments& arguments)
      : net_(net), names_(names), arguments_(arguments) {}

  // `name(index)`: what the image is called.
  template <class Name>
  Status run(ChosenImages& images, Name name) {
    DataFeed feed(images, feed_options(net_, arguments_.data.seed, false, kEvaluationSlots));
    OMNI_CHECK(MemoryForecast(net_, evaluation_demand(net_, &feed, working_on_gpus(net_)),
                              arguments_.machine)
                   .require());
    OMNI_CHECK(feed.allocate());
    return evaluate_each(
        net_, feed, arguments_.data.seed, [&](std::size_t index, std::span<const float> outputs) {
          const auto error = images.take_error(index);
          return error ? complain(name(index), *error) : print(name(index), outputs);
        });
  }
  // Of a single image it was the whole problem.
  Status finish(std::size_t images) {
    if (unreadable_ == 0) return {};
    if (images == 1) return std::move(*last_);
    log::error("{}", last_->message());
    return Error{ErrorKind::data, "predict",
                 fmt::format("{} of {} images could not be read", unreadable_, images),
                 "they are named above; the others are predicted"};
  }

 private:
  Status complain(const std::string& name, const Error& error) {
    if (last_) log::error("{}", last_->message());
    last_ = error;
    ++unreadable_;
    if (arguments_.common.json) write({{"image", name}, {"error", error.message()}});
    return {};
  }
  Status print(const std::string& name, std::span<const float> outputs) {
    OMNI_TRY(const auto order, likeliest(outputs, static_cast<std::size_t>(arguments_.top), name));
    nlohmann::ordered_json classes = nlohmann::json::array();
    if (!arguments_.common.json) fmt::print("{}\n", name);
    for (const std::size_t index : order)
      if (arguments_.common.json)
        classes.push_back({{"index", index},
                           {"name", names_[index]},
                           {"probability", as_written(outputs[index])}});
      else
        fmt::print("{:.2f}%: {}\n", 100 * outputs[index], names_[index]);
    if (arguments_.common.json) write({{"image", name}, {"classes", classes}});
    return {};
  }
  static void write(const nlohmann::ordered_json& object) {
    fmt::print("{}\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  Net& net_;
  const ClassNames& names_;
  const PredictArguments& arguments_;
  std::optional<Error> last_;
  std::size_t unreadable_ = 0;
};

}  // namespace

Status predict_command(const PredictArguments& arguments) {
  OMNI_TRY(const std::vector<std::string> files, image_files(arguments.images));
  const std::size_t images = files.size() + arguments.samples.size();
  OMNI_TRY(const auto net, open_for(images, arguments.net));
  if (images == 0)
    return Error{ErrorKind::usage, "predict", "no image given",
                 "name .jpg, .ppm or .pgm files or folders of them, or a test sample with --data "
                 "NAME --index N"};
  DatasetPair data;
  if (!arguments.data.source.empty() || !arguments.samples.empty()) {
    OMNI_TRY(data, open_data(arguments.data, *net));
  }
  OMNI_TRY(const ClassNames names, ClassNames::read(arguments.names, data.test.get(), *net));
  std::vector<std::size_t> samples;
  for (const std::uint64_t sample : arguments.samples) {
    if (sample >= data.test->size())
      return Error{ErrorKind::usage, fmt::format("--index {}", sample),
                   fmt::format("the test set has {} images", data.test->size()), ""};
    samples.push_back(static_cast<std::size_t>(sample));
  }
  const FileDataset from_files({.paths = files}, net->classes(), {}, {});
  if (!files.empty())
    OMNI_CHECK(check_input(net->options().augment, from_files.extent(), net->options().input,
                           net->name()));
  OMNI_TRY(const Session session, start_session(arguments.machine));
  OMNI_CHECK(net->allocate());
  OMNI_CHECK(load_parameters(*net, arguments.weights));

  Prediction prediction(*net, names, arguments);
  if (!files.empty()) {
    std::vector<std::size_t> all(files.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    ChosenImages chosen(from_files, std::move(all));
    OMNI_CHECK(prediction.run(chosen, [&](std::size_t index) { return files[index]; }));
  }
  if (!samples.empty()) {
    ChosenImages chosen(*data.test, samples);
    OMNI_CHECK(prediction.run(chosen, [&](std::size_t index) {
      const auto label = static_cast<std::size_t>(data.test->label(samples[index]));
      return fmt::format("test image {} ({})", samples[index], names[label]);
    }));
  }
  return prediction.finish(images);
}

}  // namespace omni
