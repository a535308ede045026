// This header reads Caffe's descriptions of nets and solvers, in protobuf's text format.
#pragma once

#include <filesystem>
#include <string_view>

#include "layers/net_description.hpp"
#include "runtime/result.hpp"

namespace omni {

// A CaffeFile is the text of a file, with its name for messages.
struct CaffeFile {
  std::string_view text, name;
};

// An empty `solver` means that there is none; then the training has the usual options.
Result<TrainableNet> read_caffe_net(const std::filesystem::path& net,
                                    const std::filesystem::path& solver,
                                    const ReadOptions& how = {});
Result<TrainableNet> parse_caffe_net(CaffeFile net, CaffeFile solver = {},
                                     const ReadOptions& how = {});

// Returns the file that the solver names as its net. As in Caffe, its path is relative to the
// working directory. If nothing is there, it is relative to the solver's folder.
Result<std::filesystem::path> net_of_caffe_solver(const std::filesystem::path& solver);

}  // namespace omni
