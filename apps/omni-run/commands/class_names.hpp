// What classes are called, and which ones a net says an image is of.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "layers/net.hpp"
#include "runtime/data/dataset.hpp"

namespace omni {

// Of every output: from `file`, one per line, or else of the data (null: none), or "class 7".
Result<std::vector<std::string>> class_names(const std::string& file, const Dataset* data,
                                             const Net& net);

// The classes of the largest outputs, best first, at most `most` of them; of equal ones the lower
// number, as an evaluation counts. An error about `where` when the outputs are no numbers.
Result<std::vector<std::size_t>> likeliest(std::span<const float> outputs, std::size_t most,
                                           const std::string& where);

}  // namespace omni
