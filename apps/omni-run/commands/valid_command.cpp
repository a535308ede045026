// omni-run valid tells how often the predictions of a trained net, or of an ensemble, are right.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/omni-run/class_names.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/confusion.hpp"
#include "apps/omni-run/ensemble/joint_report.hpp"
#include "apps/omni-run/ensemble/trained_nets.hpp"
#include "apps/omni-run/progress.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/output_file.hpp"
#include "runtime/data/damaged_images.hpp"
#include "runtime/files.hpp"
#include "runtime/json_text.hpp"
#include "runtime/log.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/ensemble/weight_average.hpp"
#include "scheduling/training/evaluator.hpp"

namespace omni {
namespace {

// Warns of a member that was trained with another --hold-out or --seed, and so perhaps on samples
// that are now test samples.
void warn_of_learned_samples(const DataArguments& arguments, const TrainedNet& trained) {
  const DataArguments tested = drawn_as_trained(arguments, trained);
  const DataArguments& learned = trained.data;
  if (tested.hold_out > 0 && (learned.hold_out != tested.hold_out ||
                              learned.seed_of_samples() != tested.seed_of_samples()))
    log::warn(
        "{}: was trained with other values of --hold-out and --seed: samples that it learned may "
        "be among the test samples",
        shown_name(trained.member));
}

Result<DatasetPair> open_test_data(const DataArguments& arguments, const TrainedNet& trained) {
  OMNI_TRY(DatasetPair data,
           open_data(drawn_as_trained(arguments, trained), *trained.net, trained.spec));
  data.test = skip_damaged_images(std::move(data.test), arguments.damaged, false);
  return data;
}

// Evaluates trained nets on the same test images, and prints the result.
class Validation {
 public:
  Validation(const ValidArguments& arguments, TrainedNets& trained, DatasetPair data)
      : arguments_(arguments),
        trained_(trained),
        data_(std::move(data)),
        images_(data_.test->size()) {}

  // Runs the command. `names` are from the user's file, or empty.
  Status run(const Session& session, std::vector<std::string> names) {
    for (std::size_t i = 0; i < trained_.nets.size(); ++i) {
      const TrainedNet& last = trained_.nets[i == 0 ? 0 : i - 1];
      const bool same_images = read_alike(last, trained_.nets[i]);
      if (i > 0) trained_.nets[i - 1].net.reset();
      if (!same_images) {
        OMNI_TRY(data_, open_test_data(arguments_.data, trained_.nets[i]));
        if (data_.test->size() != images_)
          return Error{ErrorKind::data, data_.name, "has other test images for another net",
                       "members of an ensemble are tested on the same ones"};
      }
      OMNI_CHECK(evaluate_net(session, i, names));
    }
    return report();
  }

 private:
  bool wants_confusion() const { return arguments_.per_class || !arguments_.per_class_csv.empty(); }
  bool averages_weights() const {
    return trained_.nets.size() > 1 &&
           std::ranges::all_of(trained_.nets, [&](const TrainedNet& each) {
             return each.spec.statements == trained_.nets.front().spec.statements &&
                    each.spec.options.input == trained_.nets.front().spec.options.input;
           });
  }
  // Returns the bytes that joint results of the members need; 0: there is one net.
  std::size_t joint_bytes() const {
    if (trained_.alone()) return 0;
    Net& net = *trained_.nets.front().net;
    return JointPrediction::bytes(images_, net.classes(), trained_.nets.size()) +
           (averages_weights() ? WeightAverage::bytes(net) : 0);
  }

  Status evaluate_net(const Session& session, std::size_t number, std::vector<std::string>& names) {
    const TrainedNet& trained = trained_.nets[number];
    Net& net = *trained.net;
    const std::uint64_t seed = arguments_.data.seed_of_net();
    DataFeed test(*data_.test,
                  feed_options(net, trained.spec.augment, seed, false, kEvaluationSlots));
    OMNI_TRY(auto stored,
             prepare(trained, &test, arguments_.machine, number == 0 ? joint_bytes() : 0,
                     arguments_.data.hold_out > 0 ? data_.name : ""));
    if (number == 0) {
      stored_ = stored;
      confusion_.emplace(settle_names(std::move(names), data_.test.get(), std::move(stored), net,
                                      trained.weights));
      if (!trained_.alone()) joint_.emplace(images_, net.classes(), trained_.nets.size());
    } else {
      OMNI_CHECK(check_same_names(trained, stored, stored_));
    }
    OMNI_CHECK(test.allocate());
    OMNI_TRY(const auto recorder, start_trace(arguments_.trace, session, net));
    const auto use = [&](std::size_t index, std::span<const float> outputs) {
      return count(number, index, outputs);
    };
    OMNI_TRY(tally_, evaluate(net, test, seed, joint_ || wants_confusion() ? use : UseOutputs()));
    if (!std::isfinite(tally_.mean_loss()))
      return Error{ErrorKind::diverged, trained.weights, "the test loss is not a finite number",
                   "are these the weights of this net?"};
    if (!joint_) return {};
    log::info("{}: {}", trained.member, tested(tally_, net.classes()));
    members_.push_back({.name = trained.member,
                        .net = net.name(),
                        .loss = tally_.mean_loss(),
                        .accuracy = tally_.accuracy(),
                        .calibration_error = joint_->calibration_error(number)});
    if (!averages_weights()) return {};
    average_.add(net);
    if (number + 1 < trained_.nets.size()) return {};
    average_.put_into(net);
    OMNI_TRY(averaged_, evaluate(net, test, seed));
    return {};
  }

