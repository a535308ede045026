// omni-run valid: loss and accuracy of given weights on the test set.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/omni-run/commands.hpp"
#include "apps/omni-run/load_parameters.hpp"
#include "apps/omni-run/memory/demand.hpp"
#include "apps/omni-run/open_net.hpp"
#include "apps/omni-run/setup.hpp"
#include "apps/omni-run/tracing.hpp"
#include "runtime/log.hpp"
#include "runtime/shown_name.hpp"
#include "scheduling/evaluator.hpp"

namespace omni {

Status valid_command(const ValidArguments& arguments) {
  OMNI_TRY(const auto net, open_net(arguments.net, false));
  if (!net->layers().back()->is_loss())
    return Error{ErrorKind::usage, net->name(), "the last layer computes no loss",
                 "end the net with [softmax]"};
  OMNI_TRY(const DatasetPair data, open_data(arguments.data, *net));
  OMNI_TRY(const Session session, start_session(arguments.machine));
  DataFeed test(*data.test, feed_options(*net, arguments.data.seed, false, kEvaluationSlots));
  OMNI_CHECK(
      MemoryForecast(*net, evaluation_demand(*net, &test, working_on_gpus(*net)), arguments.machine)
          .require());
  OMNI_CHECK(net->allocate());
  OMNI_CHECK(load_parameters(*net, arguments.weights));
  OMNI_CHECK(test.allocate());
  OMNI_TRY(const auto recorder, start_trace(arguments.trace, session, *net));
  OMNI_TRY(const Tally tally, evaluate(*net, test, arguments.data.seed));
  if (!std::isfinite(tally.mean_loss()))
    return Error{ErrorKind::diverged, arguments.weights, "the test loss is not a finite number",
                 "are these the weights of this net?"};
  if (arguments.common.json)
    log::result("{}\n",
                json_text(nlohmann::ordered_json{{"net", net->name()},
                                                 {"data", data.name},
                                                 {"images", tally.images},
                                                 {"test_loss", tally.mean_loss()},
                                                 {"test_accuracy", tally.accuracy()},
                                                 {"test_top5_accuracy", tally.top5_accuracy()}}));
  else
    log::result("test loss {:.4f}, test accuracy {:.2f} % (top 5: {:.2f} %) on {:.0f} images\n",
                tally.mean_loss(), 100 * tally.accuracy(), 100 * tally.top5_accuracy(),
                tally.images);
  return {};
}

}  // namespace omni
