// omni-run valid: loss and accuracy of given weights on the test set.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/omni-perf/document.hpp"
#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/progress.hpp"
#include "apps/omni-run/setup.hpp"
#include "runtime/files.hpp"
#include "runtime/log.hpp"
#include "runtime/shortest_decimal.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/evaluator.hpp"

namespace omni {
namespace {

// How often each class was taken for which.
class Confusion {
 public:
  explicit Confusion(std::vector<std::string> names) : names_(std::move(names)) {}

  void add(std::size_t truth, std::size_t said) { ++rows_[truth][said]; }

  std::string text() const {
    constexpr std::size_t kMostColumns = 20;  // that a terminal shows
    std::string text = "class  images   correct";
    for (std::size_t said = 0; said < columns(kMostColumns); ++said)
      text += fmt::format(" {:5}", said);
    for (const auto& [truth, row] : rows_) {
      const double share = static_cast<double>(times(row, truth)) / static_cast<double>(all(row));
      text += fmt::format("\n{:5} {:7} {:7.2f} %", truth, all(row), 100 * share);
      for (std::size_t said = 0; said < columns(kMostColumns); ++said)
        text += fmt::format(" {:5}", times(row, said));
      text += "  " + one_line(names_[truth]);
    }
    return text + "\n";
  }
  nlohmann::ordered_json json() const {
    nlohmann::ordered_json classes = nlohmann::json::array();
    for (const auto& [truth, row] : rows_) {
      classes.push_back({{"index", truth}, {"name", names_[truth]}, {"images", all(row)}});
      classes.back()["correct"] = times(row, truth);
      for (const auto& [said, count] : row) classes.back()["said"][std::to_string(said)] = count;
    }
    return classes;
  }
  std::string csv() const {
    std::string text = "class";
    for (const std::string& name : names_) text += "," + perf::csv_field(name);
    for (const auto& [truth, row] : rows_) {
      text += "\n" + perf::csv_field(names_[truth]);
      for (std::size_t said = 0; said < names_.size(); ++said)
        text += fmt::format(",{}", times(row, said));
    }
    return text + "\n";
  }

 private:
  using Row = std::map<std::size_t, std::uint64_t>;
  static std::uint64_t times(const Row& row, std::size_t said) {
    const auto found = row.find(said);
    return found == row.end() ? 0 : found->second;
  }
  static std::uint64_t all(const Row& row) {
    std::uint64_t images = 0;
    for (const auto& [said, count] : row) images += count;
    return images;
  }
  std::size_t columns(std::size_t most) const { return names_.size() > most ? 0 : names_.size(); }
  std::vector<std::string> names_;
  std::map<std::size_t, Row> rows_;  // of classes that have images
};

}  // namespace

Status valid_command(const ValidArguments& arguments) {
  OMNI_TRY(const auto net, open_net(arguments.net, false));
  if (!net->layers().back()->is_loss())
    return Error{ErrorKind::usage, net->name(), "the last layer computes no loss",
                 "end the net with [softmax]"};
  OMNI_TRY(const DatasetPair data, open_data(arguments.data, *net));
  OMNI_TRY(auto names, class_names(arguments.names, data.test.get(), *net));
  Confusion confusion(std::move(names));
  const bool csv = !arguments.per_class_csv.empty();
  if (csv) OMNI_CHECK(try_writing(arguments.per_class_csv, 0));  // before anything is computed
  OMNI_TRY(const Session session, start_session(arguments.machine));
  DataFeed test(*data.test, feed_options(*net, arguments.data.seed, false, kEvaluationSlots));
  OMNI_CHECK(
      MemoryForecast(*net, evaluation_demand(*net, &test, working_on_gpus(*net)), arguments.machine)
          .require());
  OMNI_CHECK(net->allocate());
  OMNI_CHECK(load_parameters(*net, arguments.weights));
  OMNI_CHECK(test.allocate());
  OMNI_TRY(const auto recorder, start_trace(arguments.trace, session, *net));
  const auto count = [&](std::size_t index, std::span<const float> outputs) -> Status {
    OMNI_TRY(const auto said, likeliest(outputs, 1, arguments.weights));
    confusion.add(static_cast<std::size_t>(data.test->label(index)), said.front());
    return {};
  };
  OMNI_TRY(const Tally tally, evaluate(*net, test, arguments.data.seed,
                                       arguments.per_class || csv ? count : UseOutputs()));
  if (!std::isfinite(tally.mean_loss()))
    return Error{ErrorKind::diverged, arguments.weights, "the test loss is not a finite number",
                 "are these the weights of this net?"};
  if (csv) OMNI_CHECK(write_file_atomically(arguments.per_class_csv, confusion.csv()));
  if (arguments.common.json) {
    nlohmann::ordered_json object{{"net", net->name()},
                                  {"data", data.name},
                                  {"images", tally.images},
                                  {"test_loss", shown_single(tally.mean_loss())},
                                  {"test_accuracy", shown_single(tally.accuracy())},
                                  {"test_top5_accuracy", shown_single(tally.top5_accuracy())}};
    if (arguments.per_class) object["per_class"] = confusion.json();
    log::result("{}\n", json_text(object));
  } else {
    log::result("{}\n{}", tested(tally, net->classes()),
                arguments.per_class ? confusion.text() : "");
  }
  return {};
}

}  // namespace omni
