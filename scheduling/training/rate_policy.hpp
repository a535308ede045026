// These functions compute the learning rate of an iteration. They have Darknet's policies with
// burn-in, and AlexeyAB's policy sgdr.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "layers/solver_options.hpp"

namespace omni {

// `iteration` counts from 1 because in Darknet one mini-batch is already counted at the first
// update.
float learning_rate(const SolverOptions& solver, std::uint64_t seed, std::uint64_t iteration);

// A rate below kLeastRate is 0 or denormal, and nothing is learned. A rate below kLeastShare of
// learning_rate teaches almost nothing, as steps are lost in rounding.
inline constexpr float kLeastRate = std::numeric_limits<float>::min(), kLeastShare = 1e-8f;
inline bool has_vanished(float rate) { return rate < kLeastRate; }

// Returns the solver for a training of `iterations` iterations. Policy poly then ends with the
// training, and so does sgdr without sgdr_cycle.
SolverOptions for_length(SolverOptions solver, std::uint64_t iterations);
bool follows_length(const SolverOptions& solver);

// Returns the iteration from which on the rate is below `least`. Returns nothing if the training
// ends before it, if the learning rate itself is below `least`, and for the policies constant,
// poly, random and sgdr.
std::optional<std::uint64_t> vanishes_at(const SolverOptions& solver, std::uint64_t seed,
                                         std::uint64_t iterations, float least = kLeastRate);

// An UnsuitedKey is a key of [net] that counts iterations and does not suit the training's length.
struct UnsuitedKey {
  std::string key, value{};
  bool late = false;     // the training ends before one of the key's iterations
  std::string better{};  // the value scaled to the training's length; "": not known
};
// Returns the keys that do not suit the length. `designed` is the length in iterations that the net
// file states; 0 means that it states none.
std::vector<UnsuitedKey> unsuited_keys(const SolverOptions& solver, std::uint64_t iterations,
                                       std::uint64_t designed);

}  // namespace omni
