// This header has the arguments of the command line for nets, machines and data, and the options
// that set them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/omni-run/option_table.hpp"
#include "layers/net.hpp"
#include "layers/net_description.hpp"
#include "runtime/data/formats.hpp"
#include "runtime/tasks/session.hpp"

namespace omni {

struct CommonArguments {
  bool quiet = false, json = false;
};

struct NetArguments : ReadOptions {
  std::string net, solver;
  int slice = 0;
  int gpus = 0, cores = 0;           // that will compute; they decide how mini-batches are cut
  std::vector<int> cores_by_rank{};  // GroupsPlan::cores_by_rank; `cores` are the fewest
  bool fixed_sums = false;           // see BuildOptions
  DataType values = DataType::f32;   // the type of the values between layers
  Status refused{};                  // the first option of [net] that is wrong
};

struct MachineArguments {
  SessionOptions session;
  std::string gpus = "all";
  // These are bytes. The first two are the least of any chosen GPU: its free memory, and what
  // StarPU may use for tensors. The third is the most that a worker's libraries may allocate on any
  // of them.
  std::size_t gpu_memory = 0, gpu_tensors = 0, most_workspace = 0;
  std::map<int, std::string> gpus_left_out{};  // reasons by the number of the GPU
  std::string models;
};

struct DataArguments {
  std::string source;
  std::optional<std::uint64_t> seed{}, data_seed{};
  bool test = true;  // the command needs test images
  bool scale_features = false;
  double hold_out = 0;    // share of the training samples to test on; 0: the data's own test set
  double damaged = 0.01;  // largest share of damaged images in a set

  std::uint64_t seed_of_net() const { return seed.value_or(1); }
  std::uint64_t seed_of_samples() const { return data_seed.value_or(seed_of_net()); }
};

// Every command that runs a net on this machine has these arguments.
struct NetRunArguments {
  CommonArguments common;
  NetArguments net;
  MachineArguments machine;
};

void describe(auto& add, CommonArguments& common) {
  add.group("Options");
  add("-q,--quiet", &common.quiet, "Print only results and errors");
  add("--json", &common.json, "Print results on stdout as JSON");
}

// These checks accept numbers from 0 to 1, also in per cent. share_between() refuses 0 and 1.
std::string share(std::string& value);
std::string share_between(std::string& value);
void describe_settings(OptionTable& add, NetArguments& net);  // adds the options for keys of [net]

void describe(auto& add, NetArguments& net) {
  add.group("Net and solver");
  add("--net FILE", &net.net, "Net: a .cfg or .prototxt file, or the name of a shipped net");
  add("--solver FILE", &net.solver,
      "Solver of a .prototxt net, also a .prototxt file; its net is taken, unless one is named");
  add("--strict", &net.strict,
      "Unknown keys in the net are errors; a training that does not learn ends with exit code 6");
  add("--slice IMAGES", &net.slice, {.check = range(0, 1 << 30)},
      "Images per task; default: 0, a choice by the net, the mini-batch and the cores");
  add("--classes COUNT", &net.classes, {.check = class_count},
      "Outputs of the last layer, in place of what the net says");
  add("--net-stage NAME", &net.stages, {.check = not_empty},
      "A stage of a .prototxt net, beside those of its files; may be repeated");
  add("--net-level NUMBER", &net.level,
      {.check = range(std::numeric_limits<int>::min(), std::numeric_limits<int>::max())},
      "Level of a .prototxt net, in place of that of its files");
  add("--set KEY=VALUE", &net.settings, "Override a key of [net], as in --set momentum=0.8");
  describe_settings(add, net);
}

void describe(auto& add, MachineArguments& machine) {
  SessionOptions& session = machine.session;
  add.group("Machine");
  add("--workers COUNT", &session.cpu_workers, {.check = range(1, 4096)},
      "CPU workers; default: all cores");
  add("--gpus NUMBERS", &machine.gpus, "GPUs that compute: all (default), none, or as in 0,1");
  add("--precision fp32|tf32|bf16",
      choice(session.precision,
             {{"fp32", Precision::fp32}, {"tf32", Precision::tf32}, {"bf16", Precision::bf16}}),
      "Rounding of the factors in convolutions and connected layers: fp32 (none; default), tf32 "
      "(to 10 bits of mantissa; GPUs only), bf16 (to 7 bits; layers also store their values in "
      "bf16). Sums are fp32");
  add("--sched NAME", &session.scheduler,
      "Scheduling policy; help: list them; default: STARPU_SCHED, else omni");
  add("--deterministic", &session.deterministic,
      "Bit-identical results on any number of workers of this machine type");
  add("--impl NAME", &session.implementation,
      {.words = {"onednn", "lowering_onednn", "lowering", "winograd", "winograd_8x8", "gemm",
                 "vector", "cuda", "reference"}},
      "Prefer this implementation wherever it applies");
  add("--models FOLDER", &machine.models, "Folder of performance models");
}

void describe(auto& add, DataArguments& data) {
  add.group("Data");
  add("--data SOURCE", &data.source, {.joined = true},
      "Images or vectors: " + known_sources() +
          ". A net with several inputs takes NAME=SOURCE for each of them");
  add("--scale-features", &data.scale_features,
      "LIBSVM files: map each feature to 0 to 1, by its range in the training file");
  add("--hold-out SHARE", &data.hold_out, {.check = share_between},
      "Test on this share of the training samples of every class, as in 0.1 or 10%, and train on "
      "the others; the seed draws them. A test set of the data is not used");
  add("--seed NUMBER", &data.seed, {.check = whole_number()},
      "Seed of all random numbers; default: 1, or random_seed of a --solver; in a task of a Slurm "
      "array its number");
  add("--data-seed NUMBER", &data.data_seed, {.check = whole_number()},
      "Seed of what concerns the samples: their order, their augmentation, what --hold-out draws; "
      "default: that of --seed");
}

void describe_damaged_images(auto& add, DataArguments& data) {
  add.group("Data");
  add("--damaged-images SHARE", &data.damaged, {.check = share},
      "Share of the images of a set that may be damaged or missing: they are skipped and named. "
      "Beyond it the run ends with exit code 3; 0: the first ends it; default: 0.01, or 1%");
}

void describe_trace(auto& add, std::string& folder) {
  add.group("Output");
  add("--trace FOLDER", &folder,
      "Record every task into this folder, for omni-perf; about 300 bytes per task");
}

// Adds the options that several commands have.
void describe_shared(auto& add, auto& arguments) {
  describe(add, arguments.common);
  if constexpr (requires { describe(add, arguments.net); }) describe(add, arguments.net);
  if constexpr (requires { describe(add, arguments.data); }) describe(add, arguments.data);
  if constexpr (requires { describe(add, arguments.machine); }) describe(add, arguments.machine);
  if constexpr (requires { arguments.trace; }) describe_trace(add, arguments.trace);
}

}  // namespace omni
