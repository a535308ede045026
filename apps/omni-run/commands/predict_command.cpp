// omni-run predict prints the likeliest classes of images, by a trained net or an ensemble.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "apps/omni-run/class_names.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/ensemble/trained_nets.hpp"
#include "apps/omni-run/setup.hpp"
#include "runtime/data/images/file_dataset.hpp"
#include "runtime/data/images/image_list.hpp"
#include "runtime/data/images/image_sources.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/ensemble/joint_prediction.hpp"
#include "scheduling/training/evaluator.hpp"

namespace omni {
namespace {

namespace fs = std::filesystem;

// A mini-batch has at most kMostAtOnce images, whose decoded values take at most kBytesAtOnce.
constexpr std::size_t kMostAtOnce = 32, kBytesAtOnce = std::size_t{256} << 20;

// ChosenImages are some images of a data set, without labels. An image that cannot be read is
// replaced by a black one, and its error is kept. So the other images are predicted nevertheless.
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
  Status read_part(std::size_t index, std::size_t part, LeastSize least,
                   Image& image) const override {
    return of_.read_part(indices_[index], part, least, image);
  }
  const Dataset& part(std::size_t number) const override { return of_.part(number); }
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
  const bool given = spec.commanded.contains("batch");
  if (!given) spec.options.batch = 1;
  OMNI_TRY(auto one, build_net(spec, arguments, false));
  const std::size_t parameters = one->parameter_count() * sizeof(float),
                    each = std::max<std::size_t>(1, one->tensor_bytes() - parameters);
  const std::size_t batch = std::min({images, kMostAtOnce, kBytesAtOnce / each});
  if (batch < 2 || given) return one;
  spec.options.batch = static_cast<int>(batch);
  return build_net(spec, arguments, false);
}

// Prints the result of an image. A failed write to stdout is an error, which ends the command.
Status write_result(const std::string& text) {
  log::result("{}\n", text);
  if (std::ferror(stdout) == 0) return {};
  return Error{ErrorKind::failed, "predict", "cannot write the results to stdout", ""};
}

// Predicts images by one net after the other. The last net's pass prints the averages of all.
class Prediction {
 public:
  Prediction(const PredictArguments& arguments, const std::vector<TrainedNet>& nets,
             std::size_t images)
      : arguments_(arguments), nets_(nets), images_(images) {}

  std::size_t unreadable() const { return unreadable_.size(); }
  const std::vector<std::string>& names() const { return names_; }

  // Begins the pass of a net. `data` are those of --data; null: the option is not given. `given`
  // are the names from the user's file.
  Status begin(std::size_t number, const Dataset* data, const std::vector<std::string>& given) {
    const TrainedNet& trained = nets_[number];
    Net& net = *trained.net;
    number_ = number;
    next_ = 0;
    const std::size_t sums = several() ? OutputSums::bytes(images_, net.classes()) : 0;
    OMNI_TRY(auto stored, prepare(trained, nullptr, arguments_.machine, number == 0 ? sums : 0));
    if (number > 0) return check_same_names(trained, stored, stored_);
    stored_ = stored;
    names_ = settle_names(given, data, std::move(stored), net, trained.weights);
    // A net may have more outputs than the data have classes.
    most_ = std::min(arguments_.top, data != nullptr ? data->classes() : net.classes());
    if (several()) sums_.emplace(images_, net.classes());
    return {};
  }

  // Predicts some samples of a data set.
  Status of(const Dataset& data, std::vector<std::size_t> indices, const auto& name) {
    const TrainedNet& trained = nets_[number_];
    const std::size_t first = std::exchange(next_, next_ + indices.size());
    ChosenImages chosen(data, std::move(indices));
    DataFeed feed(chosen, feed_options(*trained.net, trained.spec.augment,
                                       arguments_.data.seed_of_net(), false, kEvaluationSlots));
    OMNI_CHECK(feed.allocate());
    const auto use = [&](std::size_t index, std::span<const float> outputs) -> Status {
      const std::size_t image = first + index;
      if (auto error = chosen.take_error(index)) {
        unreadable_.emplace(image, std::move(*error));
      } else if (several()) {
        sums_->add(image, outputs);
      }
      return number_ + 1 == nets_.size() ? finish(image, name(index), outputs) : Status();
    };
    OMNI_CHECK(evaluate(*trained.net, feed, arguments_.data.seed_of_net(), use));
    return {};
  }

 private:
  bool several() const { return nets_.size() > 1; }

  Status finish(std::size_t image, const std::string& name, std::span<const float> outputs) {
    const auto unreadable = unreadable_.find(image);
    if (unreadable == unreadable_.end())
      return print(name, several() ? sums_->average(image, nets_.size()) : outputs);
    const Error& error = unreadable->second;
    const nlohmann::ordered_json object{{"image", name}, {"error", error.message()}};
    if (arguments_.common.json) OMNI_CHECK(write_result(json_text(object)));
    if (images_ == 1) return error;
    log::error("{}", error.message());
    return {};
  }

