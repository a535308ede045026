// omni-run valid: loss and accuracy of given weights on the test set.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/commands/confusion.hpp"
#include "apps/omni-run/load_parameters.hpp"
#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/tracing.hpp"
#include "runtime/files.hpp"
#include "scheduling/evaluator.hpp"

namespace omni {

Status valid_command(const ValidArguments& arguments) {
  OMNI_TRY(const auto net, open_net(arguments.net, false));
  if (!net->layers().back()->is_loss())
    return Error{ErrorKind::usage, net->name(), "the last layer computes no loss",
                 "end the net with [softmax]"};
  OMNI_TRY(const DatasetPair data, open_data(arguments.data, *net));
  OMNI_TRY(const ClassNames names, ClassNames::read(arguments.names, data.test.get(), *net));
  std::optional<AtomicFile> csv;  // tried before anything is computed
  if (!arguments.per_class_csv.empty()) {
    OMNI_TRY(AtomicFile file, AtomicFile::create(arguments.per_class_csv));
    csv.emplace(std::move(file));
  }
  OMNI_TRY(const Session session, start_session(arguments.machine));
  DataFeed test(*data.test, feed_options(*net, arguments.data.seed, false, kEvaluationSlots));
  OMNI_CHECK(
      MemoryForecast(*net, evaluation_demand(*net, &test, working_on_gpus(*net)), arguments.machine)
          .require());
  OMNI_CHECK(net->allocate());
  OMNI_CHECK(load_parameters(*net, arguments.weights));
  OMNI_CHECK(test.allocate());
  OMNI_TRY(const auto recorder, start_trace(arguments.trace, session, *net));
  Tally tally;
  Confusion confusion(static_cast<std::size_t>(net->classes()), names);
  if (arguments.per_class || csv) {
    const auto count = [&](std::size_t index, std::span<const float> outputs) -> Status {
      OMNI_TRY(const auto said, likeliest(outputs, 1, arguments.weights));
      confusion.add(static_cast<std::size_t>(data.test->label(index)), said.front());
      return {};
    };
    OMNI_CHECK(evaluate_each(*net, test, arguments.data.seed, count, &tally));
  } else {
    OMNI_TRY(tally, evaluate(*net, test, arguments.data.seed));
  }
  if (!std::isfinite(tally.mean_loss()))
    return Error{ErrorKind::diverged, arguments.weights, "the test loss is not a finite number",
                 "are these the weights of this net?"};
  if (csv) {
    OMNI_CHECK(csv->write(confusion.csv()));
    OMNI_CHECK(csv->commit());
  }
  if (!arguments.common.json) {
    fmt::print("test loss {:.4f}, test accuracy {:.2f} % (top 5: {:.2f} %) on {:.0f} images\n",
               tally.mean_loss(), 100 * tally.accuracy(), 100 * tally.top5_accuracy(),
               tally.images);
    if (arguments.per_class) fmt::print("{}", confusion.text());
    return {};
  }
  nlohmann::ordered_json object{{"net", net->name()},
                                {"data", data.name},
                                {"images", tally.images},
                                {"test_loss", tally.mean_loss()},
                                {"test_accuracy", tally.accuracy()},
                                {"test_top5_accuracy", tally.top5_accuracy()}};
  if (arguments.per_class) object["per_class"] = confusion.json();
  fmt::print("{}\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return {};
}

}  // namespace omni
