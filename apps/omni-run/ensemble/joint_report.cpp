#include "apps/omni-run/ensemble/joint_report.hpp"

#include <fmt/format.h>

#include "apps/omni-perf/document.hpp"
#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

using Json = nlohmann::ordered_json;

std::string loss_text(double loss) { return fmt::format("{:.4f}", loss); }
std::string share_text(double share) { return fmt::format("{:.2f} %", 100 * share); }

Json numbers(double loss, double accuracy, double calibration_error) {
  return {{"test_loss", shown_single(loss)},
          {"test_accuracy", shown_single(accuracy)},
          {"calibration_error", shown_single(calibration_error)}};
}

}  // namespace

JointReport::Member JointReport::mean() const {
  Member mean;
  const auto share = 1 / static_cast<double>(members.size());
  for (const Member& each : members) {
    mean.loss += share * each.loss;
    mean.accuracy += share * each.accuracy;
    mean.calibration_error += share * each.calibration_error;
  }
  return mean;
}

bool JointReport::weights_are_near() const {
  return averaged_weights->accuracy() >= mean().accuracy - kMostLost;
}

Json JointReport::json() const {
  const Member mean = this->mean();
  Json object{{"ensemble", ensemble},
              {"data", data},
              {"images", joint.images},
              {"members", Json::array()},
              {"left_out", Json::array()},
              {"mean_member", numbers(mean.loss, mean.accuracy, mean.calibration_error)},
              {"joint", numbers(joint.loss, joint.accuracy, joint.calibration_error)}};
  for (const Member& each : members) {
    Json member{{"name", each.name}, {"net", each.net}};
    member.update(numbers(each.loss, each.accuracy, each.calibration_error));
    object["members"].push_back(std::move(member));
  }
  for (const EnsembleMember& each : left_out)
    object["left_out"].push_back({{"name", each.name}, {"state", text_of(each.state)}});
  object["joint"]["vote_accuracy"] = shown_single(joint.vote_accuracy);
  object["disagreement"] = nullptr;
  if (joint.disagreement) object["disagreement"] = shown_single(*joint.disagreement);
  object["averaged_weights"] = nullptr;
  if (averaged_weights)
    object["averaged_weights"] = {{"test_loss", shown_single(averaged_weights->mean_loss())},
                                  {"test_accuracy", shown_single(averaged_weights->accuracy())},
                                  {"near", weights_are_near()}};
  if (damaged > 0) object["damaged_test_images"] = damaged;
  return object;
}

std::string JointReport::text() const {
  namespace column = perf::column;
  perf::Table table{
      .key = "members",
      .columns = {column::text("", "member"), column::number("", "test loss"),
                  column::number("", "test accuracy"), column::number("", "calibration error")}};
  const auto row = [&](const std::string& name, double loss, double accuracy,
                       double calibration_error) {
    table.rows.push_back(
        {name, loss_text(loss), share_text(accuracy), share_text(calibration_error)});
  };
  for (const Member& each : members)
    row(each.name, each.loss, each.accuracy, each.calibration_error);
  const Member mean = this->mean();
  row("mean of the members", mean.loss, mean.accuracy, mean.calibration_error);
  row("averaged probabilities", joint.loss, joint.accuracy, joint.calibration_error);
  table.rows.push_back({"majority vote", "-", share_text(joint.vote_accuracy), "-"});
  if (averaged_weights && weights_are_near())
    table.rows.push_back({"averaged weights", loss_text(averaged_weights->mean_loss()),
                          share_text(averaged_weights->accuracy()), "-"});
  perf::Document document{.facts = {}, .tables = {std::move(table)}, .notes = {}};
  document.notes.push_back(
      fmt::format("{} images{}", joint.images,
                  damaged > 0 ? fmt::format("; {} could not be read", damaged) : ""));
  if (joint.disagreement)
    document.notes.push_back(fmt::format("two members differ on {} of them, in the mean",
                                         share_text(*joint.disagreement)));
  if (averaged_weights && !weights_are_near())
    document.notes.push_back(
        fmt::format("averaged weights: the members are too far apart (accuracy {})",
                    share_text(averaged_weights->accuracy())));
  else if (!averaged_weights && members.size() > 1)
    document.notes.push_back("averaged weights: the members' nets differ");
  for (const EnsembleMember& each : left_out)
    document.notes.push_back(fmt::format("left out: {} ({})", each.name, text_of(each.state)));
  return perf::as_text(document);
}

}  // namespace omni
