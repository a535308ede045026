#include "runtime/data/dataset.hpp"

#include <fmt/format.h>

namespace omni {

Status check_read(const Dataset& dataset, std::size_t index, std::size_t bytes) {
  if (index >= dataset.size())
    return Error{ErrorKind::data, dataset.description(),
                 fmt::format("no image {} among {}", index, dataset.size()), ""};
  if (bytes != dataset.extent().count())
    return Error{
        ErrorKind::failed, dataset.description(),
        fmt::format("an image has {} bytes, the buffer {}", dataset.extent().count(), bytes), ""};
  return {};
}

}  // namespace omni
