// These tests read Caffe's prototxt files with wrong syntax, wrong solver files, and command lines
// that do not fit them.
#include "tests/error/caffe/caffe_cases.hpp"

namespace omni::test {
namespace {

TEST_F(CaffeCases, texts_are_refused_with_line_and_column) {
  const std::string good = kCaffeData + caffe_layer("type: 'ReLU'") + kCaffeLoss;
  struct {
    std::string text, what;
  } const kCases[] = {
      {"layer { name: 'a'\n", "n.prototxt:2:1: Expected identifier"},
      {good + "layer [\n", "n.prototxt:9:1: Expected \"{\""},
      {good + "name: 5\n", "n.prototxt:8:7: Expected string"},
      {good + "layer { nmae: 'a' type: 'ReLU' bottom: 's' top: 't' }\n",
       "n.prototxt:8:13: LayerParameter has no field 'nmae', or it is not supported (did you mean "
       "'name'?)"},
      {good + "layer { type: 'Pooling' bottom: 's' top: 't' pooling_param { pool: MEAN } }\n",
       "n.prototxt:8:73: Unknown enumeration value of \"MEAN\" for field \"pool\""},
      {good + "name: 'a' name: 'b'\n", "specified multiple times"},
      {good + "[foo.bar]: 3\n", "n.prototxt:8:10: Ignoring extension \"foo.bar\""},
      {std::string("a\0b", 3), "n.prototxt:1: a NUL byte"},
      {"\x7F"
       "ELF",
       "n.prototxt:1"},
  };
  put(folder_ / "s.prototxt", kCaffeSolver);
  for (const auto& each : kCases) {
    put(folder_ / "n.prototxt", each.text);
    const Finished run = omni_run_fork(
        {"--net", folder_ / "n.prototxt", "--solver", folder_ / "s.prototxt", "--dry-run"});
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_NE(run.errors.find(each.what), std::string::npos)
        << "wanted: " << each.what << "\nsaid: " << run.errors;
  }
}

TEST_F(CaffeCases, solvers_are_refused_with_the_line) {
  const CaffeCase kCases[] = {
      {">lr_policy: 'fixed'", "has no base_lr"},
      {">base_lr: 1", "has no lr_policy"},
      {"base_lr: 1\n>lr_policy: 'stp'", "unknown lr_policy 'stp' (did you mean 'step'?)"},
      {"base_lr: 1\n>lr_policy: 'step' gamma: 1", "lr_policy step without stepsize"},
      {"base_lr: 1\n>lr_policy: 'inv' gamma: 1", "lr_policy inv without power"},
      {"base_lr: 1\n>lr_policy: 'poly' power: 1", "the policy poly needs a length"},
      {"base_lr: 1\nlr_policy: 'fixed'\ntype: 'AdaGrad'\n>momentum: 0.9",
       "momentum: 0.9 with AdaGrad (it has none: remove it)"},
      {"base_lr: 1\nlr_policy: 'fixed'\nsolver_type: RMSPROP\n>momentum: 0.9",
       "momentum: 0.9 with RMSProp (it has none: remove it)"},
      {"base_lr: 1\nlr_policy: 'fixed'\ntype: 'RMSProp'\n>rms_decay: 1",
       "rms_decay: 1 is out of range"},
      {"base_lr: 1\nlr_policy: 'fixed'\ntype: 'Adam'\n>solver_type: SGD",
       "solver_type beside type (remove it: it is the old form)"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>type: 'adam'",
       "unknown solver 'adam' (did you mean 'Adam'?)"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>regularization_type: 'L3'",
       "regularization_type 'L3' is not supported (known: L1 L2)"},
      {"base_lr: 1\nlr_policy: 'fixed'\ntype: 'Adam'\n>regularization_type: 'L1'",
       "regularization_type 'L1' is not supported (known for Adam: L2)"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>momentum: 1", "momentum: 1 is out of range"},
      {">base_lr: -1\nlr_policy: 'fixed'", "base_lr: -1 is out of range"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>iter_size: 0", "iter_size: 0 is out of range"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>clip_gradients: 0",
       "clip_gradients: 0 makes every gradient 0 (remove it, or give a norm above 0)"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>train_net: 'a'", "train_net: \"a\" is not supported"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>test_net: 'a'", "test_net: \"a\" is not supported"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>net_param { name: 'n' }",
       "net_param is not supported (give the net in a file of its own)"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>test_state { } test_state { }",
       "several test_state (a training has one test)"},
      {"base_lr: 1\nlr_policy: 'fixed'\n>weights: 'a'",
       "weights: \"a\" is not supported (give --weights)"},
  };
  for (const CaffeCase& each : kCases)
    expect_refusal(kCaffeData + caffe_layer("type: 'ReLU'") + kCaffeLoss, each.text, each.what);
}

TEST_F(CaffeCases, the_command_line_is_refused_with_its_option) {
  put(folder_ / "n.prototxt", kCaffeData + caffe_layer("type: 'ReLU'") + kCaffeLoss);
  put(folder_ / "s.prototxt", kCaffeSolver);
  put(folder_ / "clip.prototxt", std::string(kCaffeSolver) + "clip_gradients: 1\n");
  put(folder_ / "none.prototxt", "net: 'nowhere.prototxt'\n");
  const std::string net = folder_ / "n.prototxt", solver = folder_ / "s.prototxt";
  struct {
    std::vector<std::string> words;
    std::string what;
  } const kCases[] = {
      {{"--net", net, "--set", "base_lr=1"}, "--set base_lr=1: is not known without a solver"},
      {{"--net", net, "--set", "height=0"}, "--set height=0: is out of range"},
      {{"--net", net, "--solver", solver, "--set", "base_rl=1"}, "--set base_rl=1: unknown key"},
      {{"--net", net, "--solver", solver, "--set", "base_lr=x"},
       "--set base_lr=x:1:10: Expected double"},
      {{"--net", net, "--solver", solver, "--set", "momentum=2"},
       "command line: momentum: 2 is out of range"},
      {{"--net", net, "--solver", folder_ / "clip.prototxt", "--groups", "2", "--data",
        "synthetic:48:4"},
       "clip.prototxt:4: clip_gradients is not for several groups"},
      {{"--net", net, "--solver", folder_ / "clip.prototxt", "--auto", "--data", "synthetic:48:4"},
       "clip.prototxt:4: clip_gradients is not for several groups"},
      {{"--net", net, "--solver", "no.prototxt"}, "--solver no.prototxt: no such solver"},
      {{"--net", "lenet", "--solver", solver}, "is no net of Caffe"},
      {{"--net", "none.prototxt"}, "--net none.prototxt: no such net"},
      {{"--solver", folder_ / "none.prototxt"}, "none.prototxt:1: no such net: 'nowhere.prototxt'"},
      {{"--solver", solver}, "s.prototxt:1: names no net"},
  };
  for (const auto& each : kCases) {
    std::vector<std::string> words = each.words;
    words.emplace_back("--dry-run");
    const Finished run = omni_run_fork(words);
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_NE(run.errors.find(each.what), std::string::npos)
        << "wanted: " << each.what << "\nsaid: " << run.errors;
  }
}

TEST_F(CaffeCases, a_net_that_the_solver_names_is_of_caffe_whatever_its_ending) {
  for (const char* name : {"n.txt", "n.cfg", "n"}) {
    put(folder_ / name, kCaffeData + caffe_layer("type: 'ReLU'") + kCaffeLoss);
    put(folder_ / "s.prototxt", fmt::format("net: '{}'\n{}", name, kCaffeSolver));
    const Finished run = omni_run_fork(
        {"--solver", folder_ / "s.prototxt", "--data", "synthetic:48:4", "--dry-run"});
    EXPECT_EQ(run.exit_code, 0) << run.errors;
  }
  put(folder_ / "s.prototxt", kCaffeSolver);
  const Finished given =
      omni_run_fork({"--net", folder_ / "n.txt", "--solver", folder_ / "s.prototxt", "--data",
                     "synthetic:48:4", "--dry-run"});
  EXPECT_EQ(given.exit_code, 0) << given.errors;
}

TEST_F(CaffeCases, a_machine_is_measured_with_the_net_of_the_solver) {
  put(folder_ / "s.prototxt", std::string("net: 'none.prototxt'\n") + kCaffeSolver);
  const Finished run = omni_run_fork({"machine", "--solver", folder_ / "s.prototxt"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.errors.find("s.prototxt:1: no such net: 'none.prototxt'"), std::string::npos)
      << run.errors;
}

}  // namespace
}  // namespace omni::test
