// Caffe's descriptions of nets and solvers, in protobuf's text format.
#pragma once

#include <filesystem>
#include <string_view>

#include "layers/net_description.hpp"
#include "runtime/result.hpp"

namespace omni {

// A file, and what it is called in messages.
struct CaffeFile {
  std::string_view text, name;
};

// `solver`: "" for none; then the training has the usual options.
Result<TrainableNet> read_caffe_net(const std::filesystem::path& net,
                                    const std::filesystem::path& solver,
                                    const ReadOptions& how = {});
Result<TrainableNet> parse_caffe_net(CaffeFile net, CaffeFile solver = {},
                                     const ReadOptions& how = {});

// The file that the solver names as its net. Like Caffe's, its path is relative to the working
// directory; where nothing is there, to the solver's folder.
Result<std::filesystem::path> net_of_caffe_solver(const std::filesystem::path& solver);

}  // namespace omni
