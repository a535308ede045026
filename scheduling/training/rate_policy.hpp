// The learning rate as a function of the iteration: Darknet's policies with burn-in, and
// AlexeyAB's sgdr.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "layers/solver_options.hpp"

namespace omni {

// `iteration` counts from 1: like Darknet, the first update already sees one batch.
float learning_rate(const SolverOptions& solver, std::uint64_t seed, std::uint64_t iteration);

// Nothing is learned at a rate below: 0, or too small for normal numbers. Next to nothing at such a
// share of learning_rate, as rounding swallows the steps.
inline constexpr float kLeastRate = std::numeric_limits<float>::min(), kLeastShare = 1e-8f;
inline bool has_vanished(float rate) { return rate < kLeastRate; }

// The same solver in a training of so many iterations. poly, and sgdr without sgdr_cycle, end with
// the training.
SolverOptions for_length(SolverOptions solver, std::uint64_t iterations);
bool follows_length(const SolverOptions& solver);

// The iteration from which on the rate is below `least`, before the training's last one. None where
// it is to be 0 from the start, and where it follows the length.
std::optional<std::uint64_t> vanishes_at(const SolverOptions& solver, std::uint64_t seed,
                                         std::uint64_t iterations, float least = kLeastRate);

// A key of [net] that counts iterations, and was meant for another length.
struct UnsuitedKey {
  std::string key, value{};
  bool late = false;     // the training ends before, at least of one of several
  std::string better{};  // value in the same share of the training; "": not known
};
// `designed`: the length that the net itself says; 0: none.
std::vector<UnsuitedKey> unsuited_keys(const SolverOptions& solver, std::uint64_t iterations,
                                       std::uint64_t designed);

}  // namespace omni
