// This header reads and writes the names of a net's outputs. They come from the data, a checkpoint,
// or a file with one name per line: that of --names, or FILE.names beside the weights in FILE.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "layers/net.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/result.hpp"

namespace omni {

// Returns a name for each output, "class 7" if the data have none for it. Empty: the data name no
// class, or the names are too long for a checkpoint.
std::vector<std::string> class_names_of(const Dataset& data, const Net& net);

std::filesystem::path names_file(const std::filesystem::path& weights);
// Returns an error if the file of names exists without the weights: another file would be replaced.
Status check_names_beside(const std::filesystem::path& weights);
// Writes the names, and replaces those of earlier weights. Without names it deletes the file.
Status write_names_beside(const std::filesystem::path& weights,
                          const std::vector<std::string>& names);
// Reads the file of names. Empty: there is no such file, or it cannot be read, which is a warning.
std::vector<std::string> names_beside(const std::filesystem::path& weights);

// Reads the file of --names, which must have as many lines as the net has outputs.
Result<std::vector<std::string>> read_names(const std::string& file, const Net& net);

// Returns a name for each output. The first source that has names counts: `given` (the user's
// file), `data` (may be null), `stored` (saved with the weights). If the second one counts, warns
// if `data` and `stored` differ.
std::vector<std::string> settle_names(std::vector<std::string> given, const Dataset* data,
                                      std::vector<std::string> stored, const Net& net,
                                      const std::string& weights);

}  // namespace omni
