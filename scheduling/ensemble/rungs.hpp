// Rungs are numbers of iterations at which members of a sweep are compared, to decide which ones go
// on. The rule is asynchronous successive halving (Li et al. 2020), the median rule (Golovin et al.
// 2017), or a tournament. In a tournament losers continue from winners. Members are compared by
// their losses on the same images. A difference within its standard error does not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

// A LossExcess says by how much losses exceed other losses on the same images, on average, with its
// standard error. Losses that are not finite surely exceed all finite ones.
struct LossExcess {
  double mean = 0, error = 0;
  std::size_t images = 0;

  // Returns true if the mean is more than `errors` standard errors above 0. With several
  // comparisons the bound is higher. So all of them together are wrong about as seldom as a single
  // one.
  bool is_sure(double errors, std::size_t comparisons) const;
};
// Returns the mean of the losses; it is infinite if a loss is not finite.
double mean_loss(std::span<const float> losses);
// Returns the losses as JSON. Losses that are not finite become null.
nlohmann::json losses_json(std::span<const float> losses);
std::vector<float> losses_of(const nlohmann::json& list);  // all are numbers or null
LossExcess loss_excess(std::span<const float> losses, std::span<const float> others);

enum class StopRule {
  asha,    // rungs at first * eta^k: a member stays while it is among the best 1 / eta there
  median,  // rungs at first * k: a member stays while it is no worse than the median
};

struct RungOptions {
  StopRule rule = StopRule::asha;
  std::uint64_t first = 100;  // iterations before the first rung
  bool keeps_first = false;   // true: a saved state may have another first rung, which is kept
  int eta = 3;
  double errors = 2;  // standard errors that make a difference count
};

// A RungVerdict judges a member at the highest rung that enough members have reached.
struct RungVerdict {
  int member = 0;
  std::uint64_t iteration = 0;  // of the rung; 0: there is none yet
  std::size_t reached = 0;      // members that have reached the rung
  std::size_t better = 0;       // of these, with a lower mean loss
  int rival = -1;               // the member that it is compared with; -1: it is among the best
  LossExcess worse{};           // than the rival
  bool stops = false;

  bool operator==(const RungVerdict& other) const {
    return member == other.member && iteration == other.iteration && reached == other.reached &&
           better == other.better && rival == other.rival && stops == other.stops;
  }
};

class Rungs {
 public:
  static Result<Rungs> make(const RungOptions& options);

  // Returns the first rung after the iteration.
  std::uint64_t next(std::uint64_t iteration) const;

  // Call reach() when a member has reached a rung with these losses. Each member reaches rungs in
  // ascending order. All losses at a rung are of the same images.
  Status reach(int member, std::uint64_t iteration, std::vector<float> losses);
  bool has_reached(int member, std::uint64_t iteration) const;
  // Call leave() when a member has ended or was stopped. It still counts at the rungs that it has
  // reached.
  void leave(int member) { left_.insert(member); }
  bool has_left(int member) const { return left_.contains(member); }

  // Judges all members that have not left. The verdicts depend on which members have reached which
  // rungs, not on the order. So if several members arrive together, call reach() for all of them
  // first.
  std::vector<RungVerdict> verdicts() const;

  nlohmann::json to_json() const;
  // Restores what to_json() returned. Returns ErrorKind::data if `json` is something else or was
  // saved with other options, except RungOptions::keeps_first.
  static Result<Rungs> from_json(const nlohmann::json& json, const RungOptions& options);

 private:
  struct Entry {
    int member = 0;
    std::size_t reports = 1;       // of this member, up to this rung
    std::vector<float> losses{};   // by image; median rule: those of the best report
    std::vector<float> running{};  // median rule: the means of all reports
    double mean = 0, running_mean = 0;
  };
  using Rung = std::vector<Entry>;

  explicit Rungs(const RungOptions& options) : options_(options) {}
  bool judge(const Rung& rung, RungVerdict& verdict) const;

  RungOptions options_;
  std::map<std::uint64_t, Rung> rungs_;  // by iteration
  std::set<int> left_;
};

struct Contestant {
  int member = 0;
  std::vector<float> losses;
};

// In a Takeover a loser takes the weights and the learning rate of the winner, and multiplies that
// rate.
struct Takeover {
  int winner = 0, loser = 0;
  double rate_factor = 1;
  LossExcess worse{};
};

// Pairs the members at random. Returns the pairs with a sure loser, ordered by loser. The pairs
// follow from the seed and the round; the order of the members does not matter.
Result<std::vector<Takeover>> tournament(std::vector<Contestant> members, std::uint64_t seed,
                                         std::uint64_t round, double errors = 2);

}  // namespace omni
