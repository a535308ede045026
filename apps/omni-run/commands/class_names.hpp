// What classes are called, and which one a net says an image is of.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "layers/net.hpp"
#include "runtime/data/dataset.hpp"

namespace omni {

class ClassNames {
 public:
  // Of --names, one per line, or else of the data; `data` may be null.
  static Result<ClassNames> read(const std::string& file, const Dataset* data, const Net& net);

  std::string operator[](std::size_t index) const;  // "class 7" where there is none

 private:
  std::vector<std::string> names_;
};

// The classes of the largest outputs, best first, at most `most` of them; of equal ones the lower
// number, as an evaluation counts. An error about `where` when the outputs are no numbers.
Result<std::vector<std::size_t>> likeliest(std::span<const float> outputs, std::size_t most,
                                           const std::string& where);

}  // namespace omni
