#include "codelets/loss/label_metrics.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace omni {

int checked_label(std::int32_t label, int classes, int image) {
  if (label >= 0 && label < classes) return label;
  throw std::runtime_error(
      fmt::format("label {} of image {} of the slice is out of range: the net has {} outputs",
                  label, image, classes));
}

}  // namespace omni
