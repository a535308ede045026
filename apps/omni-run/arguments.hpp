// What the command line says, by the part of the program that needs it, and how CLI11 fills it in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/net.hpp"
#include "layers/net_description.hpp"
#include "runtime/communicator/ranks.hpp"
#include "runtime/tasks/session.hpp"
#include "scheduling/forecast/update_ratios.hpp"
#include "scheduling/groups/momentum.hpp"
#include "scheduling/strategies/registry.hpp"
#include "scheduling/training/trainer.hpp"

namespace CLI {  // its header takes seconds to compile, and few need it
class App;
class Validator;
}  // namespace CLI

namespace omni {

struct CommonArguments {
  bool quiet = false, json = false;
};

struct NetArguments : ReadOptions {
  std::string net;
  int slice = 0;
  int gpus = 0, cores = 0;          // of the machine: they decide how mini-batches are cut
  bool fixed_sums = false;          // see BuildOptions
  DataType values = DataType::f32;  // what layers hand on
  Status refused{};                 // the first option of [net] that is wrong

  bool sets(std::string_view key, const auto& by_name) const {
    return by_name || std::ranges::any_of(settings, [&](std::string_view each) {
             return each.starts_with(key) && each.substr(key.size()).starts_with('=');
           });
  }
};

struct MachineArguments {
  SessionOptions session;
  std::string gpus = "all";
  // Of the smallest of the GPUs chosen: what is left there, and how much of it StarPU may take for
  // tensors. What a worker's libraries may ask for.
  std::size_t gpu_memory = 0, gpu_tensors = 0, most_workspace = 0;
  std::map<int, std::string> gpus_left_out{};  // why, by number
  std::string models;
};

struct DataArguments {
  std::string source;
  std::uint64_t seed = 1;
  bool test = true;  // there are to be test images
  bool scale_features = false;
  double hold_out = 0;    // share of the training samples to test on; 0: the data's own test set
  double damaged = 0.01;  // share of the images of a set that may be
};

struct GroupArguments {
  bool automatic = false;
  bool planned = false;        // the number that is predicted to be the best
  std::optional<int> count{};  // 1; automatic: at most as many as there are workers
  std::string layout{};
  std::uint64_t cold_start = 0;  // iterations with one group before there are several
  std::optional<bool> guard{};   // true, the default: see GuardedTraining
  FullyConnected fully_connected = FullyConnected::merged;
  std::string strategy{};  // "": async where there are several groups, else sync
  std::string batches{};   // samples of each group's mini-batches
  StrategyOptions how{};
};

// Whose order groups follow.
struct ArrivalArguments {
  bool simulated = false;
  std::string machine{};  // file
};

// Of every command that runs a net here.
struct NetRunArguments {
  CommonArguments common;
  NetArguments net;
  MachineArguments machine;
};

struct TrainArguments : NetRunArguments {
  GroupArguments groups;
  ArrivalArguments arrivals;
  std::string trace;  // folder
  DataArguments data;
  std::optional<double> epochs;
  std::uint64_t display = 20;
  std::optional<std::uint64_t> test_every{};  // iterations; 0: at the end only; none: an epoch
  bool dry_run = false, no_test = false;
  std::string weights, save_weights, metrics;
  std::string out;
  std::uint64_t checkpoint_every = 0;
  int keep = 2;
  std::string resume = "none";
  bool other_data = false, stage = false;
  double patience = 300;  // seconds, with a rank that is silent
};

struct ValidArguments : NetRunArguments {
  std::string trace;  // folder
  DataArguments data;
  std::string weights, names, per_class_csv;
  bool per_class = false;
};

struct PredictArguments : NetRunArguments {
  DataArguments data;
  std::string weights, names;
  std::vector<std::string> images;
  std::vector<std::uint64_t> samples;
  int top = 5;
};

struct TimeArguments : NetRunArguments {
  std::string trace;  // folder
  int iterations = 10, warm_up = 10;
};

struct PlanArguments : NetRunArguments {
  FullyConnected fully_connected = FullyConnected::merged;
  Asynchrony asynchrony = Asynchrony::free;
  Compensation compensation = Compensation::theory;
  int iterations = 30, warm_up = 15, most_groups = 16;
  int measured_rounds = 0;
  std::vector<std::string> nodes{};  // to forecast for; see parse_node_count
  int node_cores = 0;                // of each; 0: as many as train here
  std::string link{};                // between them; "": as measured
  std::vector<ranks::Link> links{};
  DataArguments data{};
  std::uint64_t update_iterations = 0;  // to measure updates by, with one group; 0: not
  std::vector<UpdateRatio> counts{};    // of updates, as measured
  std::string gpu{};                    // machine file of one that is not there; "": of no use
};

struct DataCheckArguments {
  CommonArguments common;
  DataArguments data;
  std::string net;  // that is to be trained; "": not known yet
  int classes = 0;  // as of NetArguments
};

struct DevicesArguments {
  CommonArguments common;
  MachineArguments machine;
  bool peaks = false;
  std::vector<ranks::Link> links{};  // of several ranks
};

struct CompareArguments {
  CommonArguments common;
  std::string net, data, strategies;
  double target = 0;
  int seeds = 3;
  std::string classes, epochs, out, arrivals, machine;  // "": not given
  std::vector<std::string> options;                     // of every training
};

struct ExplainArguments {
  CommonArguments common;
  std::string metrics;  // file, or folder of a trace
};

struct ShippedNetArguments {
  CommonArguments common;
  std::string name;  // "": all of them
};

struct SlurmArguments {
  std::string form{};                            // the template; "": by the number of nodes
  std::map<std::string, std::string> options{};  // of sbatch, by name; "": not given
  std::vector<std::string> words{};              // of the training
  std::vector<std::string> given{}, once{};      // its options; those that may not be repeated
};

struct MachineFileArguments : NetRunArguments {
  std::string out;
};

// From 1 to `most`, and nothing else in the text.
std::optional<int> count_in(std::string_view text, int most);

// For every unsigned option: CLI11 itself makes 18446744073709551615 of -1, and 8 of 010.
CLI::Validator not_empty();
CLI::Validator whole_number();
CLI::Validator class_count();

void add_common(CLI::App& app, CommonArguments& arguments);
void add_net(CLI::App& app, NetArguments& arguments);
void add_machine(CLI::App& app, MachineArguments& arguments);
void add_groups(CLI::App& app, GroupArguments& arguments);
void add_strategies(CLI::App& app, GroupArguments& arguments, ArrivalArguments& arrivals);
void add_fully_connected(CLI::App& app, FullyConnected& fully_connected);
void add_data(CLI::App& app, DataArguments& arguments);
void add_damaged_images(CLI::App& app, double& share);
void add_trace(CLI::App& app, std::string& folder);

}  // namespace omni
