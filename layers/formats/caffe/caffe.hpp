// This header reads and writes the files of Caffe: descriptions of nets and solvers, in protobuf's
// text format, and parameters.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/net.hpp"
#include "layers/net_description.hpp"
#include "runtime/result.hpp"

namespace omni {

// A CaffeFile is the text of a file, with its name for messages.
struct CaffeFile {
  std::string_view text, name;
};

// Describes a net that Caffe's files define. An empty `solver` means that there is no such file;
// then the training has the default options.
Result<TrainableNet> read_caffe_net(const std::filesystem::path& net,
                                    const std::filesystem::path& solver,
                                    const ReadOptions& how = {});
Result<TrainableNet> parse_caffe_net(CaffeFile net, CaffeFile solver = {},
                                     const ReadOptions& how = {});

// Writes a description as the text of a prototxt. Refuses a layer that Caffe lacks. `net` is built
// from the description.
Result<std::string> write_caffe_net(const TrainableNet& of, const Net& net);

// Returns the file that the solver names as its net. As in Caffe, the path is relative to the
// working directory. If there is no such file, it is relative to the solver's folder.
Result<std::filesystem::path> net_of_caffe_solver(const std::filesystem::path& solver);

// The rows say for every type of layer which fields are read, and why other fields are not.
struct CaffeFieldRow {
  std::string name, fallback;
  std::string refused{}, in_vain{};  // why other values are refused, or have no effect
};
struct CaffeTypeRow {
  std::string name, old_name, param;  // old: of `layers`; "": it has none
  std::string missing{};              // why it is not read; "": it is
  std::vector<CaffeFieldRow> fields{};
};
std::vector<CaffeTypeRow> caffe_type_matrix();

// load_caffe_weights() finds parameters by the names of layers, in one file after another. A shape
// that does not fit is refused. Layers that are in no file keep their values, with a warning, or
// are refused. With refused_with_values, parameters for which the format has no place are refused
// as well.
enum class AbsentLayers { kept, refused, refused_with_values };
Status load_caffe_weights(Net& net, std::span<const std::filesystem::path> files,
                          AbsentLayers absent = AbsentLayers::kept);
Status save_caffe_weights(const Net& net, const std::filesystem::path& path);
// A snapshot has the state of a solver, in place of a training's checkpoint. The net must use the
// update of one of Caffe's solvers. `parameters` is the .caffemodel that belongs to the state.
// `step` counts the stepvalues that have passed.
struct CaffeSnapshot {
  std::uint64_t iteration = 0;
  std::filesystem::path parameters{};
};
Result<CaffeSnapshot> load_caffe_snapshot(Net& net, const std::filesystem::path& path);
Status save_caffe_snapshot(const Net& net, const std::filesystem::path& path,
                           const CaffeSnapshot& snapshot, int step);
// Returns whether the whole file is a message of a snapshot, with a number of iterations.
bool is_caffe_snapshot(const std::filesystem::path& path);
// Returns the path of the snapshot that is saved with the parameters; "" if none is saved.
std::string snapshot_beside(const std::filesystem::path& parameters, const Net& net);
// Returns whether the whole file is a message of a net with layers.
bool is_caffe_weights(const std::filesystem::path& path);
// Refuses a net whose parameters cannot be saved by name.
Status check_caffe_names(const Net& net);
// Refuses a net whose .caffemodel, or the .solverstate beside it, would be larger than Caffe reads.
Status check_caffe_size(const Net& net, const std::filesystem::path& path);

}  // namespace omni
