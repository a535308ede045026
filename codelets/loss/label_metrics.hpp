// What every loss codelet says about a slice besides its gradient: the loss and how many images are
// right. A place labelled kNoLabel holds no image: no loss, no gradient, not counted.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>

#include "runtime/tasks/slices.hpp"

namespace omni {

// Stored as f32[4]: loss sum, correct top-1, correct top-5, images.
struct LabelMetrics {
  double loss = 0;
  int top1 = 0, top5 = 0, images = 0;

  void count(int rank) {
    top1 += rank < 1;
    top5 += rank < 5;
    ++images;
  }
  template <class T>
  void store(T* metrics) const {
    metrics[0] = static_cast<T>(loss);
    metrics[1] = static_cast<T>(top1);
    metrics[2] = static_cast<T>(top5);
    metrics[3] = static_cast<T>(images);
  }
};

// How many classes come before the label. Ties go to the lower index, so that a constant output is
// not right about everything; a NaN comes last, so that a diverged net is right about nothing.
template <class T>
int label_rank(const T* values, int classes, int label) {
  const T own = values[label];
  int before = 0;
  for (int i = 0; i < label; ++i) before += !(values[i] < own);
  for (int i = label + 1; i < classes; ++i) before += !(values[i] <= own);
  return before;
}

inline int checked_label(std::int32_t label, int classes, int image) {
  if (label >= 0 && label < classes) return label;
  throw std::runtime_error(
      fmt::format("label {} of image {} of the slice is out of range: the net has {} outputs",
                  label, image, classes));
}

}  // namespace omni
