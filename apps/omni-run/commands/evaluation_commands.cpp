// omni-run predict and valid: the predictions of a trained net, and how often they are right.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "apps/omni-run/class_names.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/confusion.hpp"
#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/progress.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/output_file.hpp"
#include "runtime/data/damaged_images.hpp"
#include "runtime/data/images/file_dataset.hpp"
#include "runtime/data/images/image_list.hpp"
#include "runtime/data/images/image_sources.hpp"
#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/training/evaluator.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// Returns the classes of the `most` largest outputs, largest first. Of equal outputs the lower
// class comes first, as in an evaluation. An output that is not finite is an error of `where`.
Result<std::vector<std::size_t>> likeliest(std::span<const float> outputs, std::size_t most,
                                           const std::string& where) {
  if (!std::ranges::all_of(outputs, [](float each) { return std::isfinite(each); }))
    return Error{ErrorKind::diverged, where, "the net's output is not a finite number",
                 "are these the weights of this net?"};
  std::vector<std::size_t> order(outputs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto top = static_cast<std::ptrdiff_t>(std::min(most, order.size()));
  std::partial_sort(order.begin(), order.begin() + top, order.end(), [&](auto a, auto b) {
    return outputs[a] != outputs[b] ? outputs[a] > outputs[b] : a < b;
  });
  order.resize(top);
  return order;
}

// Gives the net its memory and the weights, and returns the class names that are stored with them.
// `test`: the images; null: not known yet. `held_out_of`: see load_parameters().
Result<std::vector<std::string>> prepare(Net& net, const DataFeed* test,
                                         const NetRunArguments& arguments,
                                         const std::string& weights,
                                         const std::string& held_out_of = "") {
  const MemoryDemand demand = evaluation_demand(net, test, working_on_gpus(net));
  OMNI_CHECK(MemoryForecast(net, demand, arguments.machine).require());
  OMNI_CHECK(net.allocate());
  return load_parameters(net, weights, held_out_of);
}

// The most images in a mini-batch, and the most bytes of their decoded values.
constexpr std::size_t kMostAtOnce = 32, kBytesAtOnce = std::size_t{256} << 20;

// Some images of a data set, without labels. An image that cannot be read is replaced by a black
// one, and its error is kept. So the other images are predicted nevertheless.
class ChosenImages final : public Dataset {
 public:
  ChosenImages(const Dataset& of, std::vector<std::size_t> indices)
      : of_(of), indices_(std::move(indices)) {}

  std::size_t size() const override { return indices_.size(); }
  Extent extent() const override { return of_.extent(); }
  bool holds_vectors() const override { return of_.holds_vectors(); }
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

// Returns the named files, and the images in the named folders.
Result<std::vector<std::string>> image_files(const std::vector<std::string>& named) {
  std::vector<std::string> files;
  for (const std::string& name : named) try {
      if (!fs::exists(name))
        return Error{ErrorKind::usage, name, "no such file or folder", "images are named by path"};
      std::vector<std::string> found{name};
      if (fs::is_directory(name)) {
        OMNI_TRY(found, images_below(name));
      }
      files.insert(files.end(), found.begin(), found.end());
    } catch (const fs::filesystem_error& problem) {
      return Error{ErrorKind::data, problem.path1().string(), problem.code().message(),
                   "is all of the folder readable?"};
    }
  return files;
}

// Builds the net with the mini-batch of --batch, or with one that suits the number of images.
Result<std::unique_ptr<Net>> open_for(std::size_t images, TrainableNet& spec,
                                      const NetArguments& arguments) {
  const bool given = arguments.sets("batch", arguments.named.batch);
  if (!given) spec.options.batch = 1;
  OMNI_TRY(auto one, build_net(spec, arguments, false));
  const std::size_t parameters = one->parameter_count() * sizeof(float),
                    each = std::max<std::size_t>(1, one->tensor_bytes() - parameters);
  const std::size_t batch = std::min({images, kMostAtOnce, kBytesAtOnce / each});
  if (batch < 2 || given) return one;
  spec.options.batch = static_cast<int>(batch);
  return build_net(spec, arguments, false);
}

// Prints the result of an image. The error ends the command if stdout is closed.
Status write_result(const std::string& text) {
  log::result("{}\n", text);
  if (std::ferror(stdout) == 0) return {};
  return Error{ErrorKind::failed, "predict", "cannot write the results to stdout", ""};
}

Status print(const std::string& image, std::span<const float> outputs, std::size_t most,
             const std::vector<std::string>& names, const PredictArguments& arguments) {
  OMNI_TRY(const auto order, likeliest(outputs, most, image));
  nlohmann::ordered_json object{{"image", image}, {"classes", nlohmann::ordered_json::array()}};
  std::string text = one_line(image);
  for (const std::size_t at : order) {
    object["classes"].push_back(
        {{"index", at}, {"name", names[at]}, {"probability", shortest_decimal(outputs[at])}});
    text += fmt::format("\n{:.2f}%: {}", 100 * outputs[at], one_line(names[at]));
  }
  return write_result(arguments.common.json ? json_text(object) : text);
}

// Predicts some samples of a data set, and counts those that cannot be read.
struct Prediction {
  Net& net;
  const AugmentOptions& augment;
  const PredictArguments& arguments;
  const std::vector<std::string>& names;
  std::size_t images;  // number of images
  std::size_t most;    // the most classes per image
  std::size_t unreadable = 0;

  Status of(const Dataset& data, std::vector<std::size_t> indices, const auto& name) {
    ChosenImages chosen(data, std::move(indices));
    DataFeed feed(chosen, feed_options(net, augment, arguments.data.seed, false, kEvaluationSlots));
    OMNI_CHECK(feed.allocate());
    const auto use = [&](std::size_t index, std::span<const float> outputs) -> Status {
      const auto error = chosen.take_error(index);
      if (!error) return print(name(index), outputs, most, names, arguments);
      const nlohmann::ordered_json object{{"image", name(index)}, {"error", error->message()}};
      if (arguments.common.json) OMNI_CHECK(write_result(json_text(object)));
      if (images == 1) return *error;
      log::error("{}", error->message());
      ++unreadable;
      return {};
    };
    OMNI_CHECK(evaluate(net, feed, arguments.data.seed, use));
    return {};
  }
};

}  // namespace

Status predict_command(const PredictArguments& arguments) {
  OMNI_TRY(const std::vector<std::string> files, image_files(arguments.images));
  const std::size_t images = files.size() + arguments.samples.size();
  NetArguments whole_batches = arguments.net;
  whole_batches.named.subdivisions = 1;
  OMNI_TRY(TrainableNet spec, read_net(whole_batches));
  OMNI_TRY(const auto net, open_for(images, spec, arguments.net));
  if (images == 0)
    return Error{
        ErrorKind::usage, "predict", "no image given",
        "name .jpg, .png, .ppm or .pgm files or folders of them, or a test sample with --data "
        "NAME --index N"};
  DatasetPair data;
  if (!arguments.data.source.empty()) {
    DataArguments wanted = arguments.data;
    wanted.test = !arguments.samples.empty();  // without samples only the class names are used
    OMNI_TRY(data, open_data(wanted, *net, spec.augment.flat));
    if (!data.test) data.test = std::move(data.train);
  }
  std::vector<std::string> given;
  if (!arguments.names.empty()) {
    OMNI_TRY(given, read_names(arguments.names, *net));
  }
  for (const std::uint64_t sample : arguments.samples)
    if (sample >= data.test->size())
      return Error{ErrorKind::usage, fmt::format("--index {}", sample),
                   fmt::format("the test set has {} images", data.test->size()), ""};
  ImageList list;
  for (const std::string& file : files) list.paths.push_back(file);
  const FileDataset from_files(std::move(list), net->classes(), {}, {});
  if (!files.empty())
    OMNI_CHECK(check_input(spec.augment, from_files.extent(), net->options().input, "predict"));
  OMNI_TRY(const Session session, start_session(arguments.machine));
  OMNI_TRY(auto stored, prepare(*net, nullptr, arguments, arguments.weights));
  const auto names =
      settle_names(std::move(given), data.test.get(), std::move(stored), *net, arguments.weights);

  // A net may have more outputs than the data have classes.
  const int classes = data.test ? data.test->classes() : net->classes();
  Prediction predict{*net,      spec.augment,
                     arguments, names,
                     images,    static_cast<std::size_t>(std::min(arguments.top, classes))};
  std::vector<std::size_t> all(files.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (!files.empty())
    OMNI_CHECK(predict.of(from_files, std::move(all), [&](std::size_t at) { return files[at]; }));
  const auto sample_name = [&](std::size_t at) {
    const std::size_t sample = arguments.samples[at];
    const std::size_t label = data.test->label(sample);
    return fmt::format("test image {} ({})", sample, names[label]);
  };
  if (!arguments.samples.empty())
    OMNI_CHECK(
        predict.of(*data.test, {arguments.samples.begin(), arguments.samples.end()}, sample_name));
  if (predict.unreadable == 0) return {};
  return Error{ErrorKind::data, "predict",
               fmt::format("{} of {} images could not be read", predict.unreadable, images),
               "they are named above; the others are predicted"};
}

Status valid_command(const ValidArguments& arguments) {
  OMNI_TRY(const TrainableNet spec, read_net(arguments.net));
  OMNI_TRY(const auto net, build_net(spec, arguments.net, false));
  if (!net->layers().back()->is_loss())
    return Error{ErrorKind::usage, net->name(), "the last layer computes no loss",
                 "end the net with a softmax layer"};
  // Synthetic images, the default of other commands, would say nothing about a trained net.
  if (arguments.data.source.empty())
    return Error{ErrorKind::usage, "valid", "no data given",
                 "--data names those of the training; --data synthetic computes patterns"};
  OMNI_TRY(DatasetPair data, open_data(arguments.data, *net, spec.augment.flat));
  data.test = skip_damaged_images(std::move(data.test), arguments.data.damaged, false);
  std::vector<std::string> given;
  if (!arguments.names.empty()) {
    OMNI_TRY(given, read_names(arguments.names, *net));
  }
  const bool csv = !arguments.per_class_csv.empty();
  if (csv)  // checked before the evaluation
    OMNI_CHECK(check_output(
        {.option = "--per-class-csv",
         .path = arguments.per_class_csv,
         .read = {arguments.net.net, arguments.data.source, arguments.names, arguments.weights},
         .written = {arguments.trace},
         .replaceable =
             [&](const fs::path& file) { return Confusion::is_csv(file, net->classes()); },
         .foreign = "holds no confusion matrix"}));
  OMNI_TRY(const Session session, start_session(arguments.machine));
  DataFeed test(*data.test,
                feed_options(*net, spec.augment, arguments.data.seed, false, kEvaluationSlots));
  OMNI_TRY(auto stored, prepare(*net, &test, arguments, arguments.weights,
                                arguments.data.hold_out > 0 ? data.name : ""));
  Confusion confusion(
      settle_names(std::move(given), data.test.get(), std::move(stored), *net, arguments.weights));
  OMNI_CHECK(test.allocate());
  OMNI_TRY(const auto recorder, start_trace(arguments.trace, session, *net));
  const auto count = [&](std::size_t index, std::span<const float> outputs) -> Status {
    const int label = data.test->label(index);
    if (label == kNoLabel) return {};  // the image could not be read
    OMNI_TRY(const auto said, likeliest(outputs, 1, arguments.weights));
    confusion.add(static_cast<std::size_t>(label), said.front());
    return {};
  };
  OMNI_TRY(const Tally tally, evaluate(*net, test, arguments.data.seed,
                                       arguments.per_class || csv ? count : UseOutputs()));
  if (!std::isfinite(tally.mean_loss()))
    return Error{ErrorKind::diverged, arguments.weights, "the test loss is not a finite number",
                 "are these the weights of this net?"};
  DamagedImages* const damaged = data.test->damaged();
  if (damaged != nullptr)
    for (const DamagedImage& each : damaged->take_new())
      log::warn("skipped: {}", each.error.message());
  const std::size_t skipped = damaged != nullptr ? damaged->count() : 0;
  if (csv) OMNI_CHECK(write_file_atomically(arguments.per_class_csv, confusion.csv()));
  if (arguments.common.json) {
    nlohmann::ordered_json object{{"net", net->name()},
                                  {"data", data.name},
                                  {"images", std::llround(tally.images)},
                                  {"test_loss", shown_single(tally.mean_loss())},
                                  {"test_accuracy", shown_single(tally.accuracy())},
                                  {"test_top5_accuracy", shown_single(tally.top5_accuracy())}};
    if (skipped > 0) object["damaged_test_images"] = skipped;
    if (arguments.per_class) object["per_class"] = confusion.json();
    log::result("{}\n", json_text(object));
  } else {
    log::result("{}{}\n{}", tested(tally, net->classes()),
                skipped > 0 ? fmt::format("; {} could not be read", skipped) : "",
                arguments.per_class ? confusion.text() : "");
  }
  return {};
}

}  // namespace omni
