// This header reads and writes files of parameters: Darknet's .weights and Caffe's .caffemodel. It
// also reads Caffe's .h5.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "layers/formats/caffe/caffe.hpp"
#include "layers/net.hpp"
#include "runtime/result.hpp"

namespace omni {

// Splits a list: "a.caffemodel,b.caffemodel" are two files. But an existing file whose name has a
// comma is one file.
std::vector<std::filesystem::path> parameter_files(std::string_view list);
// Loads parameters from one file after another. Several files are only possible in a format that
// names the layers.
Status load_parameter_files(Net& net, const std::vector<std::filesystem::path>& files,
                            AbsentLayers absent = AbsentLayers::kept);
// Saves the parameters. The file's ending gives the format: .caffemodel, otherwise .weights.
// `images_seen` counts the images that the net was trained with.
Status save_parameter_file(Net& net, const std::filesystem::path& path, std::uint64_t images_seen);
// Refuses a net and a path if the path's format is not written, or cannot hold the net's names,
// size or averages.
Status check_parameter_file(const Net& net, const std::filesystem::path& path);
// Refuses a file format that would lose parameters which tests of the net need, or without which
// training would continue differently.
Status check_nothing_lost(const Net& net, const std::filesystem::path& path);
// Returns the name of the format that the path's ending means, for example "Darknet weights".
std::string_view parameter_format(const std::filesystem::path& path);
// Returns whether an existing file looks like parameters in the format that its ending means. Such
// a file may be replaced.
bool is_parameter_file(const std::filesystem::path& path);

}  // namespace omni