  Status count(std::size_t number, std::size_t index, std::span<const float> outputs) {
    const int label = data_.test->label(index);
    const int ignored = trained_.nets[number].net->layers().back()->ignored_labels().in_accuracy;
    if (label == kNoLabel || label == ignored) {  // kNoLabel: the image could not be read
      if (joint_) joint_->leave_out(index);
      return {};
    }
    OMNI_TRY(const auto said, likeliest(outputs, 1, trained_.nets[number].weights));
    const auto truth = static_cast<std::size_t>(label);
    if (joint_)
      joint_->add(number, index, truth, outputs);
    else
      confusion_->add(truth, said.front());
    return {};
  }

  Status report() {
    DamagedImages* const damaged = data_.test->damaged();
    if (damaged != nullptr)
      for (const DamagedImage& each : damaged->take_new())
        log::warn("skipped: {}", each.error.message());
    const std::size_t skipped = damaged != nullptr ? damaged->count() : 0;
    for (std::size_t image = 0; joint_ && image < images_; ++image)
      if (const auto truth = joint_->label(image)) confusion_->add(*truth, joint_->said(image));
    if (!arguments_.per_class_csv.empty())
      OMNI_CHECK(write_file_atomically(arguments_.per_class_csv, confusion_->csv()));
    nlohmann::ordered_json object;
    std::string text;
    if (joint_) {
      const JointReport report{.ensemble = trained_.ensemble,
                               .data = data_.name,
                               .members = std::move(members_),
                               .left_out = trained_.left_out,
                               .joint = joint_->score(),
                               .averaged_weights = averaged_,
                               .damaged = skipped};
      object = report.json();
      text = report.text();
    } else {
      const Net& net = *trained_.nets.front().net;
      object = {{"net", net.name()},
                {"data", data_.name},
                {"images", std::llround(tally_.images)},
                {"test_loss", shown_single(tally_.mean_loss())}};
      if (net.classes() > 0) {
        object["test_accuracy"] = shown_single(tally_.accuracy());
        object["test_top5_accuracy"] = shown_single(tally_.top5_accuracy());
      }
      if (skipped > 0) object["damaged_test_images"] = skipped;
      text = tested(tally_, net.classes()) +
             (skipped > 0 ? fmt::format("; {} could not be read", skipped) : "") + "\n";
    }
    if (arguments_.per_class) object["per_class"] = confusion_->json();
    if (arguments_.common.json)
      log::result("{}\n", json_text(object));
    else
      log::result("{}{}", text, arguments_.per_class ? confusion_->text() : "");
    return {};
  }

  const ValidArguments& arguments_;
  TrainedNets& trained_;
  DatasetPair data_;
  std::size_t images_;
  std::vector<std::string> stored_{};  // names of classes that were saved with the first weights
  std::optional<Confusion> confusion_{};
  Tally tally_{};  // of the last net
  // Only an ensemble has these.
  std::optional<JointPrediction> joint_{};
  std::vector<JointReport::Member> members_{};
  WeightAverage average_{};
  std::optional<Tally> averaged_{};
};

}  // namespace

Status valid_command(const ValidArguments& given) {
  ValidArguments arguments = given;
  OMNI_TRY(TrainedNets trained,
           find_trained_nets(arguments.net, arguments.weights, arguments.ensemble));
  for (TrainedNet& each : trained.nets) {
    OMNI_TRY(each.spec, read_net(each.arguments));
    OMNI_TRY(each.net, build_net(each.spec, each.arguments, false));
    if (!each.net->layers().back()->is_loss())
      return Error{ErrorKind::usage, each.net->name(), "the last layer computes no loss",
                   "end the net with a softmax layer"};
  }
  if (!trained.alone()) OMNI_CHECK(trained.check_outputs());
  for (const TrainedNet& each : trained.nets)
    if (!trained.alone()) warn_of_learned_samples(arguments.data, each);
  if (arguments.data.source.empty()) arguments.data.source = trained.nets.front().spec.data;
  // Synthetic images, the default of other commands, would say nothing about a trained net.
  if (arguments.data.source.empty())
    return Error{ErrorKind::usage, "valid", "no data given",
                 "--data names those of the training; --data synthetic computes patterns"};
  const Net& net = *trained.nets.front().net;
  if (net.classes() == 0 && (arguments.per_class || !arguments.per_class_csv.empty()))
    return Error{ErrorKind::usage, arguments.per_class ? "--per-class" : "--per-class-csv",
                 "the net has no classes", "leave it out"};
  OMNI_TRY(DatasetPair data, open_test_data(arguments.data, trained.nets.front()));
  std::vector<std::string> names;
  if (!arguments.names.empty()) {
    OMNI_TRY(names, read_names(arguments.names, net));
  }
  if (!arguments.per_class_csv.empty()) {  // checked before the evaluation
    OutputFile csv{.option = "--per-class-csv",
                   .path = arguments.per_class_csv,
                   .read = {arguments.data.source, arguments.names},
                   .written = {arguments.trace},
                   .replaceable =
                       [&](const std::filesystem::path& file) {
                         return Confusion::is_csv(file, net.classes());
                       },
                   .foreign = "holds no confusion matrix"};
    for (const TrainedNet& each : trained.nets)
      csv.read.insert(csv.read.end(), {each.arguments.net, each.weights});
    OMNI_CHECK(check_output(csv));
  }
  OMNI_TRY(const Session session, start_session(arguments.machine));
  return Validation(arguments, trained, std::move(data)).run(session, std::move(names));
}

}  // namespace omni
