#include "apps/omni-run/arguments.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <string_view>

#include "runtime/number_in.hpp"
#include "runtime/shown_name.hpp"

namespace omni {
namespace {

// One of a few words, each with a meaning.
template <class Target, class Meaning>
void add_choice(CLI::App& app, const std::string& name, Target& target,
                const std::map<std::string, Meaning>& choices, const std::string& help) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : choices) words.push_back(word);
  app.add_option_function<std::string>(
         name, [&target, choices](const std::string& word) { target = choices.at(word); }, help)
      ->check(CLI::IsMember(words));
}

constexpr std::string_view kAuto = "auto";

CLI::Validator group_count() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const int value = number_in<int>(text).value_or(0);
        if (text == kAuto || (value >= 1 && value <= kMostGroups)) return "";
        return fmt::format("{} is neither {} nor a number from 1 to {}", shown_name(text), kAuto,
                           kMostGroups);
      },
      "");
}

}  // namespace

CLI::Validator not_empty() {
  return CLI::Validator([](std::string& text) { return text.empty() ? "is empty" : ""; }, "");
}

CLI::Validator whole_number() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const auto value = number_in<std::uint64_t>(text);
        if (!value) return "'" + text + "' is not a whole number from 0 to 18446744073709551615";
        text = std::to_string(*value);
        return "";
      },
      "");
}

void add_common(CLI::App& app, CommonArguments& arguments) {
  app.add_flag("-q,--quiet", arguments.quiet, "Only results and errors");
  app.add_flag("--json", arguments.json, "Results on stdout as JSON");
}

void add_net(CLI::App& app, NetArguments& arguments) {
  app.add_option("--net", arguments.net,
                 "Net description (.cfg): a file, or the name of a shipped net");
  app.add_flag("--strict", arguments.strict,
               "Unknown keys in the net are errors; a training that cannot learn ends with "
               "exit code 6");
  app.add_option("--slice", arguments.slice,
                 "Images per task; 0: by a rule, from the net, the mini-batch and the cores")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--set", arguments.settings, "Override a key of [net]: --set momentum=0.8")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->expected(1);
  // The usual ones have names of their own.
  for (const char* key : {"batch", "subdivisions", "learning-rate", "momentum", "decay", "policy",
                          "max-batches", "burn-in"}) {
    std::string option = key;
    std::replace(option.begin(), option.end(), '-', '_');
    const auto declared = std::ranges::find(net_keys(), option, &Key::name);
    app.add_option_function<std::string>(
        std::string("--") + key,
        [&arguments, option](const std::string& value) {
          arguments.settings.push_back(option + "=" + value);
        },
        "Override " + option + " of [net]: " + std::string(declared->help));
  }
}

void add_machine(CLI::App& app, MachineArguments& arguments) {
  app.add_option("--workers", arguments.session.cpu_workers, "CPU workers; default: all cores")
      ->check(CLI::Range(1, 4096));
  app.add_option("--gpus", arguments.gpus, "GPUs that compute: all (default), none, or as in 0,1");
  add_choice(app, "--precision", arguments.session.precision,
             std::map<std::string, Precision>{
                 {"fp32", Precision::fp32}, {"tf32", Precision::tf32}, {"bf16", Precision::bf16}},
             "What convolutions and connected layers may round to before they multiply: fp32 "
             "(default), tf32 (10 bits of mantissa; GPUs), or bf16 (7 bits; also CPUs), in which "
             "layers then hand on values, too; sums are fp32");
  app.add_option("--sched", arguments.session.scheduler,
                 "Scheduling policy, or help: lists them; default: STARPU_SCHED, else omni");
  app.add_flag("--deterministic", arguments.session.deterministic,
               "Bit-identical results on any number of workers of this machine type");
  app.add_option("--impl", arguments.session.implementation,
                 "Prefer this implementation wherever it applies")
      ->check(
          CLI::IsMember({"onednn", "lowering_onednn", "lowering", "lowering_rows", "lowering_taps",
                         "winograd", "winograd_8x8", "gemm", "vector", "cuda", "reference"}));
  app.add_option("--models", arguments.models, "Folder of performance models");
}

void add_fully_connected(CLI::App& app, FullyConnected& fully_connected) {
  add_choice(app, "--fc", fully_connected,
             std::map<std::string, FullyConnected>{{"merged", FullyConnected::merged},
                                                   {"replicated", FullyConnected::replicated}},
             "Fully connected layers behind all others: merged (one copy, never stale; default) or "
             "replicated per group");
}

