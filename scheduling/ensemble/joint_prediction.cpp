#include "scheduling/ensemble/joint_prediction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace omni {

std::size_t largest_of(std::span<const float> values) {
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

void OutputSums::add(std::size_t image, std::span<const float> outputs) {
  float* const sums = sums_.data() + image * classes_;
  for (std::size_t i = 0; i < classes_; ++i) sums[i] += outputs[i];
}

std::vector<float> OutputSums::average(std::size_t image, std::size_t nets) const {
  const auto first = sums_.begin() + static_cast<std::ptrdiff_t>(image * classes_);
  std::vector<float> averages(first, first + static_cast<std::ptrdiff_t>(classes_));
  for (float& each : averages) each /= static_cast<float>(nets);
  return averages;
}

void Calibration::add(double confidence, bool right) {
  const double place = std::ceil(confidence * static_cast<double>(kBins)) - 1;
  Bin& bin = bins_[static_cast<std::size_t>(std::clamp(place, 0.0, double{kBins - 1}))];
  bin.confidence += confidence;
  bin.right += right;
  ++bin.images;
}

// The mean over images is the sum over bins of |confidence - accuracy|, divided by the number of
// images.
double Calibration::error() const {
  double distance = 0, images = 0;
  for (const Bin& bin : bins_) {
    distance += std::abs(bin.confidence - static_cast<double>(bin.right));
    images += static_cast<double>(bin.images);
  }
  return images > 0 ? distance / images : 0;
}

JointPrediction::JointPrediction(std::size_t images, std::size_t classes, std::size_t members)
    : sums_(images, classes),
      labels_(images, kUnknown),
      votes_(images * members),
      members_(members) {}

std::size_t JointPrediction::bytes(std::size_t images, std::size_t classes, std::size_t members) {
  return OutputSums::bytes(images, classes) + images * (1 + members) * sizeof(std::uint32_t);
}

void JointPrediction::add(std::size_t member, std::size_t image, std::size_t label,
                          std::span<const float> probabilities) {
  if (labels_[image] == kLeftOut) return;
  labels_[image] = static_cast<std::uint32_t>(label);
  const std::size_t said = largest_of(probabilities);
  sums_.add(image, probabilities);
  votes_[image * members_.size() + member] = static_cast<std::uint32_t>(said);
  members_[member].add(static_cast<double>(probabilities[said]), said == label);
}

std::optional<std::size_t> JointPrediction::label(std::size_t image) const {
  const std::uint32_t label = labels_[image];
  return label < kLeftOut ? std::optional<std::size_t>(label) : std::nullopt;
}

std::size_t JointPrediction::said(std::size_t image) const {
  return largest_of(sums_.average(image, members_.size()));
}

JointPrediction::Score JointPrediction::score() const {
  const std::size_t members = members_.size();
  Score score;
  Calibration calibration;
  double differing = 0;  // pairs of members and images
  for (std::size_t image = 0; image < labels_.size(); ++image) {
    const auto label = this->label(image);
    if (!label) continue;
    const std::vector<float> averages = sums_.average(image, members);
    const std::size_t said = largest_of(averages);
    std::map<std::size_t, std::size_t> votes;
    for (std::size_t member = 0; member < members; ++member)
      ++votes[votes_[image * members + member]];
    std::size_t elected = votes.begin()->first;
    for (const auto& [each, count] : votes) {
      differing += static_cast<double>(count * (members - count)) / 2;
      const std::size_t most = votes[elected];
      if (count > most || (count == most && averages[each] > averages[elected])) elected = each;
    }
    // A probability may round to 0, whose logarithm is infinite.
    const float own = std::max(averages[*label], std::numeric_limits<float>::min());
    score.loss -= std::log(static_cast<double>(own));
    score.accuracy += said == *label;
    score.vote_accuracy += elected == *label;
    calibration.add(static_cast<double>(averages[said]), said == *label);
    ++score.images;
  }
  score.calibration_error = calibration.error();
  const auto images = static_cast<double>(std::max<std::size_t>(1, score.images));
  for (double* sum : {&score.loss, &score.accuracy, &score.vote_accuracy}) *sum /= images;
  if (members > 1)
    score.disagreement = differing / images / (static_cast<double>(members * (members - 1)) / 2);
  return score;
}

}  // namespace omni