  Status print(const std::string& image, std::span<const float> outputs) const {
    OMNI_TRY(const auto order, likeliest(outputs, static_cast<std::size_t>(most_), image));
    nlohmann::ordered_json object{{"image", image}, {"classes", nlohmann::ordered_json::array()}};
    std::string text = one_line(image);
    for (const std::size_t at : order) {
      object["classes"].push_back(
          {{"index", at}, {"name", names_[at]}, {"probability", shortest_decimal(outputs[at])}});
      text += fmt::format("\n{:.2f}%: {}", 100 * outputs[at], one_line(names_[at]));
    }
    return write_result(arguments_.common.json ? json_text(object) : text);
  }

  const PredictArguments& arguments_;
  const std::vector<TrainedNet>& nets_;
  std::size_t images_;      // number of images
  std::size_t number_ = 0;  // number of the net
  std::size_t next_ = 0;    // number of the next image in this net's pass
  int most_ = 0;            // classes to print per image
  std::vector<std::string> stored_{}, names_{};
  std::optional<OutputSums> sums_{};  // none: there is one net
  std::map<std::size_t, Error> unreadable_{};
};

// Opens the data of --data as the net sees them; without --data there are none.
Result<DatasetPair> open_samples(const PredictArguments& arguments, const TrainedNet& trained) {
  if (arguments.data.source.empty()) return DatasetPair();
  DataArguments wanted = drawn_as_trained(arguments.data, trained);
  wanted.test = !arguments.samples.empty();  // without samples only the class names are used
  OMNI_TRY(DatasetPair data, open_data(wanted, *trained.net, trained.spec));
  if (!data.test) data.test = std::move(data.train);
  for (const std::uint64_t sample : arguments.samples)
    if (sample >= data.test->size())
      return Error{ErrorKind::usage, fmt::format("--index {}", sample),
                   fmt::format("the test set has {} images", data.test->size()), ""};
  return data;
}

}  // namespace

Status predict_command(const PredictArguments& arguments) {
  OMNI_TRY(const std::vector<std::string> files, image_files(arguments.images));
  const std::size_t images = files.size() + arguments.samples.size();
  OMNI_TRY(TrainedNets trained,
           find_trained_nets(arguments.net, arguments.weights, arguments.ensemble));
  for (TrainedNet& each : trained.nets) {
    NetArguments whole_batches = each.arguments;
    whole_batches.named.subdivisions = 1;
    OMNI_TRY(each.spec, read_net(whole_batches));
    OMNI_TRY(each.net, open_for(images, each.spec, each.arguments));
    if (each.net->classes() == 0)
      return Error{ErrorKind::usage, each.net->name(), "has no classes to predict",
                   "omni-run valid computes its loss"};
    if (!files.empty() && !each.spec.augment.parts.empty())
      return Error{ErrorKind::usage, each.net->name(),
                   "has several inputs, but a file is one image",
                   "name a test sample: --data NAME=SOURCE --index N"};
  }
  if (!trained.alone()) OMNI_CHECK(trained.check_outputs());
  if (images == 0)
    return Error{
        ErrorKind::usage, "predict", "no image given",
        "name .jpg, .png, .ppm or .pgm files or folders of them, or a test sample with --data "
        "NAME --index N"};
  const Net& net = *trained.nets.front().net;
  OMNI_TRY(DatasetPair data, open_samples(arguments, trained.nets.front()));
  std::vector<std::string> given;
  if (!arguments.names.empty()) {
    OMNI_TRY(given, read_names(arguments.names, net));
  }
  ImageList list;
  for (const std::string& file : files) list.paths.push_back(file);
  const FileDataset from_files(std::move(list), net.classes(), {}, {});
  for (const TrainedNet& each : trained.nets)
    if (!files.empty())
      OMNI_CHECK(check_input(each.spec.augment, from_files.extent(), each.net->options().input,
                             "predict"));
  OMNI_TRY(const Session session, start_session(arguments.machine));
  Prediction predict(arguments, trained.nets, images);
  const auto sample_name = [&](std::size_t at) {
    const std::size_t sample = arguments.samples[at];
    const std::size_t label = data.test->label(sample);
    return fmt::format("test image {} ({})", sample,
                       label < predict.names().size() ? predict.names()[label] : "no class");
  };
  for (std::size_t i = 0; i < trained.nets.size(); ++i) {
    if (i > 0) {
      if (!arguments.samples.empty() && !read_alike(trained.nets[i - 1], trained.nets[i])) {
        OMNI_TRY(data, open_samples(arguments, trained.nets[i]));
      }
      trained.nets[i - 1].net.reset();
    }
    OMNI_CHECK(predict.begin(i, data.test.get(), given));
    std::vector<std::size_t> all(files.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (!files.empty())
      OMNI_CHECK(predict.of(from_files, std::move(all), [&](std::size_t at) { return files[at]; }));
    if (!arguments.samples.empty())
      OMNI_CHECK(predict.of(*data.test, {arguments.samples.begin(), arguments.samples.end()},
                            sample_name));
  }
  if (predict.unreadable() == 0) return {};
  return Error{ErrorKind::data, "predict",
               fmt::format("{} of {} images could not be read", predict.unreadable(), images),
               "they are named above; the others are predicted"};
}

}  // namespace omni
