// These tests check which trace files omni-perf refuses, and with which message and exit code.
#include <gtest/gtest.h>

#include "tests/support/hand_trace.hpp"
#include "tests/support/omni_perf.hpp"
#include "tests/support/temporary_directory.hpp"

namespace omni::test {
namespace {

const std::string kHeader =
    R"({"omnivore_trace":1,"rank":0,"started":0,"host":"h","net":"n","batch":1})"
    "\n";
const std::string kWorker = R"({"worker":0,"name":"CPU 0","kind":"CPU","node":0})"
                            "\n";
const std::string kCodelet = R"({"codelet":0,"name":"c","color":0,"implementations":["i"]})"
                             "\n";
const std::string kData = R"({"data":0,"name":"d","bytes":8})"
                          "\n";
const std::string kHead = kHeader + kWorker + kCodelet + kData;  // four lines
const std::string kTruncated =
    " (truncated? copy it again, or rename it to .jsonl.part to read what is there)";

// Returns line 5 of a trace, which is a task, with one key replaced or added.
std::string task(const std::string& from = "", const std::string& to = "") {
  std::string line =
      R"({"task":0,"codelet":0,"impl":0,"worker":0,"times":[0,0,0,0,0,0,0,9,9],"reads":[0]})";
  if (!from.empty()) line.replace(line.find(from), from.size(), to);
  return kHead + line + "\n";
}

std::string end(int tasks) { return R"({"end":9,"tasks":)" + std::to_string(tasks) + "}\n"; }

struct Hostile {
  const char* name;
  std::string contents;
  std::string message;  // after the path
};

class HostileTrace : public testing::TestWithParam<Hostile> {};

TEST_P(HostileTrace, IsRefusedWithAReason) {
  const TemporaryDirectory folder;
  const std::string path = folder / "rank-0.jsonl";
  put(path, GetParam().contents);
  const Finished run = omni_perf({"summary", folder.path()});
  EXPECT_EQ(run.errors, "error: " + path + GetParam().message + "\n");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_EQ(run.output, "");
}

constexpr const char* kForeign = ": is no Omnivore trace (omni-run --trace FOLDER writes one)";

INSTANTIATE_TEST_SUITE_P(
    All, HostileTrace,
    testing::Values(
        Hostile{"Empty", "", kForeign}, Hostile{"EmptyLine", "\n", kForeign},
        Hostile{"Binary",
                std::string("\0\x7f"
                            "ELF\n\xff\xfe",
                            8),
                kForeign},
        Hostile{"OtherJson",
                R"({"traceEvents":[]})"
                "\n",
                kForeign},
        Hostile{"JsonList", "[1,2]\n", kForeign},
        Hostile{"HugeFirstLine", std::string(3U << 20, 'x'), kForeign},
        Hostile{"NoHeader", kWorker + kHeader, kForeign},
        Hostile{"NewerVersion",
                R"({"omnivore_trace":2,"rank":"new"})"
                "\n",
                ":1: 'omnivore_trace' is 2: a newer version of Omnivore wrote this; this one "
                "reads 1"},
        Hostile{"NegativeVersion",
                R"({"omnivore_trace":-1})"
                "\n",
                ":1: 'omnivore_trace' is -1, which is not within 1 and 2147483647"},
        Hostile{"HeaderWithoutRank",
                R"({"omnivore_trace":1,"started":0})"
                "\n",
                ":1: 'rank' is missing"},
        Hostile{"SecondHeader", kHeader + kHeader, ":2: a second header"},
        Hostile{"CutHeader", kHeader.substr(0, 30), ":1: is no line of JSON"},
        Hostile{"OnlyHeader", kHeader, ":1: the last record is missing" + kTruncated},
        Hostile{"CutLine", task().substr(0, task().size() - 20),
                ":5: the line is cut off" + kTruncated},
        Hostile{"NoEnd", task(), ":5: the last record is missing" + kTruncated},
        Hostile{"LostTasks", task() + end(2),
                ":6: 1 tasks, but the last record counts 2" + kTruncated},
        Hostile{"AfterTheEnd", task() + end(1) + kData,
                ":7: something follows the last record" + kTruncated},
        Hostile{"LongLine", kHead + std::string(2U << 20, ' ') + "\n",
                ":5: the line is longer than 1048576 bytes"},
        Hostile{"NoJson", kHead + "{]\n", ":5: is no line of JSON"},
        Hostile{"TwoObjects", kHead + "{\"data\":9,\"name\":\"\"} {}\n",
                ":5: goes on after its JSON object"},
        Hostile{"NoUtf8", kHead + "{\"data\":9,\"name\":\"\xff\"}\n", ":5: is no line of JSON"},
        Hostile{"NoTimes", task("\"times\":[0,0,0,0,0,0,0,9,9],"), ":5: 'times' is missing"},
        Hostile{"EightTimes", task(",9,9]", ",9]"), ":5: 'times' does not hold nine times"},
        Hostile{"TenTimes", task(",9,9]", ",9,9,9]"), ":5: 'times' does not hold nine times"},
        Hostile{"TimesGoBack", task(",9,9]", ",9,8]"), ":5: 'times' goes back in time from 9 to 8"},
        Hostile{"NegativeTime", task("[0,", "[-1,"),
                ":5: 'times' is -1, which is not within 0 and 100000000000000000"},
        Hostile{"AbsurdTime", task(",9,9]", ",9,1000000000000000000]"),
                ":5: 'times' is 1000000000000000000, which is not within 0 and "
                "100000000000000000"},
        Hostile{"OverflowingTime", task(",9,9]", ",9,99999999999999999999]"),
                ":5: 'times' is no whole number"},
        Hostile{"TextForTimes", task("[0,0,0,0,0,0,0,9,9]", "\"soon\""), ":5: 'times' is no list"},
        Hostile{"NaN", task("[0,0,", "[NaN,0,"), ":5: 'times' is no whole number"},
        Hostile{"FractionalId", task("\"task\":0", "\"task\":0.5"),
                ":5: 'task' is no whole number"},
        Hostile{"InfiniteFlops", task("\"reads\"", "\"flops\":1e999,\"reads\""),
                ":5: 'flops' is no number"},
        Hostile{"NegativeFlops", task("\"reads\"", "\"flops\":-1,\"reads\""),
                ":5: 'flops' is -1, which is not within 0 and 1e+24"},
        Hostile{"NearlyNull", task("\"reads\"", "\"predicted\":nu/ll,\"reads\""),
                ":5: 'predicted' is no number"},
        Hostile{"KeyTwice", task("\"reads\"", "\"task\":1,\"reads\""), ":5: 'task' is there twice"},
        Hostile{"UnknownCodelet", task("\"codelet\":0", "\"codelet\":1"),
                ":5: there is no codelet 1 above"},
        Hostile{"UnknownImplementation", task("\"impl\":0", "\"impl\":1"),
                ":5: codelet 0 has no implementation 1"},
        Hostile{"UnknownWorker", task("\"worker\":0", "\"worker\":1"),
                ":5: there is no worker 1 above"},
        Hostile{"UnknownEligible", task("\"reads\"", "\"eligible\":0,\"reads\""),
                ":5: there is no set of eligible workers 0 above"},
        Hostile{"EligibleTwice",
                kHead + "{\"eligible\":0,\"workers\":[0]}\n{\"eligible\":0,\"workers\":[0]}\n",
                ":6: set of eligible workers 0 is there twice"},
        Hostile{"UnknownEligibleWorker", kHead + "{\"eligible\":0,\"workers\":[1]}\n",
                ":5: there is no worker 1 above"},
        Hostile{"UnknownLayer", task("\"reads\"", "\"layer\":0,\"reads\""),
                ":5: there is no layer 0 above"},
        Hostile{"UnknownData", task("[0]}", "[0,1]}"), ":5: there is no data 1 above"},
        Hostile{"GiganticId", task("[0]}", "[4294967295]}"),
                ":5: 'reads' is 4294967295, which is not within 0 and 16777215"},
        Hostile{"GiganticLayer", kHead + "{\"layer\":99999999,\"type\":\"t\"}\n",
                ":5: 'layer' is 99999999, which is not within 0 and 65535"},
        Hostile{"WorkerTwice", kHead + kWorker, ":5: worker 0 is there twice"},
        Hostile{"CodeletTwice", kHead + kCodelet, ":5: codelet 0 is there twice"},
        Hostile{"DataTwice", kHead + kData, ":5: data 0 is there twice"},
        Hostile{"TaskTwice", task() + task().substr(kHead.size()) + end(2),
                ": task 0 is there twice"},
        Hostile{"IterationTwice",
                kHead + "{\"iteration\":0,\"at\":1}\n{\"iteration\":1,\"at\":2}\n"
                        "{\"iteration\":0,\"at\":3}\n",
                ":7: iteration 0 is there twice"},
        Hostile{"LongName", kHead + R"({"data":9,"name":")" + std::string(5000, 'x') + "\"}\n",
                ":5: 'name' is longer than 4096 bytes"},
        Hostile{"WaitEndsBeforeItStarts", kHead + "{\"wait\":\"all\",\"from\":5,\"to\":4}\n",
                ":5: ends at 4, before it starts at 5"},
        Hostile{"UnknownWait", kHead + "{\"wait\":\"some\",\"from\":5,\"to\":6}\n",
                ":5: 'wait' is neither 'all' nor 'data'"}),
    [](const auto& hostile) { return std::string(hostile.param.name); });

TEST(HostileFolder, IsRefusedWithAReason) {
  const auto refused = [](const std::filesystem::path& path, const std::string& message,
                          int exit_code = 3) {
    const Finished run = omni_perf({"idle", path});
    EXPECT_EQ(run.exit_code, exit_code);
    EXPECT_EQ(run.errors, "error: " + message + "\n");
  };
  const TemporaryDirectory folder;
  const std::string name = folder.path();
  refused(folder.path(), name + ": holds no rank-<n>.jsonl (omni-run --trace FOLDER writes one)");
  refused(folder / "missing",
          name +
              "/missing: cannot open: No such file or directory (check the path and its "
              "permissions)",
          2);
  put(folder / "rank-3.jsonl", task() + end(1));
  refused(folder.path(),
          name + "/rank-3.jsonl:1: holds rank 0 (renamed? a file is called after its rank)");
  std::filesystem::rename(folder / "rank-3.jsonl", folder / "rank-0.jsonl");
  put(folder / "rank-0.jsonl.part", task());
  refused(folder.path(), name +
                             ": holds rank 0 twice, of an ended and of a killed run (remove "
                             "one of the two files)");
  std::filesystem::remove(folder / "rank-0.jsonl.part");
  HandTrace later(1, 1, 1e6);
  put(folder / "rank-1.jsonl", later.text());
  refused(folder.path(), name +
                             ": rank 1 started 278 hours after another one (of different "
                             "runs? read one file by its name)");
  std::filesystem::create_directory(folder / "rank-1.jsonl.d");
  EXPECT_EQ(omni_perf({"idle", folder / "rank-1.jsonl"}).exit_code, 0);
}

// 60,000 tasks add to one piece of data, then 60,000 tasks read it, then one task writes it. These
// are 3.6e9 dependent pairs.
#ifdef __SANITIZE_ADDRESS__
constexpr unsigned kMostMemory = 2000U << 20;  // the sanitizer keeps what was freed
#else
constexpr unsigned kMostMemory = 500U << 20;
#endif

TEST(HostileFolder, ManyWaitForMany) {
  constexpr int kMany = 60'000;
  const TemporaryDirectory folder;
  std::string contents = kHead;
  for (int i = 0; i <= 2 * kMany; ++i)
    contents += R"({"task":)" + std::to_string(i) +
                R"(,"codelet":0,"impl":0,"worker":0,"times":[0,0,0,0,0,0,)" + std::to_string(i) +
                "," + std::to_string(i + 1) + "," + std::to_string(i + 1) + "],\"" +
                (i < kMany       ? "adds"
                 : i < 2 * kMany ? "reads"
                                 : "writes") +
                "\":[0]}\n";
  put(folder / "rank-0.jsonl", contents + end(2 * kMany + 1));
  for (const std::vector<std::string>& command : {std::vector<std::string>{"bounds"},
                                                  {"critical-path"},
                                                  {"report", "--html", folder / "page.html"},
                                                  {"export", "--chrome", folder / "chrome.json"}}) {
    std::vector<std::string> words = command;
    words.push_back(folder.path());
    const Finished run = omni_perf(words);
    EXPECT_EQ(run.exit_code, 0) << command[0] << run.errors;
    EXPECT_LT(run.most_memory, kMostMemory) << command[0];
  }
}

// Names contain control characters of one byte, and those of two bytes in UTF-8.
TEST(HostileFolder, NamesCannotReachTheTerminal) {
  const TemporaryDirectory folder;
  std::string contents = task("\"reads\"", "\"writes\"") + end(1);
  for (std::size_t at = 0; (at = contents.find("\"name\":\"", at)) != contents.npos;)
    contents.insert(at += 8, "\\u001b[2J\\u009b2J\\nerror\\u00e4");
  put(folder / "rank-0.jsonl", contents);
  std::vector<std::vector<std::string>> commands{{"report", "--html", folder / "page.html"},
                                                 {"export", "--chrome", folder / "chrome.json"},
                                                 {"diff", folder.path()}};
  for (const char* name : {"summary", "idle", "kernels", "critical-path", "bounds", "roofline",
                           "models", "transfers", "async", "memory"})
    for (const char* form : {"", "--csv", "--json"})
      commands.push_back({name, *form ? form : name});
  for (std::vector<std::string>& words : commands) {
    if (words.size() == 2 && words[0] == words[1]) words.pop_back();
    words.push_back(folder.path());
    const Finished run = omni_perf(words);
    EXPECT_EQ(run.exit_code, 0) << words[0] << run.errors;
    for (const std::string& text : {run.output, run.errors}) {
      EXPECT_EQ(text.find('\x1b'), text.npos) << words[0];
      EXPECT_EQ(text.find("\xc2\x9b"), text.npos) << words[0];
      EXPECT_EQ(text.find("\nerror"), text.npos) << words[0];
    }
  }
  for (const char* file : {"page.html", "chrome.json"})
    EXPECT_EQ(get(folder / file).find("\xc2\x9b"), std::string::npos) << file;
  const Finished run = omni_perf({"idle", folder.path()});
  EXPECT_NE(run.output.find("\\x1b[2J\\xc2\\x9b2J\\x0aerror\xc3\xa4"), run.output.npos)
      << run.output;
  EXPECT_EQ(omni_perf({"idle", folder / "\x1b[2J\xc2\x9b"}).errors.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace omni::test
