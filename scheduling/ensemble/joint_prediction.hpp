// A joint prediction combines the outputs of several nets for the same images. It has averages of
// their probabilities, votes, disagreement, and how far confidence is from accuracy. These classes
// do not touch files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace omni {

// Returns the class of the largest value. If several values are equal, it is the first, as in an
// evaluation.
std::size_t largest_of(std::span<const float> values);

// OutputSums are the sums of the outputs of several nets, image by image. Memory does not grow with
// the nets.
class OutputSums {
 public:
  OutputSums(std::size_t images, std::size_t classes)
      : classes_(classes), sums_(images * classes) {}
  static std::size_t bytes(std::size_t images, std::size_t classes) {
    return images * classes * sizeof(float);
  }

  void add(std::size_t image, std::span<const float> outputs);
  // Returns the average output for an image over `nets` nets.
  std::vector<float> average(std::size_t image, std::size_t nets) const;

 private:
  std::size_t classes_;
  std::vector<float> sums_;
};

// Calibration computes the expected calibration error: the mean distance between confidence and
// accuracy. Images are sorted by confidence into 15 bins of equal width. The weight of a bin is its
// number of images.
class Calibration {
 public:
  static constexpr std::size_t kBins = 15;
  void add(double confidence, bool right);  // from 0 to 1; bins include their upper end
  double error() const;                     // 0 without images

 private:
  struct Bin {
    double confidence = 0;  // sum
    std::uint64_t right = 0, images = 0;
  };
  std::array<Bin, kBins> bins_{};
};

// A JointPrediction takes the probabilities of all members, one member after the other, for the
// same labelled images.
class JointPrediction {
 public:
  JointPrediction(std::size_t images, std::size_t classes, std::size_t members);
  static std::size_t bytes(std::size_t images, std::size_t classes, std::size_t members);

  void add(std::size_t member, std::size_t image, std::size_t label,
           std::span<const float> probabilities);
  // An image that a member could not read does not count in score().
  void leave_out(std::size_t image) { labels_[image] = kLeftOut; }

  struct Score {
    std::size_t images = 0;
    double loss = 0;      // mean -log of the label's averaged probability
    double accuracy = 0;  // of the averaged probabilities
    double vote_accuracy = 0;
    double calibration_error = 0;        // of the averaged probabilities
    std::optional<double> disagreement;  // share of images on which two members differ, mean over
                                         // the pairs; none: there is one member
  };
  Score score() const;  // after the last member
  double calibration_error(std::size_t member) const { return members_[member].error(); }
  std::optional<std::size_t> label(std::size_t image) const;  // none: left out, or not yet known
  std::size_t said(std::size_t image) const;                  // by averaged probabilities

 private:
  static constexpr std::uint32_t kUnknown = UINT32_MAX, kLeftOut = UINT32_MAX - 1;
  OutputSums sums_;
  std::vector<std::uint32_t> labels_, votes_;  // by image; by image and member
  std::vector<Calibration> members_;
};

}  // namespace omni
