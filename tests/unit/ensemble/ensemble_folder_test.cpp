// These tests check that ensemble.json is read as it was written, and that wrong contents are
// refused.
#include "apps/omni-run/ensemble/ensemble_folder.hpp"

#include <gmock/gmock.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/files.hpp"
#include "runtime/shown_name.hpp"
#include "tests/support/run_program.hpp"

namespace omni {
namespace {

using testing::HasSubstr;

std::vector<EnsembleMember> some_members() {
  return {{.name = "lenet-1",
           .net = "lenet",
           .options = {"--seed", "1", "--learning-rate", "0.01", ""},
           .state = MemberState::finished,
           .iteration = 1200,
           .loss = 0.25,
           .accuracy = 0.915},
          {.name = "größer",
           .net = "/nets of mine/a.cfg",
           .solver = "/nets of mine/s.prototxt",
           .options = {},
           .state = MemberState::diverged,
           .iteration = 7}};
}

TEST(EnsembleFolder, keeps_what_is_written) {
  const test::TemporaryDirectory folder;
  auto members = some_members();
  for (const MemberState state :
       {MemberState::running, MemberState::stopped, MemberState::dropped, MemberState::diverged,
        MemberState::finished, MemberState::failed}) {
    members.front().state = state;
    members.front().error = state == MemberState::failed ? "a reason" : "";
    ASSERT_TRUE(write_ensemble(folder.path(), members));
    const auto read = read_ensemble(folder.path());
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(*read, members) << text_of(state);
  }
  EXPECT_EQ(member_weights("folder", members.front()), "folder/lenet-1/net.weights");
}

// Only members that were running fail, and only those of the process that ends.
TEST(EnsembleFolder, records_why_a_run_has_failed) {
  const test::TemporaryDirectory folder;
  auto members = some_members();
  members.front().state = MemberState::running;
  members.push_back({.name = "other", .net = "lenet"});
  ASSERT_TRUE(write_ensemble(folder.path(), members));
  const auto file = [&] { return nlohmann::json::parse(test::get(folder / kEnsembleFile)); };
  EXPECT_EQ(file()["state"], "running");
  EXPECT_FALSE(file().contains("error"));
  ASSERT_TRUE(fail_running(folder.path(), {true, true, false}, "two\nlines"));
  EXPECT_EQ(file()["state"], "failed");
  EXPECT_EQ(file()["error"], one_line("two\nlines"));
  members[0].state = MemberState::failed;
  members[0].error = one_line("two\nlines");
  EXPECT_EQ(*read_ensemble(folder.path()), members);
  for (auto& each : members) each = {.name = each.name, .net = "lenet"};
  for (const auto& [state, text] :
       {std::pair(MemberState::dropped, "dropped"), std::pair(MemberState::diverged, "diverged"),
        std::pair(MemberState::finished, "finished"), std::pair(MemberState::stopped, "stopped")}) {
    if (state == MemberState::dropped)
      for (auto& each : members) each.state = state;
    members[1].state = state;
    ASSERT_TRUE(write_ensemble(folder.path(), members));
    EXPECT_EQ(file()["state"], text);
  }
}

TEST(EnsembleFolder, writes_no_number_that_json_lacks) {
  const test::TemporaryDirectory folder;
  auto members = some_members();
  members.front().loss = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(write_ensemble(folder.path(), members));
  EXPECT_EQ(read_ensemble(folder.path())->front().loss, std::nullopt);
}

TEST(EnsembleFolder, refuses_names_that_leave_the_folder) {
  for (const std::string name : {"", ".", "..", ".hidden", "a/b", "/a", "../a", "a\n", "a\x1b[0m",
                                 "\xff", "ensemble.json"}) {
    auto members = some_members();
    members.back().name = name;
    const Status status = check_members(members, "here");
    ASSERT_FALSE(status) << name;
    EXPECT_EQ(status.error().kind, ErrorKind::data);
    EXPECT_THAT(status.error().message(), HasSubstr("here: the member ")) << name;
  }
  auto members = some_members();
  members.back().name = std::string(201, 'a');
  EXPECT_FALSE(check_members(members, ""));
  members.back().name = std::string(200, 'a');
  EXPECT_TRUE(check_members(members, ""));
}

TEST(EnsembleFolder, refuses_members_that_it_cannot_hold) {
  EXPECT_FALSE(check_members({}, ""));
  auto members = some_members();
  members.push_back(members.front());
  EXPECT_THAT(check_members(members, "here").error().message(), HasSubstr("two members 'lenet-1'"));
  members = some_members();
  members.front().options.push_back("a\tb");
  EXPECT_THAT(check_members(members, "here").error().message(), HasSubstr("control characters"));
  members.assign(kMostMembers + 1, some_members().front());
  EXPECT_THAT(check_members(members, "here").error().message(), HasSubstr("1001 members"));
}

struct WrongFile {
  const char* text;
  const char* said;
};

TEST(EnsembleFolder, a_wrong_file_is_refused_with_its_path) {
  const std::string good =
      R"("name": "a", "net": "lenet", "options": [], "state": "finished", "iteration": 1)";
  const std::string begin = R"({"format": "omnivore-ensemble", "version": 1, "members": )";
  const test::TemporaryDirectory folder;
  const auto refused = [&](const std::string& text, const char* said) {
    test::put(folder / "ensemble.json", text);
    const auto read = read_ensemble(folder.path());
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().kind, ErrorKind::data) << text;
    EXPECT_THAT(read.error().message(), HasSubstr((folder / "ensemble.json").string() + ": "));
    EXPECT_THAT(read.error().message(), HasSubstr(said)) << text;
  };
  for (const WrongFile& each : std::initializer_list<WrongFile>{
           {"", "describes no ensemble"},
           {"{", "describes no ensemble"},
           {"[]", "describes no ensemble"},
           {R"({"format": "other", "version": 1})", "describes no ensemble"},
           {R"({"format": "omnivore-ensemble", "version": 2})", "it knows 1"},
           {R"({"format": "omnivore-ensemble"})", "it knows 1"},
           {R"({"format": "omnivore-ensemble", "version": 1})", "lacks the list 'members'"}})
    refused(each.text, each.said);
  for (const WrongFile& each : std::initializer_list<WrongFile>{
           {"[]", "has no members"},
           {"[3]", "member 1: is no object"},
           {"[{}]", "member 1: lacks 'name'"},
           {R"([{"name": 3}])", "member 1: 'name' is '3'"},
           {R"([{"name": "a"}])", "lacks 'net'"},
           {R"([{"name": "a", "net": "b", "options": [1]}])", "'options' is '[1]'"},
           {R"([{"name": "a", "net": "b", "options": [], "state": "dead"}])", "'state' is"},
           {R"([{"name": "a", "net": "b", "options": [], "state": "running", "iteration": -1}])",
            "'iteration' is '-1'"}})
    refused(begin + each.text + "}", each.said);
  refused(begin + "[{" + good + R"(, "loss": "x"}]})", "'loss' is");
  refused(begin + "[{" + good + R"(, "accuracy": 1.5}]})", "'accuracy' is '1.5'");
  refused(begin + "[{" + good + "}, {" + good + "}]}", "two members 'a'");
  test::put(folder / "ensemble.json", begin + "[{" + good + "}]}");
  EXPECT_TRUE(read_ensemble(folder.path()));
}

TEST(EnsembleFolder, what_is_not_there_is_usage) {
  const test::TemporaryDirectory folder;
  for (const auto& [path, said] :
       {std::pair{folder.path(), "holds no ensemble.json"}, {folder / "none", "no such folder"}}) {
    const auto read = read_ensemble(path);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().kind, ErrorKind::usage);
    EXPECT_THAT(read.error().message(), HasSubstr(said));
  }
}

}  // namespace
}  // namespace omni
