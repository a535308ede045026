#include "apps/omni-run/training/training_length.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/log.hpp"
#include "scheduling/training/rate_policy.hpp"

namespace omni {
namespace {

// Returns a hint with a value that suits the length, or "" if no such value is known. Not every
// format has burn_in.
std::string better_of(const UnsuitedKey& unsuited, const TrainableNet& net) {
  if (unsuited.better.empty()) return "";
  const std::string option =
      unsuited.key == "burn_in"
          ? "--burn-in " + unsuited.better
          : fmt::format("--set {}={}", net.written_as(unsuited.key), unsuited.better);
  return fmt::format(" ({} would be the same share of it as in the net)", option);
}

}  // namespace

std::uint64_t planned_iterations(const TrainArguments& arguments, const TrainableNet& net,
                                 std::size_t images) {
  const std::uint64_t max_batches = net.solver.max_batches;
  if (!arguments.epochs) return max_batches;
  const auto iterations = static_cast<std::uint64_t>(
      std::ceil(*arguments.epochs * static_cast<double>(images) / net.options.batch));
  const bool limited = max_batches != 0 && net.commanded.contains("max_batches");
  return limited ? std::min(iterations, max_batches) : iterations;
}

Status check_schedule(const TrainableNet& net, std::uint64_t seed, std::uint64_t iterations,
                      bool by_epochs) {
  if (iterations == 0) {
    log::warn(
        "neither --epochs nor {} says how long this training is: it goes on until it is stopped "
        "(--epochs 10, say)",
        net.written_as("max_batches"));
    return {};
  }
  const SolverOptions& solver = net.solver;
  if (const auto from = vanishes_at(solver, seed, iterations))
    return Error{ErrorKind::usage, net.place_of("policy"),
                 fmt::format("the learning rate is 0 from iteration {} of {} on: nothing is "
                             "learned then",
                             *from, iterations),
                 *from > 1 ? fmt::format("--max-batches {} ends before; --policy poly falls as the "
                                         "training goes on",
                                         *from - 1)
                           : "--policy poly falls as the training goes on"};
  constexpr std::uint64_t kTail = 20;  // in the last 1 / kTail of the training the rate may vanish
  if (const auto from = vanishes_at(solver, seed, iterations, kLeastShare * solver.learning_rate);
      from && iterations - *from > iterations / kTail)
    log::warn(
        "{}: from iteration {} of {} on the learning rate is less than {:g} of {}, so next to "
        "nothing is learned (--max-batches {} ends before)",
        net.place_of("policy"), *from, iterations, kLeastShare, net.written_as("learning_rate"),
        *from - 1);
  for (const UnsuitedKey& unsuited : unsuited_keys(solver, iterations, net.designed_length)) {
    const std::string text =
        fmt::format("{}: {}={} {} {} iterations{}", net.place_of(unsuited.key),
                    net.written_as(unsuited.key), unsuited.value,
                    unsuited.late ? "goes beyond this training of" : "is early in this training of",
                    iterations, better_of(unsuited, net));
    // Only --epochs makes this a warning: who sets max_batches sees the other keys of the solver.
    if (unsuited.late && by_epochs)
      log::warn("{}", text);
    else
      log::info("{}", text);
  }
  return {};
}

void warn_about_new_length(const TrainableNet& net, std::uint64_t before, std::uint64_t iterations,
                           std::uint64_t resumed_at) {
  if (before == 0) before = net.designed_length;  // older versions used it for the schedule
  if (before == 0 || before == iterations || !follows_length(net.solver)) return;
  log::warn(
      "the schedule of the learning rate now ends at iteration {}; up to {} it was that of a "
      "training of {}",
      iterations, resumed_at, before);
}

}  // namespace omni
