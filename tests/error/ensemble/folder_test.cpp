// These tests check which ensemble folders valid and predict refuse, with which message and exit
// code.
#include <gmock/gmock.h>

#include "tests/support/net_text.hpp"
#include "tests/support/omni_run.hpp"

namespace omni::test {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

std::string member(const std::string& name, const std::string& net = "lenet",
                   const std::string& options = "", const std::string& state = "finished") {
  return fmt::format(R"({{"name": "{}", "net": "{}", "options": [{}], "state": "{}", )"
                     R"("iteration": 1, "loss": null, "accuracy": null}})",
                     name, net, options, state);
}

struct Refused {
  std::string members;  // of ensemble.json
  int code;
  std::string said;
  Words more{};  // further words of the command line
};

class EnsembleFolderOf : public testing::Test {
 protected:
  EnsembleFolderOf() {
    for (const char* name : {"a", "b"}) std::filesystem::create_directories(at(name));
    put(at("a/net.weights"), "no weights");
    put(at("b/net.weights"), "no weights");
    put(at("two.cfg"), net(2, {8, 8, 3}) + connected(2) + layer("softmax"));
    put(at("four.cfg"), net(2, {8, 8, 3}) + connected(4) + layer("softmax"));
    put(at("grouped.cfg"), net(2, {8, 8, 3}) + connected(4) + layer("softmax", "groups=2\n"));
    put(at("cost.cfg"), net(2, {8, 8, 3}) + connected(2, "logistic") + layer("cost"));
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  void write(const std::string& members) const {
    put(at("ensemble.json"),
        R"({"format": "omnivore-ensemble", "version": 1, "members": [)" + members + "]}");
  }
  static Finished run(const std::string& command, Words words) {
    words.insert(words.begin(), {command, "-q"});
    return omni_run(std::move(words));
  }

  TemporaryDirectory folder_;
};

TEST_F(EnsembleFolderOf, wrong_members_are_refused) {
  const std::string file = at("ensemble.json");
  const std::vector<Refused> cases{
      {"", 3, file + ": has no members (omni-run ensemble writes it)"},
      {member("../a"), 3, "the member '../a' cannot have a folder of this name"},
      {member("a") + "," + member("a"), 3, file + ": has two members 'a'"},
      {member("a", "lenet", "", "running"), 3,
       ": no member has finished (let one train to its end)"},
      {member("a", "lenet", "", "diverged"), 3, "'a' is left out: it has diverged"},
      {member("a", "/none.cfg"), 3, file + ": 'a' has the net '/none.cfg': no such net"},
      {member("a", "lenet", R"("--colour")"), 3,
       file + ": the options of 'a' are not those of a training"},
      {member("a", "lenet", R"("--set", "colour")"), 2, "colour"},
      {member("c"), 3, at("c/net.weights") + ": is missing, although the member has finished"},
      {member("a", at("two.cfg")) + "," + member("b", at("four.cfg")), 3,
       ": 'a' has 2 outputs, 'b' has 4 (members of an ensemble tell the same classes apart)"},
      {member("a", at("grouped.cfg")), 2, "the outputs are no probabilities"},
      {member("a", at("cost.cfg")), 2, "the outputs are no probabilities"},
      // Wrong weights are found only when the member is tested.
      {member("a", at("two.cfg")), 3, at("a/net.weights")},
      {member("a"), 2, "error: --ensemble excludes --weights", {"--weights", at("a/net.weights")}},
      {member("a"),
       2,
       "error: --ensemble: the members' nets are used (leave --net out)",
       {"--net", "lenet"}},
      {member("a"),
       2,
       "error: --ensemble: the members' options are used (leave --classes out)",
       {"--classes", "10"}},
      {member("a"),
       2,
       "error: --ensemble: the members' options are used (leave --set out)",
       {"--set", "batch=2"}},
  };
  for (const Refused& each : cases) {
    write(each.members);
    for (const char* command : {"valid", "predict"}) {
      Words words{"--ensemble", folder_.path(), "--data", "synthetic:20:2"};
      if (std::string(command) == "predict") words.insert(words.end(), {"--index", "0"});
      words.insert(words.end(), each.more.begin(), each.more.end());
      const Finished refused = run(command, words);
      EXPECT_EQ(refused.exit_code, each.code) << command << each.members << refused.errors;
      EXPECT_THAT(refused.errors, HasSubstr(each.said)) << command;
      EXPECT_EQ(refused.output, "");
    }
  }
}

TEST_F(EnsembleFolderOf, what_is_not_there_is_usage) {
  for (const auto& [folder, said] :
       {std::pair{folder_.path().string(), "holds no ensemble.json"},
        {at("none"), "no such folder (name the run folder of omni-run ensemble)"}}) {
    const Finished refused = run("valid", {"--ensemble", folder, "--data", "synthetic"});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.errors, HasSubstr("error: " + folder + ": " + said));
  }
}

TEST_F(EnsembleFolderOf, one_of_weights_and_ensemble_is_required) {
  for (const std::string command : {"valid", "predict"})
    EXPECT_EQ(run(command, {"--net", "lenet"}).errors,
              "error: --weights or --ensemble is required (omni-run " + command + " --help)\n");
}

TEST_F(EnsembleFolderOf, a_trace_is_of_one_net) {
  write(member("a"));
  const Finished refused =
      run("valid", {"--ensemble", folder_.path(), "--data", "synthetic", "--trace", at("trace")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors,
              HasSubstr("--ensemble: a trace is of one net (trace a member by its --net and "
                        "--weights)"));
}

}  // namespace
}  // namespace omni::test
