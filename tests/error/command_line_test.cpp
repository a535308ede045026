// These tests check which command lines omni-run refuses, with which words and which exit code.
#include <gtest/gtest.h>

#include "tests/support/omni_run.hpp"
#include "tests/support/omni_run_fork.hpp"

namespace omni::test {
namespace {

using Words = std::vector<std::string>;

struct Refusal {
  const char* name;
  Words arguments;
  int exit_code;
  const char* text;  // in stderr
};

class CommandLine : public testing::TestWithParam<Refusal> {};

TEST_P(CommandLine, Refuses) {
  const Finished run = omni_run_fork(GetParam().arguments);
  EXPECT_EQ(run.exit_code, GetParam().exit_code) << run.errors;
  EXPECT_NE(run.errors.find(GetParam().text), std::string::npos) << run.errors;
  EXPECT_EQ(run.output, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, CommandLine,
    testing::Values(
        Refusal{"NoNet", {}, 2, "no net given"},
        Refusal{"UnknownNet", {"--net", "googlenet"}, 2, "one of: alexnet"},
        Refusal{"MisspeltNet", {"--net", "lenett"}, 2, "did you mean lenet.cfg?"},
        Refusal{"MisspeltNetFile", {"--net", "lnet.cfg"}, 2, "did you mean lenet.cfg?"},
        Refusal{"NoListOfGpus",
                {"--net", "lenet", "--gpus", "0,x"},
                2,
                "--gpus 0,x: is no list of GPUs (all, none, or numbers: --gpus 0,1)"},
        Refusal{"EmptyListOfGpus", {"--net", "lenet", "--gpus", ""}, 2, "is no list of GPUs"},
        Refusal{"NoSuchGpu", {"--net", "lenet", "--gpus", "99"}, 5, "--gpus 99: there is no GPU"},
        Refusal{"NoGpuToPrefer",
                {"--net", "lenet", "--gpus", "none", "--impl", "cuda"},
                2,
                "--impl cuda: no GPU computes (omni-run devices says why)"},
        Refusal{"UnknownPrecision", {"--net", "lenet", "--precision", "fp8"}, 2, "--precision"},
        Refusal{"UnknownOption",
                {"--net", "lenet", "--epohcs", "3"},
                2,
                "error: unknown option '--epohcs' (did you mean '--epochs'?)\n"},
        Refusal{"UnknownOptionOfSubcommand",
                {"valid", "--net", "lenet", "--wieghts=w"},
                2,
                "error: unknown option '--wieghts' (did you mean '--weights'?)\n"},
        Refusal{"UnlikeAnyOption", {"time", "--frobnicate"}, 2, "unknown option '--frobnicate' ("},
        Refusal{"OptionOfAnotherName",
                {"--net", "lenet", "--iterations", "5"},
                2,
                "about 'iterations': --max-batches"},
        Refusal{"UnlikeAnyOptionHint", {"time", "--frobnicate"}, 2, "omni-run time --help' lists"},
        Refusal{"UnknownCommand",
                {"tarin", "--net", "lenet"},
                2,
                "error: unknown command 'tarin' (did you mean 'train'?)\n"},
        Refusal{"UnlikeAnyCommand",
                {"lenet.cfg"},
                2,
                "error: unknown command 'lenet.cfg' (one of: valid predict time plan compare data "
                "dataset net convert layers explain devices machine slurm ensemble train)\n"},
        Refusal{"NoGroups", {"--net", "lenet", "--groups", "0"}, 2, "--groups"},
        Refusal{"TooManyGroups",
                {"--net", "lenet", "--groups", "65"},
                2,
                "--groups: '65' is neither auto nor a number from 1 to 64"},
        Refusal{
            "SomeGroups", {"--net", "lenet", "--groups", "all"}, 2, "neither auto nor a number"},
        Refusal{"GroupsAutoAndAuto",
                {"--net", "lenet", "--dry-run", "--auto", "--groups", "auto"},
                2,
                "error: --groups auto: --auto searches the number of groups, too (leave one of "
                "them out, or bound the number with --groups 4, say)\n"},
        Refusal{"GroupsAutoDeterministic",
                {"--net", "lenet", "--dry-run", "--groups", "auto", "--deterministic"},
                2,
                "error: --groups auto: it measures times, which are never the same twice (give a "
                "number, or leave out --deterministic)\n"},
        Refusal{"GroupsAutoLayout",
                {"--net", "lenet", "--dry-run", "--groups", "auto", "--group-layout", "0;1"},
                2,
                "error: --group-layout: with --groups auto the number of groups is not known "
                "before (leave it out, or give --groups a number)\n"},
        Refusal{"GroupsAutoAdam",
                {"--net", "lenet", "--dry-run", "--groups", "auto", "--set", "adam=1"},
                2,
                "error: --groups auto: it needs a momentum that can be compensated, which Adam "
                "does not have (give a number, or --set adam=0)\n"},
        Refusal{"PlanAndModularScheduler",
                {"plan", "--net", "lenet", "--sched", "modular-heft"},
                2,
                "--sched modular-heft: cannot keep tasks to a group's workers"},
        Refusal{
            "LayoutOfOtherGroups",
            {"--net", "lenet", "--data", "synthetic:64", "--groups", "3", "--group-layout", "0;0"},
            2,
            "--group-layout: names 2 groups, --groups 3 (name as many, with quotes"},
        Refusal{"LayoutOfOneGroupAndModularScheduler",
                {"--net", "lenet", "--data", "synthetic:64", "--group-layout", "0", "--sched",
                 "modular-heft"},
                2,
                "--sched modular-heft: cannot keep tasks to a group's workers"},
        Refusal{"LayoutOfNoWorkers",
                {"--net", "lenet", "--data", "synthetic:64", "--groups", "2", "--group-layout",
                 "0;999"},
                2,
                "there is no worker 999"},
        Refusal{"NoSchedulerOfThatNameInPlan",
                {"plan", "--net", "lenet", "--sched", "omnivore"},
                2,
                "unknown scheduler 'omnivore'"},
        Refusal{"GroupsAndModularScheduler",
                {"--net", "lenet", "--data", "synthetic:64", "--groups", "2", "--sched",
                 "modular-heft"},
                2,
                "--sched modular-heft: cannot keep tasks to a group's workers"},
        Refusal{"TestsAndNoTest",
                {"--net", "lenet", "--data", "synthetic:64", "--no-test", "--test-every", "5"},
                2,
                "--test-every excludes --no-test"},
        Refusal{"TestsEveryLittle",
                {"--net", "lenet", "--data", "synthetic:64", "--test-every", "0.5"},
                2,
                "--test-every"},
        Refusal{"CheckpointsOfNoTraining",
                {"--net", "lenet", "--batch", "64", "--data", "synthetic:64", "--checkpoint-every",
                 "288230376151711744"},
                2,
                "--checkpoint-every"},
        Refusal{"FreeAndDeterministic",
                {"--net", "lenet", "--groups", "2", "--async", "free", "--deterministic"},
                2,
                "the order of arrival is never the same twice"},
        Refusal{"UnknownAsynchrony",
                {"--net", "lenet", "--async", "wild"},
                2,
                "wild not in {free,reproducible}"},
        Refusal{"PlanWithNothingReplicated",
                {"plan", "--net", "mlp"},
                2,
                "all layers are fully connected and merged (--fc replicated"},
        Refusal{"MachineOfNoNet", {"machine", "--net", "lenett"}, 2, "did you mean lenet.cfg?"},
        Refusal{"MachineFileWithoutAName", {"machine", "--out", ""}, 2, "--out"},
        Refusal{"TwoCommands", {"layers", "time"}, 2, "error: unexpected argument 'time' ("},
        Refusal{"DarknetsWayToTrain",
                {"train", "x.data", "lenet.cfg"},
                2,
                "error: unknown command 'x.data' ("},
        Refusal{"AutoDeterministic",
                {"--net", "lenet", "--dry-run", "--auto", "--deterministic"},
                2,
                "error: --auto: it measures times, which are never the same twice (leave it out, "
                "or leave out --deterministic)\n"},
        Refusal{"AutoGroupLayout",
                {"--net", "lenet", "--dry-run", "--auto", "--group-layout", "0;1"},
                2,
                "error: --group-layout: with --auto the number of groups varies (leave it out, or "
                "bound the number with --groups)\n"},
        Refusal{"GuardWithAuto",
                {"--net", "lenet", "--dry-run", "--auto", "--guard", "on"},
                2,
                "error: --guard: --auto searches the learning rate by itself (leave one of them "
                "out)"},
        Refusal{"GuardOfAnotherStrategy",
                {"--net", "lenet", "--dry-run", "--strategy", "hogbatch", "--guard", "off"},
                2,
                "error: --guard: --strategy hogbatch does not use it (it belongs to async)"},
        Refusal{"AutoCompensation",
                {"--net", "lenet", "--dry-run", "--auto", "--momentum-compensation", "theory"},
                2,
                "error: --momentum-compensation: --auto searches the total momentum, and always "
                "compensates by theory (leave one of them out)\n"},
        Refusal{"Measured", {"--momentum-compensation", "measured"}, 2, "not in {off,theory}"},
        Refusal{"AutoWithoutARate",
                {"--net", "lenet", "--dry-run", "--auto", "--learning-rate", "0"},
                2,
                "error: --auto: the learning rate is 0, where nothing can be searched "
                "(--learning-rate 0.01, say)\n"},
        Refusal{"AutoAdam",
                {"--net", "lenet", "--dry-run", "--auto", "--set", "adam=1"},
                2,
                "error: --auto: it searches the momentum, which Adam does not have (leave it out, "
                "or give --set adam=0)\n"},
        Refusal{"GroupsAdam",
                {"--net", "lenet", "--dry-run", "--groups", "2", "--set", "adam=1"},
                2,
                "error: --groups: Adam has no momentum that could be compensated for the groups' "
                "asynchrony (--momentum-compensation off lets it be, --set adam=0 trains with "
                "momentum)\n"},
        Refusal{"GroupsAdamTheory",
                {"--net", "lenet", "--dry-run", "--groups", "2", "--set", "adam=1",
                 "--momentum-compensation", "theory"},
                2,
                "error: --groups: Adam has no momentum"},
        Refusal{"PlanAdam",
                {"plan", "--net", "lenet", "--set", "adam=1"},
                2,
                "error: lenet: trains with Adam, whose momentum cannot be compensated as the plan "
                "assumes (--set adam=0: an iteration takes hardly less time)\n"},
        Refusal{"NegativeSeed",
                {"--net", "lenet", "--dry-run", "--seed", "-1"},
                2,
                "--seed: '-1' is not a whole number"},
        Refusal{"SeedBeyond64Bits",
                {"--net", "lenet", "--dry-run", "--seed", "18446744073709551616"},
                2,
                "--seed: '18446744073709551616' is not a whole number"},
        Refusal{"SeedOfValid",
                {"valid", "--net", "lenet", "--weights", "w", "--seed", "1.5"},
                2,
                "--seed: '1.5' is not a whole number"},
        Refusal{"NegativeCheckpoints",
                {"--net", "lenet", "--dry-run", "--checkpoint-every", "-1"},
                2,
                "--checkpoint-every"},
        Refusal{"NegativeSample",
                {"predict", "--net", "lenet", "--weights", "w", "--index", "-1"},
                2,
                "--index"},
        Refusal{"SettingWithoutValue", {"--net", "lenet", "--set", "momentum"}, 2, "KEY=VALUE"},
        Refusal{"UnknownSetting", {"--net", "lenet", "--set", "momentun=0.9"}, 2, "momentun"},
        Refusal{
            "BadSetting", {"--net", "lenet", "--momentum", "fast", "--dry-run"}, 2, "command line"},
        Refusal{"BatchNotDivisible",
                {"--net", "lenet", "--batch", "10", "--subdivisions", "3"},
                2,
                "not divisible"},
        Refusal{"SliceTooLarge", {"--net", "lenet", "--batch", "8", "--slice", "9"}, 2, "--slice"},
        Refusal{"NegativeEpochs", {"--net", "lenet", "--epochs", "-1"}, 2, "--epochs"},
        Refusal{"UnknownData", {"--net", "lenet", "--data", "fashion-mnits"}, 2, "fashion-mnist"},
        Refusal{"NoSuchFolder", {"--net", "lenet", "--data", "/nowhere"}, 2, "/nowhere"},
        Refusal{"TooFewOutputs", {"--net", "lenet", "--data", "synthetic:10:11"}, 2, "11 classes"},
        Refusal{"OptionsBeforeSubcommand",
                {"--weights", "w", "valid", "--net", "lenet"},
                2,
                "error: --weights stands before 'valid' (options of a subcommand come after its "
                "name)\n"},
        Refusal{"UnknownOptionBeforeSubcommand",
                {"--index", "3", "predict", "--net", "lenet"},
                2,
                "error: --index stands before 'predict' ("},
        Refusal{"UnknownImplementation", {"--net", "lenet", "--impl", "mkl"}, 2, "error: --impl: "},
        Refusal{"UnwritableWeights",
                {"--net", "lenet", "--max-batches", "1", "--save-weights", "/nowhere/w.weights"},
                2,
                "/nowhere/w.weights"},
        Refusal{"UnknownScheduler",
                {"--net", "lenet", "--sched", "fifo"},
                2,
                "error: unknown scheduler 'fifo' (one of: omni "},
        Refusal{"MissingCheckpoint",
                {"--net", "lenet", "--resume", "/nowhere"},
                2,
                "no such checkpoint"},
        Refusal{"EmptyCheckpoint", {"--net", "lenet", "--resume", ""}, 2, "--resume: is empty"},
        Refusal{"TooMuchMemory",
                {"--net", "vgg-16", "--batch", "4096", "--subdivisions", "1"},
                4,
                "--subdivisions"},
        Refusal{"Diverges",
                {"--net", "lenet", "--learning-rate", "1e9", "--max-batches", "50"},
                6,
                "finite"},
        Refusal{"GivenTwice",
                {"--net", "lenet", "--batch", "3", "--batch", "4"},
                2,
                "error: --batch is given twice (remove one of them)\n"},
        Refusal{"WithoutItsValue",
                {"--net", "lenet", "--batch"},
                2,
                "error: --batch has no value (omni-run --help)\n"},
        Refusal{"ValidNeedsWeights",
                {"valid", "--net", "lenet"},
                2,
                "error: --weights or --ensemble is required ("},
        Refusal{"SyntheticImagesAreSaid",  // before the schedule is refused
                {"-q", "--net", "lenet", "--policy", "exp", "--set", "gamma=0", "--epochs", "1"},
                2,
                "warning: no --data: computed patterns stand in for images (--data fashion-mnist, "
                "say)\n"},
        Refusal{"ValidNeedsData",  // before the weights are missed
                {"valid", "-q", "--net", "lenet", "--weights", "/nowhere.weights"},
                2,
                "error: valid: no data given (--data names those of the training; --data synthetic "
                "computes patterns)\n"},
        Refusal{
            "AnIndexNeedsData",
            {"predict", "-q", "--net", "lenet", "--weights", "/nowhere.weights", "--index", "0"},
            2,
            "error: --index: no data given (--data names those of the training; --data "
            "synthetic computes patterns)\n"},
        Refusal{"UnwritableMetrics",
                {"--net", "lenet", "--max-batches", "1", "--metrics", "/nowhere/m.jsonl"},
                2,
                "/nowhere/m.jsonl"},
        Refusal{"UnwritableRunFolder",
                {"--net", "lenet", "--max-batches", "1", "--out", "/proc/omni"},
                2,
                "/proc/omni"}),
    [](const auto& refusal) { return std::string(refusal.param.name); });

TEST(TrainCommand, SaysWhatTheUsualSettingsMean) {
  const Finished help = omni_run({"--help"});
  EXPECT_NE(help.output.find("--max-batches UPDATES     Override max_batches of [net]: updates to "
                             "do (iterations); 0: no end"),
            std::string::npos)
      << help.output;
}

TEST(TrainCommand, DryRunSaysWhatSubdivisionsMean) {
  const Finished run = omni_run({"--net", "lenet", "--dry-run", "--batch", "256", "--subdivisions",
                                 "4", "--gpus", "none", "--workers", "2"});
  EXPECT_NE(run.output.find("batch: 256 images in 4 mini-batches\n"
                            "mini-batch: 64 images in 2 slices, "),
            std::string::npos)
      << run.output;
}

TEST(TrainCommand, BatchAloneKeepsTheImagesThatAreComputedAtOnce) {
  struct Case {
    const char *net, *batch, *says;
  };
  for (const Case& each :
       {Case{"vgg-16", "16", "\nmini-batch: 16 images in "},
        Case{"vgg-16", "96", "\nbatch: 96 images in 3 mini-batches\nmini-batch: 32 images"},
        Case{"vgg-16", "50", "\nbatch: 50 images in 2 mini-batches\nmini-batch: 25 images"},
        Case{"vgg-16", "37", "batch 37 is not divisible by subdivisions 8"},
        Case{"lenet", "509", "\nmini-batch: 509 images in "}}) {
    const Finished run =
        omni_run({"--net", each.net, "--dry-run", "--batch", each.batch, "--gpus", "none"});
    EXPECT_NE((run.output + run.errors).find(each.says), std::string::npos)
        << each.net << ' ' << each.batch << '\n'
        << run.output << run.errors;
  }
}

TEST(TrainCommand, IsTheSameAsNone) {
  const Finished with = omni_run({"train", "--net", "lenet", "--dry-run"});
  const Finished without = omni_run({"--net", "lenet", "--dry-run"});
  EXPECT_EQ(with.exit_code, 0) << with.errors;
  EXPECT_EQ(with.output, without.output);
  EXPECT_EQ(omni_run({"train", "--help"}).output, omni_run({"--help"}).output);
}

TEST(Schedulers, HelpListsThem) {
  for (const Words& words : {Words{"--sched", "help"}, Words{"time", "--sched=help"},
                             Words{"slurm", "--sched", "help"}}) {
    const Finished run = omni_run(words);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(run.output.find("omni\n"), 0u) << run.output;
    EXPECT_NE(run.output.find("\ndmdas\n"), std::string::npos) << run.output;
    EXPECT_EQ(run.errors, "");
  }
}

TEST(Workers, MoreThanThereAreIsSaid) {
  const Finished run = omni_run({"devices", "--workers", "500", "--gpus", "none", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const std::size_t used = nlohmann::json::parse(run.output)["workers"].size();
  EXPECT_NE(run.errors.find("warning: --workers 500: "), std::string::npos) << run.errors;
  EXPECT_NE(run.errors.find(" cores here, using " + std::to_string(used) + "\n"), std::string::npos)
      << run.errors;
}

}  // namespace
}  // namespace omni::test