void add_groups(CLI::App& app, GroupArguments& arguments) {
  app.add_flag("--auto", arguments.automatic,
               "Find the number of groups (up to --groups), the momentum and the learning rate by "
               "short trials, again and again; starts from the given ones");
  app.add_option_function<std::string>(
         "--groups",
         [&arguments](const std::string& text) {
           arguments.planned = text == kAuto;
           arguments.count = arguments.planned ? std::nullopt : std::optional(std::stoi(text));
         },
         "Compute groups: each trains on mini-batches of its own, asynchronously; auto: as many as "
         "are predicted to be the fastest (see omni-run plan), or as in the checkpoint")
      ->check(group_count());
  app.add_option("--cold-start", arguments.cold_start,
                 "Begin with so many iterations in one group: at first, old gradients do the most "
                 "harm; an epoch, say")
      ->transform(whole_number())
      ->capture_default_str();
  add_choice(app, "--guard", arguments.guard,
             std::map<std::string, bool>{{"on", true}, {"off", false}},
             "Learning rate of several asynchronous groups, for which the given one may be too "
             "large. on (default): begin with a share of it, double that while the loss falls, go "
             "back and halve it where the loss rises; off: the given one");
  app.add_option("--group-layout", arguments.layout,
                 "Workers of each group, for example '0-1;2-3' (with the quotes); default: evenly")
      ->check(not_empty());
  add_fully_connected(app, arguments.fully_connected);
  add_choice(app, "--async", arguments.how.asynchrony,
             std::map<std::string, Asynchrony>{{"free", Asynchrony::free},
                                               {"reproducible", Asynchrony::reproducible}},
             "How groups update: free (as they arrive; default) or reproducible (in turn)");
  add_choice(app, "--momentum-compensation", arguments.how.compensation,
             std::map<std::string, Compensation>{{"theory", Compensation::theory},
                                                 {"off", Compensation::off}},
             "Less momentum for the asynchrony that adds its own: theory (by the number of groups; "
             "default), off");
}

void add_strategies(CLI::App& app, GroupArguments& arguments, ArrivalArguments& arrivals) {
  std::string names;
  for (const StrategyType& type : strategy_types())
    names += fmt::format("{}{}: {}", names.empty() ? "" : "; ", type.name, type.summary);
  app.add_option(
         "--strategy", arguments.strategy,
         "How groups share what they learn. Default: async with several groups, else sync. " +
             names)
      ->check(not_empty());
  StrategyOptions& how = arguments.how;
  app.add_option("--sync-every", how.sync_every,
                 "Mini-batches of each group from one meeting to the next; default: 1 (sma), 16 "
                 "(local, elastic)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--alpha", how.alpha, "sma: share of the way to the average; default: 1 / groups")
      ->check(CLI::Range(1e-6, 1.0));
  app.add_option("--central-momentum", how.central_momentum,
                 "sma, elastic: momentum of the average; default: 0.9")
      ->check(CLI::Range(0.0, 0.999999));
  app.add_option("--outer-rate", how.outer_rate, "local: rate of the outer step; default: 1")
      ->check(CLI::Range(1e-6, 100.0));
  app.add_option("--outer-momentum", how.outer_momentum,
                 "local: Nesterov momentum of the outer step; default: 0")
      ->check(CLI::Range(0.0, 0.999999));
  app.add_option("--group-batches", arguments.batches,
                 "hogbatch, adaptive: samples of each group's mini-batch, as in '3x4,64'; with "
                 "bounds for adaptive: '3x4:1-16,64:16-256'")
      ->check(not_empty());
  app.add_option("--adapt-factor", how.adapt_factor,
                 "adaptive: factor by which mini-batches grow and shrink; default: 2")
      ->check(CLI::Range(1.0, 1024.0));
  app.add_option("--adapt-weight", how.adapt_weight,
                 "adaptive: what an update of the smallest mini-batches counts; default: 1")
      ->check(CLI::Range(1e-6, 1.0));
  add_choice(app, "--arrivals", arrivals.simulated,
             std::map<std::string, bool>{{"real", false}, {"virtual", true}},
             "Order in which groups finish: real (default), or virtual, as on the machine of "
             "--machine: metrics then have simulated seconds, and a run repeats bit for bit");
  app.add_option("--machine", arrivals.machine,
                 "Machine file of --arrivals virtual: a file, or the name of a shipped one")
      ->check(not_empty());
}

void add_data(CLI::App& app, DataArguments& arguments) {
  app.add_option("--data", arguments.source,
                 "fashion-mnist, cifar10, synthetic[:N]; a folder of IDX or CIFAR-10 files, or of "
                 "images (train/CLASS/*.jpg, val/CLASS/*.jpg); a Darknet .data file; or two lists "
                 "of 'path label' lines: train.txt,val.txt. Vectors: two LIBSVM files, "
                 "train.svm,test.svm, or synthetic-vectors[:N[:FEATURES[:CLASSES]]]");
  app.add_flag("--scale-features", arguments.scale_features,
               "LIBSVM files: map each feature to 0 to 1, by its range in the training file");
  app.add_option("--seed", arguments.seed, "Seed of everything random")
      ->transform(whole_number())
      ->capture_default_str();
}

void add_trace(CLI::App& app, std::string& folder) {
  app.add_option("--trace", folder,
                 "Record every task into this folder, for omni-perf to read; about 300 bytes each");
}

}  // namespace omni
