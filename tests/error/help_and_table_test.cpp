// These tests check the --help of every command and the layer table. Both fit 100 columns. Keys
// without effect cause no warning if they have their neutral value.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/support/omni_run_fork.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {
namespace {

void expect_narrow(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
    EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
  }
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\n is not in\n" << text.substr(0, 6000);
}

TEST(Help, GroupsOptionsWithUnitsInOneHundredColumns) {
  const std::string help = omni_run_fork({"--help"}).output;
  expect_narrow(help);
  for (const char* group : {"\nData:\n", "\nNet and solver:\n", "\nMachine:\n", "\nGroups:\n",
                            "\nStrategies:\n", "\nOutput:\n", "\nCheckpoints:\n"})
    expect_has(help, group);
  expect_has(help, "--patience SECONDS");
  expect_has(help, "--precision fp32|tf32|bf16");
  EXPECT_EQ(help.find(" in ["), help.npos) << "a range as CLI11 shows it";
  for (const char* command : {"valid", "predict", "time", "plan", "compare", "data", "net",
                              "layers", "explain", "devices", "machine"}) {
    const std::string text = omni_run_fork({command, "--help"}).output;
    expect_narrow(text);
    EXPECT_EQ(text.find("Examples:"), text.npos) << command << " shows the program's examples";
  }
}

std::string table_of(const std::string& net) {
  const Finished run =
      omni_run_fork({"--net", net, "--dry-run", "--workers", "2", "--gpus", "none"});
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  expect_narrow(run.output);
  return run.output;
}

TEST(LayerTable, ShowsBothStridesDilationGroupsAndAllInputsOfARoute) {
  const TemporaryDirectory folder;
  std::string text = "[net]\nbatch=2\nheight=64\nwidth=64\nchannels=4\n", inputs;
  for (int i = 0; i < 30; ++i) {
    text += "[conv]\nfilters=4\nsize=3\npad=1\n";
    inputs += (i == 0 ? "" : ",") + std::to_string(i);
  }
  text += "[route]\nlayers=" + inputs +
          "\n[conv]\nfilters=8\nsize=3\npad=1\nstride_x=2\nstride_y=1\ngroups=4\n"
          "[conv]\nfilters=8\nsize=3\npad=1\npadding=2\ndilation=2\n"
          "[maxpool]\nsize=2\nstride_x=1\nstride_y=2\n[connected]\noutput=4\n[softmax]\n";
  put(folder / "a.cfg", text);
  const std::string table = table_of(folder / "a.cfg");
  expect_has(table, "convolutional 8 3x3/2x1 g4");
  expect_has(table, "convolutional 8 3x3/1 d2");
  expect_has(table, "maxpool 2x2/1x2");
  std::string words = table;
  std::ranges::replace(words, '\n', ' ');
  std::istringstream read(words.substr(words.find("route layers")));
  std::string word;
  read >> word >> word;
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(read >> word && word == std::to_string(i)) << word;
}

TEST(LayerTable, OfShippedNetsFitsOneHundredColumns) {
  expect_has(table_of("resnet-50"), "norm sum relu\n");
  expect_has(table_of("vgg-16"), " bias relu\n");
  expect_has(table_of("caffenet"), "connected 4096, 8 blocks");
}

TEST(NeutralValues, OfKeysWithoutEffectAreNoNews) {
  const TemporaryDirectory folder;
  const std::string end = "[connected]\noutput=4\n[softmax]\n";
  put(folder / "image.cfg",
      "[net]\nheight=8\nwidth=8\nmixup=0\nangle=0\nsaturation=1\nexposure=1.0\nB1=.9\n"
      "mosaic=0\n[crop]\ncrop_height=4\ncrop_width=4\nangle=.0\nsaturation=1\n" +
          end);
  put(folder / "flat.cfg",
      "[net]\ninputs=9\nangle=0\nsaturation=1\nhue=0\nflip=0\nB2=0.999\n" + end);
  put(folder / "loud.cfg", "[net]\ninputs=9\nangle=7\nsaturation=1\nmixup=1\nB1=.8\n" + end);
  for (const char* net : {"image.cfg", "flat.cfg"})
    EXPECT_EQ(omni_run_fork({"--net", folder / net, "--dry-run"}).errors.find("no effect"),
              std::string::npos)
        << omni_run_fork({"--net", folder / net, "--dry-run"}).errors;
  const std::string said = omni_run_fork({"--net", folder / "loud.cfg", "--dry-run"}).errors;
  expect_has(said, "loud.cfg:3: 'angle' has no effect on a flat input");
  expect_has(said, "loud.cfg:5: 'mixup' has no effect (it is accepted because");
  expect_has(said, "loud.cfg:6: 'B1' has no effect without adam=1");
  EXPECT_EQ(said.find("saturation"), said.npos) << said;
}

}  // namespace
}  // namespace omni::test
