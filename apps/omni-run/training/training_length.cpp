// The steps of TrainCommand that decide the length of the training and check its learning rate.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/omni-run/training/training.hpp"
#include "runtime/log.hpp"
#include "scheduling/training/rate_policy.hpp"

namespace omni {

// Returns the number of updates: by --epochs if given, otherwise the net's max_batches.
std::uint64_t TrainCommand::planned_iterations() const {
  const std::uint64_t max_batches = spec_.solver.max_batches;
  if (!arguments_.epochs) return max_batches;
  const auto iterations = static_cast<std::uint64_t>(std::ceil(
      *arguments_.epochs * static_cast<double>(data_.train->size()) / spec_.options.batch));
  const bool limited =
      max_batches != 0 && arguments_.net.sets("max_batches", arguments_.net.named.max_batches);
  return limited ? std::min(iterations, max_batches) : iterations;
}

Status TrainCommand::check_schedule() const {
  if (iterations_ == 0) {
    log::warn(
        "neither --epochs nor max_batches says how long this training is: it goes on until it is "
        "stopped (--epochs 10, say)");
    return {};
  }
  const SolverOptions& solver = spec_.solver;
  if (const auto from = vanishes_at(solver, seed_, iterations_))
    return Error{ErrorKind::usage, spec_.place_of("policy"),
                 fmt::format("the learning rate is 0 from iteration {} of {} on: nothing is "
                             "learned then",
                             *from, iterations_),
                 *from > 1 ? fmt::format("--max-batches {} ends before; --policy poly falls as the "
                                         "training goes on",
                                         *from - 1)
                           : "--policy poly falls as the training goes on"};
  constexpr std::uint64_t kTail = 20;  // in the last 1 / kTail of the training the rate may vanish
  if (const auto from = vanishes_at(solver, seed_, iterations_, kLeastShare * solver.learning_rate);
      from && iterations_ - *from > iterations_ / kTail)
    log::warn(
        "{}: from iteration {} of {} on the learning rate is less than {:g} of learning_rate, so "
        "next to nothing is learned (--max-batches {} ends before)",
        spec_.place_of("policy"), *from, iterations_, kLeastShare, *from - 1);
  for (const UnsuitedKey& unsuited : unsuited_keys(solver, iterations_, spec_.designed_length)) {
    const std::string text = fmt::format(
        "{}: {}={} {} {} iterations{}", spec_.place_of(unsuited.key), unsuited.key, unsuited.value,
        unsuited.late ? "goes beyond this training of" : "is early in this training of",
        iterations_,
        unsuited.better.empty()
            ? ""
            : fmt::format(" (--set {}={} would be the same share of it as in the "
                          "net)",
                          unsuited.key, unsuited.better));
    // Only --epochs makes this a warning: a user who sets max_batches knows the other keys.
    if (unsuited.late && arguments_.epochs)
      log::warn("{}", text);
    else
      log::info("{}", text);
  }
  return {};
}

void TrainCommand::warn_about_new_length(std::uint64_t resumed_at) const {
  std::uint64_t before = saved_length(*checkpoint_);
  if (before == 0) before = spec_.designed_length;  // older versions used it for the schedule
  if (before == 0 || before == iterations_ || !follows_length(spec_.solver)) return;
  log::warn(
      "the schedule of the learning rate now ends at iteration {}; up to {} it was that of a "
      "training of {}",
      iterations_, resumed_at, before);
}

}  // namespace omni
