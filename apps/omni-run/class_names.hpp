// What a net's outputs are called: by the data, by the checkpoint, or by the file that lies beside
// the .weights file and has its name with ".names" at the end, one name per line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "layers/net.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/result.hpp"

namespace omni {

// A name for each output, on one line each: "class 7" where the data have none. None at all: they
// name no class, or so many that no checkpoint holds them.
std::vector<std::string> class_names_of(const Dataset& data, const Net& net);

std::filesystem::path names_file(const std::filesystem::path& weights);
// Refuses a file of that name beside which there are no such weights: it is somebody else's.
Status check_names_beside(const std::filesystem::path& weights);
// Those of other weights that were there are gone afterwards, also where there are no names.
Status write_names_beside(const std::filesystem::path& weights,
                          const std::vector<std::string>& names);
// None: there is no such file, or none that can be read, which is said.
std::vector<std::string> names_beside(const std::filesystem::path& weights);

// The lines of --names: as many as the net has outputs.
Result<std::vector<std::string>> read_names(const std::string& file, const Net& net);

// A name for each output. `given`: by the user's file; `data`: null, or what the user named;
// `stored`: with the weights. Warns where data and weights name classes differently.
std::vector<std::string> settle_names(std::vector<std::string> given, const Dataset* data,
                                      std::vector<std::string> stored, const Net& net,
                                      const std::string& weights);

}  // namespace omni
