// This header has the arguments of the commands besides training, and the options that set them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/omni-run/training_arguments.hpp"
#include "runtime/communicator/ranks.hpp"
#include "scheduling/forecast/update_ratios.hpp"

namespace omni {

// Adds the options that name what was trained: weights, or the members of an ensemble.
void describe_trained(auto& add, auto& command) {
  const char* const options = "the members' options are used";
  OptionRules rules{.check = not_empty,
                    .excludes = {{"--weights"},
                                 {"--net", "the members' nets are used", "leave --net out"},
                                 {"--classes", options, "leave --classes out"},
                                 {"--net-stage", options, "leave --net-stage out"},
                                 {"--net-level", options, "leave --net-level out"},
                                 {"--set", options, "leave --set out"}}};
  if constexpr (requires { command.trace; })
    rules.excludes.push_back(
        {"--trace", "a trace is of one net", "trace a member by its --net and --weights"});
  add("--weights FILE", &command.weights, {.required = true, .unless = "--ensemble"},
      ".weights or .caffemodel file, or checkpoint");
  add("--ensemble FOLDER", &command.ensemble, std::move(rules),
      "Run folder of an ensemble: its members' probabilities are averaged");
}

struct ValidArguments : NetRunArguments {
  std::string trace;  // folder
  DataArguments data;
  std::string weights, ensemble, names, per_class_csv;
  bool per_class = false;
};

void describe(auto& add, ValidArguments& valid) {
  describe_shared(add, valid);
  describe_damaged_images(add, valid.data);
  add.group("Evaluation");
  describe_trained(add, valid);
  add("--names FILE", &valid.names, {.check = not_empty},
      "Names of the classes, one per line; default: the data's, else those stored with the "
      "weights");
  add("--per-class", &valid.per_class,
      "Accuracy of every class, and the class that it is most often taken for");
  add("--per-class-csv FILE", &valid.per_class_csv, {.check = not_empty},
      "Write the confusion matrix as CSV: a row per true class, a column per class that the net "
      "names");
}

struct PredictArguments : NetRunArguments {
  DataArguments data;
  std::string weights, ensemble, names;
  std::vector<std::string> images;
  std::vector<std::uint64_t> samples;
  int top = 5;
};

void describe(auto& add, PredictArguments& predict) {
  describe_shared(add, predict);
  add.group("Prediction");
  describe_trained(add, predict);
  add("--index NUMBER", &predict.samples,
      {.check = whole_number(),
       .needs = {{"--data", "no data given",
                  "--data names those of the training; --data synthetic computes patterns"}}},
      "An image of the test set, by number");
  add("--top CLASSES", &predict.top, {.check = range(1, 1 << 30), .shows_default = true},
      "Classes to print");
  add("--names FILE", &predict.names, {.check = not_empty},
      "Names of the classes, one per line; default: the data's, else those stored with the "
      "weights");
  add("images,--image FILE", &predict.images,
      "JPEG, PNG, or binary PPM or PGM files; a folder stands for all in it");
}

struct TimeArguments : NetRunArguments {
  std::string trace;  // folder
  int iterations = 10, warm_up = 10;
};

void describe(auto& add, TimeArguments& time) {
  describe_shared(add, time);
  add.group("Measurement");
  add("--iterations ITERATIONS", &time.iterations,
      {.check = range(1, 1 << 30), .shows_default = true},
      "Iterations to measure; with GPUs, as many again measure the layers, but at most 20 without "
      "--trace");
  add("--warm-up ITERATIONS", &time.warm_up, {.check = range(1, 1 << 30), .shows_default = true},
      "Iterations before the measured ones");
}

struct PlanArguments : NetRunArguments {
  FullyConnected fully_connected = FullyConnected::merged;
  Asynchrony asynchrony = Asynchrony::free;
  Compensation compensation = Compensation::theory;
  int iterations = 30, warm_up = 15, most_groups = 16;
  int measured_rounds = 0;
  std::vector<std::string> nodes{};  // numbers of nodes to forecast; see parse_node_count()
  std::string node_speeds{};         // as "1:1:0.5"; "": all are as fast as this one
  int node_cores = 0;                // cores of a node; 0: as many as train here
  std::string link{};                // link between nodes; "": the measured one
  std::vector<ranks::Link> links{};
  DataArguments data{};
  std::uint64_t update_iterations = 0;  // of one group, to compare with; 0: no measurement
  std::vector<UpdateRatio> counts{};    // measured numbers of updates
  Coding send{};                        // of the messages between nodes
  std::string gpu{};                    // machine file of an absent GPU to forecast for; "": none
};

void describe(auto& add, PlanArguments& plan) {
  describe_shared(add, plan);
  describe_damaged_images(add, plan.data);
  describe_fully_connected(add, plan.fully_connected);
  add.group("Measurement");
  add("--iterations ITERATIONS", &plan.iterations,
      {.check = range(4, 100000), .shows_default = true}, "Iterations to measure");
  add("--warm-up ITERATIONS", &plan.warm_up, {.check = range(1, 1 << 30), .shows_default = true},
      "Iterations before the measured ones");
  add("--most-groups COUNT", &plan.most_groups,
      {.check = range(1, kMostGroups), .shows_default = true}, "Largest number of groups");
  add("--measure ROUNDS", &plan.measured_rounds, {.check = range(1, 1000), .without_value = "3"},
      "Also run every number of groups, so many times; without a value: 3");
  add("--nodes COUNTS", &plan.nodes, {.separated = true},
      "Also forecast for so many nodes like this one, as in 1,2,4; 8+1 has one more for merged "
      "layers");
  add("--link RATE:LATENCY", &plan.link, {.needs = {{"--nodes"}}},
      "Rate and latency of a node's link, as in 1gbit:50us; default: as measured, where several "
      "ranks run");
  add("--node-cores CORES", &plan.node_cores, {.check = range(1, 1024), .needs = {{"--nodes"}}},
      "Cores of each node that train, where they are not as many as here");
  add("--node-speeds SPEEDS", &plan.node_speeds, {.check = not_empty, .needs = {{"--nodes"}}},
      "Speeds of the nodes, where they are unlike: 1:1:0.5 for two like this one, and further ones "
      "half as fast");
  describe_send(add, plan.send, {.needs = {{"--nodes"}}});
  add("--measure-updates ITERATIONS", &plan.update_iterations,
      {.check = range(64, 1'000'000),
       .needs = {{"--data", "needs data to train on", "--data fashion-mnist, say"}},
       .without_value = "400"},
      "Also train with 1, 2, 4 ... groups to the loss that one group has after so many iterations, "
      "and store how many updates each needs; without a value: 400");
  add("--gpu MACHINE", &plan.gpu, {.check = not_empty},
      "Instead forecast a training on the GPU of this machine file (h100, h200): time, and memory");
}

struct DataCheckArguments {
  CommonArguments common;
  DataArguments data;
  std::string net;  // the net that will train on the data; "": not known yet
  int classes = 0;  // see NetArguments
};

void describe(auto& add, DataCheckArguments& check) {
  describe_shared(add, check);
  add("SOURCE", &check.data.source, "As of --data");
  add("--net FILE", &check.net, {.check = not_empty},
      "Net that is to be trained: its input and outputs are compared with the data");
  add("--classes COUNT", &check.classes, {.check = class_count, .needs = {{"--net"}}},
      "As of a training");
}

struct DatasetArguments {
  CommonArguments common;
  std::string from, to, mean, size;
  std::uint64_t seed = 1;
  bool grey = false, encoded = false, shuffle = false;
};

std::string image_size(std::string& value);

void describe(auto& add, DatasetArguments& made) {
  describe_shared(add, made);
  add.group("Data set");
  add("FROM", &made.from, {.check = not_empty, .required = true},
      "Images as of --data: a folder with a folder per class, a list, or an LMDB, which is shown");
  add("TO", &made.to, {.check = not_empty}, "LMDB to make; without it and --mean, FROM is shown");
  add("--resize WIDTHxHEIGHT", &made.size, {.check = image_size},
      "Resize images to this size; their aspect ratio is not kept");
  add("--gray", &made.grey, "Make images grey");
  add("--encoded", &made.encoded,
      {.excludes = {{"--resize", "--encoded stores files as they are", "leave one of them out"},
                    {"--gray", "--encoded stores files as they are", "leave one of them out"}}},
      "Store image files as they are, in place of their pixels");
  add("--shuffle", &made.shuffle, "Store images in an order that --seed draws");
  add("--seed NUMBER", &made.seed,
      {.check = whole_number(), .needs = {{"--shuffle"}}, .shows_default = true},
      "Seed of --shuffle");
  add("--mean FILE", &made.mean, {.check = not_empty},
      "Write the mean of the images as a .binaryproto");
}

struct DevicesArguments {
  CommonArguments common;
  MachineArguments machine;
  bool peaks = false;
  std::vector<ranks::Link> links{};  // links between several ranks
};

void describe(auto& add, DevicesArguments& devices) {
  describe_shared(add, devices);
  add("--peaks", &devices.peaks,
      "Measure a matrix product on CPUs and GPUs, and a copy on CPUs; all CPU workers at once");
}

struct CompareArguments {
  CommonArguments common;
  std::string net, data, strategies;
  double target = 0;
  int seeds = 3;
  std::string classes, epochs, out, arrivals, machine;  // "": not given
  std::vector<std::string> options;                     // options of every training
};

void describe(auto& add, CompareArguments& compare) {
  const char* const as = "As of a training";
  describe_shared(add, compare);
  add.group("Comparison");
  add("--net FILE", &compare.net, {.check = not_empty, .required = true}, as);
  add("--data SOURCE", &compare.data, {.check = not_empty, .required = true}, as);
  add("--classes COUNT", &compare.classes, {.check = class_count}, as);
  add("--strategies LIST", &compare.strategies, {.required = true},
      "Strategies, with :GROUPS and @IMAGES of a mini-batch: sync,async:4,sync@512");
  add("--target SHARE", &compare.target, {.required = true},
      "Accuracy on the test set to reach, as in 0.9");
  add("--seeds COUNT", &compare.seeds, {.check = range(1, 1000), .shows_default = true},
      "Trainings of each strategy, with the seeds 1, 2, ...");
  add("--epochs EPOCHS", &compare.epochs, {.check = number(1e-6, 1e6)}, as);
  add("--out FOLDER", &compare.out,
      "Folder of the comparison; default: omni-compare/<net>. An interrupted comparison there is "
      "continued");
  add("--arrivals real|virtual", &compare.arrivals, {.check = not_empty}, as);
  add("--machine FILE", &compare.machine, {.check = not_empty}, as);
  add("options", &compare.options, "Behind --: further options of every training");
}

struct ExplainArguments {
  CommonArguments common;
  std::string metrics;  // metrics file, or folder of a trace
};

void describe(auto& add, ExplainArguments& explain) {
  describe_shared(add, explain);
  add("METRICS", &explain.metrics, {.required = true}, "File of --metrics, or folder of --trace");
}

struct LayersArguments {
  CommonArguments common;
  bool caffe = false;
};

void describe(auto& add, LayersArguments& layers) {
  describe_shared(add, layers);
  add("--caffe", &layers.caffe, "The types of layers of a .prototxt instead, and their fields");
}

struct ShippedNetArguments {
  CommonArguments common;
  std::string name;  // "": all nets
};

void describe(auto& add, ShippedNetArguments& shipped) {
  describe_shared(add, shipped);
  add("NAME", &shipped.name, {.check = not_empty},
      "A shipped net, as in omni-run net lenet > own.cfg");
}

struct ConvertArguments : NetRunArguments {
  std::string from, to, as;
  bool for_tests = false;
};

void describe(auto& add, ConvertArguments& convert) {
  describe_shared(add, convert);
  add.group("Conversion");
  add("FROM", &convert.from, {.check = not_empty, .required = true},
      "Parameters of the net, as of --weights; or a net, .cfg or .prototxt");
  add("TO", &convert.to, {.check = not_empty, .required = true},
      "File to write: .weights, .caffemodel or .safetensors; of a net .cfg or .prototxt");
  add("--as FILE", &convert.as, {.check = not_empty},
      "The same net in the other form, .cfg or .prototxt, for which the parameters are written");
  add("--for-tests", &convert.for_tests,
      "What only training uses may be lost, such as initial values and names of layers");
}

struct MachineFileArguments : NetRunArguments {
  std::string out;
};

void describe(auto& add, MachineFileArguments& machine) {
  describe_shared(add, machine);
  add.group("Measurement");
  add("--out FILE", &machine.out, {.check = not_empty}, "File to write; default: stdout");
}

struct SlurmArguments {
  std::string form{};                            // template; "": chosen by the number of nodes
  std::map<std::string, std::string> options{};  // options of sbatch, by name; "": not given
  // Those of further components of a heterogeneous job, as in --nodes 1 : --nodes 4.
  std::vector<std::map<std::string, std::string>> components{};
  std::vector<std::string> sweep{};  // see sweep_spec.hpp; empty: there is no sweep
  std::vector<std::string> words{};  // the training's command line
  GivenOptions given{};              // options in `words`
};

void describe(auto& add, SlurmArguments& job) {
  add.group("Slurm job");
  add("--template NAME", &job.form, {.check = not_empty},
      "Shipped job script, or a file, to fill in; default: nodes with --nodes, else requeue (one "
      "node)");
  const auto sbatch = [&](std::string name, const char* help = "As for sbatch") {
    add(name, &job.options[name.substr(0, name.find(' '))], {.check = not_blank}, help);
  };
  sbatch("--nodes COUNT");
  sbatch("--time TIME");
  sbatch("--gpus COUNT",
         "GPUs of the job, as for sbatch: 4, or h100:4. The nodes get equally many. Numbers of "
         "GPUs, as in 0,1, come behind --");
  sbatch("--gpus-per-node COUNT", "GPUs of each node: 2, or h100:2");
  sbatch("--gres LIST");
  sbatch("--array INDEXES", "As for sbatch: one training for each number");
  add("--sweep KEY=VALUES", &job.sweep, {.check = not_empty},
      "An array with a task for each combination of values: learning_rate=log:1e-4..1e-1:8 "
      "momentum=0.5,0.9; random:20 draws 20 of them");
  sbatch("--partition NAME");
  sbatch("--account NAME");
  sbatch("--qos NAME");
  sbatch("--constraint LIST");
  sbatch("--mem SIZE");
  sbatch("--cpus-per-task COUNT");
  sbatch("--job-name NAME");
}

}  // namespace omni
