// This header reads the members of an ensemble. Each is a training whose command line has the words
// of all members, and then words of its own.
#pragma once

#include <string>
#include <vector>

#include "apps/omni-run/ensemble/ensemble_folder.hpp"
#include "apps/omni-run/training_arguments.hpp"

namespace omni {

struct EnsembleArguments {
  CommonArguments common;
  std::vector<std::string> nets;           // as of --net, with ":COUNT" for so many seeds
  std::string members;                     // file with a line of words for each member; "": none
  std::string share = "auto";              // how samples are prepared: see its help
  std::optional<int> preparers{};          // ranks that prepare samples; none: the fastest
  int window = 64;                         // MiB
  std::string spread = "work";             // over ranks: see its help
  std::optional<double> move_gain{};       // seconds; none: twice what a start takes
  std::string out;                         // run folder; "": by default
  std::string part{};                      // "1/4"; "": see read_part()
  std::vector<std::string> sweep{};        // see sweep_spec.hpp; empty: there is no sweep
  std::string stop{};                      // "asha:100:3", "median:100"; "": no member is stopped
  std::optional<std::uint64_t> exploit{};  // iterations between rounds; none: there are none
  bool plan = false;                       // print how devices could be shared out; nothing trains
  std::optional<std::uint64_t> prepare_only{};  // samples to measure; none: members train
  std::string machine{};             // file or name, of the plan or of --arrivals virtual
  std::vector<std::string> words{};  // of every training
  // read_members() sets these two. Members of earlier waves of a sweep; none: there are no waves,
  // or the first is not yet read.
  std::optional<std::vector<EnsembleMember>> before{};
  bool is_last_wave = true;
};

void describe(auto& add, EnsembleArguments& ensemble) {
  describe(add, ensemble.common);
  add.group("Ensemble");
  add("--net NET[:COUNT]", &ensemble.nets, {.check = not_empty},
      "Net of a member; with a count: of so many members, whose seeds follow each other. May be "
      "repeated");
  add("--members FILE", &ensemble.members, {.check = not_empty},
      "File with a line for each member: options of its training, --name NAME, # comments");
  add("--sweep KEY=VALUES", &ensemble.sweep, {.check = not_empty},
      "Members with all combinations of values: learning_rate=log:1e-4..1e-1:8 momentum=0.5,0.9; "
      "random:20 draws 20 of them; tpe:20 draws 20 in waves, from the results of earlier ones");
  add("--stop RULE", &ensemble.stop, {.check = not_empty},
      "End members that surely lose: asha[:ITERATIONS[:ETA]] lets the best 1/ETA of those at a "
      "rung "
      "go on, median[:ITERATIONS] those at least as good as the median");
  add("--exploit ITERATIONS", &ensemble.exploit, {.check = range(1, 1'000'000'000)},
      "Tournament: after so many iterations members are compared in pairs, and a member that "
      "surely "
      "loses goes on from the winner's weights with a changed learning rate");
  add("--plan", &ensemble.plan,
      "Print which members would train together on the machine of --machine, on how many devices, "
      "and how long; train nothing");
  add("--prepare-only SAMPLES", &ensemble.prepare_only,
      {.check = range(1, 1'000'000'000), .excludes = {{"--plan"}}},
      "Measure how fast the samples of all members can be prepared, after as many for warm-up; "
      "train nothing");
  add("--machine FILE", &ensemble.machine, {.check = not_empty},
      "Machine of --plan, or of --arrivals virtual: a machine file, or the name of a shipped one");
  add("--share auto|all|single|multi|off", &ensemble.share,
      {.words = {"auto", "all", "single", "multi", "off"}, .shows_default = true},
      "How samples are prepared: off: by each member for itself; others: once for all members of a "
      "rank, and over ranks: all: by every rank for all; single: by some ranks, of which one sends "
      "everything on; multi: by some ranks, each of which sends its part to all");
  add("--preparers RANKS", &ensemble.preparers, {.check = range(1, 100'000)},
      "Number of ranks that prepare samples, only with --share single or multi; default: as many "
      "as "
      "is fastest");
  add("--window MIB", &ensemble.window, {.check = range(1, 1 << 20), .shows_default = true},
      "Prepared samples that are kept for slower members");
  add("--spread fleet|work", &ensemble.spread, {.words = {"fleet", "work"}, .shows_default = true},
      "How members are spread over ranks: work: once, by their work; fleet: a long member may have "
      "several ranks, and members move to ranks that become free");
  add("--move-gain SECONDS", &ensemble.move_gain, {.check = range(0, 1'000'000)},
      "Members move if all of them would then end sooner by so much; default: twice as long as "
      "the last start took, and a second at least");
  add("--part NUMBER/COUNT", &ensemble.part, {.check = not_empty},
      "Train only this part of the members, as in 1/4, where several processes share them; default "
      "in a task of a Slurm array: its part");
  add("--out FOLDER", &ensemble.out, {.last_counts = true},
      "Run folder, with a folder for each member; default: omni-runs/ensemble");
}

// This process trains every count-th member, beginning with number `first`.
struct MembersPart {
  std::size_t first = 0, count = 1;
};

struct Member {
  std::string name;
  std::vector<std::string> words;  // of its training's command line, without outputs
  TrainArguments arguments;
};

// Reads --part, or takes the part of the task in a Slurm array; without both, the part is all.
Result<MembersPart> read_part(const std::string& text);

// Reads the command-line words of the ensemble and of each member. Prints what is wrong with them,
// and then returns the exit code. For a sweep in waves it reads the members of the next wave.
std::optional<int> read_members(EnsembleArguments& ensemble, std::vector<Member>& members);

}  // namespace omni
