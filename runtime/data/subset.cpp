#include "runtime/data/subset.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/rng.hpp"

namespace omni {
namespace {

// Counts the samples of a class that are not decided on yet, and how many of them are to be chosen.
struct Remaining {
  std::size_t samples = 0, wanted = 0;
  Draws draws;

  // Decides on the next sample. Every choice of `wanted` among `samples` is equally likely.
  bool takes_next() {
    const bool taken = draws.below(static_cast<std::uint32_t>(samples)) < wanted;
    --samples;
    wanted -= taken ? 1 : 0;
    return taken;
  }
};

}  // namespace

Status hold_out(DatasetPair& pair, double share, std::uint64_t seed) {
  const std::shared_ptr<Dataset> all = std::move(pair.train);
  const std::string option = fmt::format("--hold-out {}", share);
  if (all->size() > UINT32_MAX)
    return Error{ErrorKind::usage, option, "there are more than 2^32 samples", "give a test set"};
  const Philox philox(seed, RandomStream::hold_out);
  std::map<int, Remaining> classes;
  for (std::size_t i = 0; i < all->size(); ++i) {
    const int label = all->label(i);
    const Remaining none{.draws = Draws(philox, static_cast<std::uint64_t>(label))};
    ++classes.try_emplace(label, none).first->second.samples;
  }
  for (auto& [label, each] : classes)
    if (each.samples > 1)
      each.wanted = std::clamp<std::size_t>(std::llround(share * static_cast<double>(each.samples)),
                                            1, each.samples - 1);

  std::vector<std::size_t> stay, moved;
  for (std::size_t i = 0; i < all->size(); ++i)
    (classes.find(all->label(i))->second.takes_next() ? moved : stay).push_back(i);
  if (moved.empty())
    return Error{ErrorKind::usage, option, "no class has two samples, one to train on, one to test",
                 "give more samples"};
  const std::string parts =
      fmt::format("{} to train on, {} held out to test", stay.size(), moved.size());
  pair.train = std::make_unique<Subset>(all, std::move(stay), parts, true);
  pair.test = std::make_unique<Subset>(all, std::move(moved), parts, false);
  // The name has share and seed, because a training that resumes with others would be tested on
  // samples that it has learned.
  pair.name += fmt::format("#hold-out={},seed={}", share, seed);
  return {};
}

}  // namespace omni
