// This header has the trained nets that `valid` and `predict` evaluate: one with its weights, or
// the finished members of an ensemble. These are evaluated in turn, so that memory holds one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/omni-run/arguments.hpp"
#include "apps/omni-run/ensemble/ensemble_folder.hpp"
#include "layers/net.hpp"
#include "layers/net_description.hpp"
#include "runtime/data/feed/data_feed.hpp"
#include "runtime/result.hpp"

namespace omni {

struct TrainedNet {
  std::string member{};      // its name; "": there is no ensemble
  NetArguments arguments{};  // a member's are those of its training, but for --batch and the like
  std::string weights{};     // file or checkpoint
  DataArguments data{};      // of a member's training, but for the source
  // The command sets these, since it decides on the mini-batch.
  TrainableNet spec{};
  std::unique_ptr<Net> net{};
};

struct TrainedNets {
  std::string ensemble{};                  // folder; "": there is none
  std::vector<TrainedNet> nets{};          // at least one
  std::vector<EnsembleMember> left_out{};  // that have not finished

  bool alone() const { return ensemble.empty(); }
  // Refuses built nets whose outputs cannot be averaged.
  Status check_outputs() const;
};

// Takes the net of --net and --weights, or the members in the folder of --ensemble. Warns of
// members that are left out. It refuses a folder where none has finished.
Result<TrainedNets> find_trained_nets(const NetArguments& command, const std::string& weights,
                                      const std::string& ensemble);

// Returns the arguments with the seed of the training, unless they have one. It draws --hold-out.
// Other samples of an ensemble are those of the command's seed.
DataArguments drawn_as_trained(DataArguments arguments, const TrainedNet& trained);

// Returns whether both nets see the same images of a data set.
bool read_alike(const TrainedNet& one, const TrainedNet& other);

// Gives the net its memory and the weights, and returns the class names that are stored with them.
// `test` has the images; null: they are not known yet. `more` is the number of further bytes of
// main memory that the command needs. load_parameters() explains `held_out_of`.
Result<std::vector<std::string>> prepare(const TrainedNet& trained, const DataFeed* test,
                                         const MachineArguments& machine, std::size_t more,
                                         const std::string& held_out_of = "");

// Refuses names of classes that differ from another member's. Empty: not known.
Status check_same_names(const TrainedNet& of, const std::vector<std::string>& names,
                        const std::vector<std::string>& other);

// Returns the classes of the `most` largest outputs, largest first. Of equal outputs the lower
// class comes first, as in an evaluation. An output that is not finite is an error of `where`.
Result<std::vector<std::size_t>> likeliest(std::span<const float> outputs, std::size_t most,
                                           const std::string& where);

}  // namespace omni
