#include "runtime/data/dataset.hpp"

#include <fmt/format.h>

namespace omni {

Status check_index(const Dataset& dataset, std::size_t index) {
  if (index >= dataset.size())
    return Error{ErrorKind::data, dataset.description(),
                 fmt::format("no image {} among {}", index, dataset.size()), ""};
  return {};
}

}  // namespace omni
