// These tests compare averages, votes, disagreement and calibration of three ensemble members with
// numbers worked out by hand.
#include "scheduling/ensemble/joint_prediction.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace omni {
namespace {

using Probabilities = std::vector<float>;

TEST(Calibration, weighs_the_distance_in_each_bin_by_its_images) {
  Calibration calibration;
  EXPECT_EQ(calibration.error(), 0);
  // Bin 15 gets the confidences 0.95, 0.97 and 1. Their mean is 2.92 / 3, and 2 of 3 predictions
  // are right.
  for (const auto& [confidence, right] : {std::pair{0.95, true}, {0.97, false}, {1.0, true}})
    calibration.add(confidence, right);
  EXPECT_NEAR(calibration.error(), 2.92 / 3 - 2.0 / 3, 1e-12);
  calibration.add(0.4, true);  // alone in bin 6, which ends with 6 / 15
  EXPECT_NEAR(calibration.error(), 3.0 / 4 * (0.92 / 3) + 1.0 / 4 * 0.6, 1e-12);
  calibration.add(0.41, false);  // in bin 7: in one bin the two would make up for each other
  EXPECT_NEAR(calibration.error(), (0.92 + 0.6 + 0.41) / 5, 1e-12);
}

TEST(Calibration, takes_confidences_at_both_ends) {
  Calibration calibration;
  calibration.add(0, false);
  calibration.add(1, true);
  EXPECT_EQ(calibration.error(), 0);
}

TEST(OutputSums, average_image_by_image) {
  OutputSums sums(2, 2);
  sums.add(0, Probabilities{0.25f, 0.75f});
  sums.add(1, Probabilities{1, 0});
  sums.add(0, Probabilities{0.75f, 0.25f});
  sums.add(1, Probabilities{0.5f, 0.5f});
  EXPECT_EQ(sums.average(0, 2), (Probabilities{0.5f, 0.5f}));
  EXPECT_EQ(sums.average(1, 2), (Probabilities{0.75f, 0.25f}));
}

// Each member has four images. All vote for class 0 of image 0. Two vote for class 1 of image 1,
// but the average is largest for class 2. Image 2 has one vote for each class. Image 3 is not
// added.
const std::vector<std::vector<Probabilities>> kMembers{
    {{0.8f, 0.1f, 0.1f}, {0.1f, 0.5f, 0.4f}, {0.7f, 0.2f, 0.1f}, {1, 0, 0}},
    {{0.6f, 0.3f, 0.1f}, {0.1f, 0.5f, 0.4f}, {0.3f, 0.4f, 0.3f}, {1, 0, 0}},
    {{0.7f, 0.2f, 0.1f}, {0.1f, 0.0f, 0.9f}, {0.2f, 0.3f, 0.5f}, {1, 0, 0}}};
constexpr std::size_t kTrueClasses[]{0, 1, 0, 0};

JointPrediction joint_of(std::size_t members) {
  JointPrediction joint(4, 3, members);
  for (std::size_t member = 0; member < members; ++member)
    for (std::size_t image = 0; image < 4; ++image)
      if (member == 0 && image == 3)
        joint.leave_out(image);
      else
        joint.add(member, image, kTrueClasses[image], kMembers[member][image]);
  return joint;
}

TEST(JointPrediction, of_three_members) {
  const JointPrediction joint = joint_of(3);
  const JointPrediction::Score score = joint.score();
  EXPECT_EQ(score.images, 3u);
  // The members' average probabilities are {.7 .2 .1}, {.1 .3333 .5667} and {.4 .3 .3}.
  EXPECT_NEAR(score.loss, -(std::log(0.7) + std::log(1.0 / 3) + std::log(0.4)) / 3, 1e-6);
  EXPECT_NEAR(score.accuracy, 2.0 / 3, 1e-12);
  EXPECT_NEAR(score.vote_accuracy, 1, 1e-12);
  // Of the three pairs of members, 0 differ on image 0, 2 on image 1 and 3 on image 2.
  EXPECT_NEAR(score.disagreement.value(), (0 + 2.0 / 3 + 1) / 3, 1e-12);
  EXPECT_NEAR(score.calibration_error, (0.3 + 1.7 / 3 + 0.6) / 3, 1e-6);
  // The first member is right with confidences .8, .5 and .7. The last member is right with .7, and
  // wrong with .9 and .5.
  EXPECT_NEAR(joint.calibration_error(0), (0.2 + 0.5 + 0.3) / 3, 1e-6);
  EXPECT_NEAR(joint.calibration_error(2), (0.3 + 0.9 + 0.5) / 3, 1e-6);
  EXPECT_EQ(joint.said(1), 2u);
  EXPECT_EQ(joint.label(1), 1u);
  EXPECT_EQ(joint.label(3), std::nullopt);
}

TEST(JointPrediction, of_one_member_is_that_members) {
  const JointPrediction joint = joint_of(1);
  const JointPrediction::Score score = joint.score();
  EXPECT_NEAR(score.accuracy, 1, 1e-12);
  EXPECT_EQ(score.vote_accuracy, score.accuracy);
  EXPECT_EQ(score.disagreement, std::nullopt);
  EXPECT_EQ(score.calibration_error, joint.calibration_error(0));
}

// Classes 0 and 2 have two votes each. The probabilities of class 2 have the larger sum.
TEST(JointPrediction, a_tie_of_votes_goes_to_the_larger_average) {
  JointPrediction joint(1, 3, 4);
  joint.add(0, 0, 2, Probabilities{0.6f, 0.1f, 0.3f});
  joint.add(1, 0, 2, Probabilities{0.6f, 0.1f, 0.3f});
  joint.add(2, 0, 2, Probabilities{0.1f, 0.1f, 0.8f});
  joint.add(3, 0, 2, Probabilities{0.1f, 0.0f, 0.9f});
  EXPECT_EQ(joint.score().vote_accuracy, 1);
  EXPECT_NEAR(joint.score().disagreement.value(), 4.0 / 6, 1e-12);
}

TEST(JointPrediction, a_probability_of_0_has_a_finite_loss) {
  JointPrediction joint(1, 2, 1);
  joint.add(0, 0, 1, Probabilities{1, 0});
  EXPECT_NEAR(joint.score().loss, 87.34, 0.01);
}

TEST(JointPrediction, equal_probabilities_are_of_the_first_class) {
  EXPECT_EQ(largest_of(Probabilities{0.2f, 0.4f, 0.4f}), 1u);
}

}  // namespace
}  // namespace omni
