// Files of parameters, by their format: Darknet's .weights and Caffe's .caffemodel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "layers/formats/caffe/caffe.hpp"
#include "layers/net.hpp"
#include "runtime/result.hpp"

namespace omni {

// "a.caffemodel,b.caffemodel" are two files; a name with a comma that exists is one.
std::vector<std::filesystem::path> parameter_files(std::string_view list);
// Only files that name their layers can follow each other.
Status load_parameter_files(Net& net, const std::vector<std::filesystem::path>& files,
                            AbsentLayers absent = AbsentLayers::kept);
// The ending says the format: .caffemodel, otherwise .weights. `images_seen` counts the images that
// the net was trained with.
Status save_parameter_file(Net& net, const std::filesystem::path& path, std::uint64_t images_seen);
// Refuses what could not be saved so.
Status check_parameter_file(const Net& net, const std::filesystem::path& path);
// Refuses a file that would not hold all parameters that tests of the net read, or with which
// training goes on otherwise.
Status check_nothing_lost(const Net& net, const std::filesystem::path& path);
// The parameters of the same net as another format describes it, in the order of layers. Where one
// of them takes colours blue first, the first weights are turned. Refuses nets that differ.
Status copy_parameters(Net& from, const TrainableNet& of_from, Net& to, const TrainableNet& of_to,
                       const std::string& name_of_to);
// Returns what the ending means, for messages: "Darknet weights".
std::string_view parameter_format(const std::filesystem::path& path);
// Returns whether an existing file holds parameters of that format, so that it may be replaced.
bool is_parameter_file(const std::filesystem::path& path);

}  // namespace omni
