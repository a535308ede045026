// These tests write each kind of record as a line. It is valid JSON with the keys that records.hpp
// promises, whatever characters names contain.
#include "runtime/trace/records.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace omni::trace {
namespace {

using Json = nlohmann::json;

template <class Record>
Json line_of(const Record& record) {
  Buffer buffer;
  append(buffer, record);
  const std::string text(buffer.data(), buffer.size());
  EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
  return Json::parse(text);
}

TEST(TraceLines, definitions) {
  EXPECT_EQ(line_of(Header{.rank = 2,
                           .started = 1.5,
                           .host = "n1",
                           .command = "omni-run \"x\"",
                           .starpu = "1.4.10",
                           .scheduler = "eager",
                           .net = "lenet",
                           .batch = 64}),
            Json::parse(R"({"omnivore_trace":1,"rank":2,"started":1.5,"host":"n1",
                            "command":"omni-run \"x\"","starpu":"1.4.10","scheduler":"eager",
                            "net":"lenet","batch":64})"));
  EXPECT_EQ(line_of(Worker{1, "CPU 1", "CPU", 0}),
            Json::parse(R"({"worker":1,"name":"CPU 1","kind":"CPU","node":0})"));
  EXPECT_EQ(line_of(Codelet{3, "conv", 255, {"a", "b"}}),
            Json::parse(R"({"codelet":3,"name":"conv","color":255,"implementations":["a","b"]})"));
  EXPECT_EQ(line_of(Layer{4, "maxpool", "2x2/2"}),
            Json::parse(R"({"layer":4,"type":"maxpool","detail":"2x2/2"})"));
  EXPECT_EQ(line_of(Data{7, "weights", 400}),
            Json::parse(R"({"data":7,"name":"weights","bytes":400})"));
  EXPECT_EQ(line_of(Peak{"gemm", "CPU", 1e11, 2e11}),
            Json::parse(R"({"peak":"gemm","kind":"CPU","per_worker":1e11,"together":2e11})"));
}

TEST(TraceLines, events) {
  EXPECT_EQ(line_of(IterationStart{3, 1200}), Json::parse(R"({"iteration":3,"at":1200})"));
  EXPECT_EQ(line_of(Wait{true, 5, 9}), Json::parse(R"({"wait":"all","from":5,"to":9})"));
  EXPECT_EQ(line_of(Wait{false, 5, 9}), Json::parse(R"({"wait":"data","from":5,"to":9})"));
  EXPECT_EQ(
      line_of(Transfer{.from_node = 0, .to_node = 1, .bytes = 64, .count = 2, .from = 5, .to = 9}),
      Json::parse(R"({"transfer":64,"count":2,"from_node":0,"to_node":1,"from":5,"to":9})"));
  EXPECT_EQ(
      line_of(Transfer{.bytes = 64, .from = 5, .to = 9, .from_rank = 2}),
      Json::parse(
          R"({"transfer":64,"count":1,"from_rank":2,"from_node":0,"to_node":0,"from":5,"to":9})"));
  EXPECT_EQ(line_of(Exchange{.iteration = 3, .group = 1, .staleness = 2, .at = 8}),
            Json::parse(R"({"exchange":3,"group":1,"staleness":2,"at":8})"));
  EXPECT_EQ(line_of(Counter{"memory", 5, 1.5}),
            Json::parse(R"({"counter":"memory","at":5,"value":1.5})"));
  EXPECT_EQ(line_of(End{99, 12}), Json::parse(R"({"end":99,"tasks":12})"));
}

TEST(TraceLines, task) {
  const std::vector<Access> accesses{{1, AccessMode::read},   {2, AccessMode::write},
                                     {3, AccessMode::update}, {4, AccessMode::add},
                                     {5, AccessMode::read},   {6, AccessMode::add}};
  Task task;
  task.id = 5;
  task.codelet = 2;
  task.implementation = 1;
  task.worker = 3;
  task.times = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(line_of(task), Json::parse(R"({"task":5,"codelet":2,"impl":1,"worker":3,"group":0,
                                           "times":[1,2,3,4,5,6,7,8,9],"predicted":null,
                                           "flops":0,"bytes":0})"));
  task.layer = 6;
  task.slice = 7;
  task.group = 8;
  task.iteration = 9;
  task.predicted = 12.4;
  task.flops = 2e18;
  task.bytes = 90;
  task.accesses = accesses;
  EXPECT_EQ(line_of(task), Json::parse(R"({"task":5,"codelet":2,"impl":1,"worker":3,"layer":6,
                                           "slice":7,"group":8,"iteration":9,
                                           "times":[1,2,3,4,5,6,7,8,9],"predicted":12,
                                           "flops":2000000000000000000,"bytes":90,
                                           "reads":[1,5],"writes":[2],"updates":[3],
                                           "adds":[4,6]})"));
}

TEST(TraceLines, names_of_any_bytes_stay_one_valid_line) {
  EXPECT_EQ(line_of(Data{1, "a\"b\\c\nd\x01", 0})["name"], "a\"b\\c\nd\x01");
  EXPECT_EQ(line_of(Data{1, "Stra\xC3\x9F", 0})["name"], "Stra\xC3\x9F");
  EXPECT_EQ(line_of(Data{1, "bad\xFF", 0})["name"], "bad\xEF\xBF\xBD");
}

}  // namespace
}  // namespace omni::trace
