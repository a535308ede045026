// The learning rate is a function of the iteration: Darknet's policies with burn-in, and AlexeyAB's
// sgdr.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "layers/solver_options.hpp"

namespace omni {

// `iteration` counts from 1: as in Darknet, one mini-batch is already seen at the first update.
float learning_rate(const SolverOptions& solver, std::uint64_t seed, std::uint64_t iteration);

// Below kLeastRate a rate is 0 or denormal, and nothing is learned. Below kLeastShare of
// learning_rate almost nothing is learned, as steps are lost in rounding.
inline constexpr float kLeastRate = std::numeric_limits<float>::min(), kLeastShare = 1e-8f;
inline bool has_vanished(float rate) { return rate < kLeastRate; }

// Returns the solver for a training of `iterations` iterations. The policies poly, and sgdr without
// sgdr_cycle, then end with the training.
SolverOptions for_length(SolverOptions solver, std::uint64_t iterations);
bool follows_length(const SolverOptions& solver);

// Returns the first iteration before the training's last from which on the rate is below `least`.
// None: the rate does not fall so low, is 0 from the start, or follows the training's length.
std::optional<std::uint64_t> vanishes_at(const SolverOptions& solver, std::uint64_t seed,
                                         std::uint64_t iterations, float least = kLeastRate);

// An UnsuitedKey is a key of [net] that counts iterations and does not suit the length of the
// training.
struct UnsuitedKey {
  std::string key, value{};
  bool late = false;     // the training ends before one of the key's iterations
  std::string better{};  // the value scaled to the training's length; "": not known
};
// `designed` is the length in iterations that the net file states; 0: it states none.
std::vector<UnsuitedKey> unsuited_keys(const SolverOptions& solver, std::uint64_t iterations,
                                       std::uint64_t designed);

}  // namespace omni
