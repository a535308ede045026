// Rounds of a tournament: every so many iterations all members wait for each other and are compared
// in pairs. A sure loser goes on from the winner's weights, with the winner's learning rate changed
// a little (Jaderberg et al. 2017; LBANN's tournaments, Jacobs et al. 2019).
//
// Before a member waits, it writes its arrays to its folder. A decision is recorded before anyone
// goes on. So a run that was killed makes the same decisions again, or finds them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduling/ensemble/rungs.hpp"

namespace omni {

class Trainer;

struct RoundOptions {
  std::uint64_t every = 100;  // iterations, at least 1
  std::uint64_t seed = 1;     // of the pairs and of the changes
};

// A member in a tournament.
struct RoundMember {
  std::string name;  // also of its folder
  std::string kind;  // members of one kind have nets with the same arrays, and are compared
};

// A loser takes over the winner's arrays, which are in a file, and these settings of updates.
struct TakenOver {
  int winner = 0, loser = 0;
  double learning_rate = 0, momentum = 0;
};

class Rounds {
 public:
  // `folder` is that of the run: it has the members' folders, and rounds.json, which read() reads
  // to go on as an earlier process did.
  Rounds(RoundOptions options, std::filesystem::path folder, std::vector<RoundMember> members);
  Status read();

  // Returns the first round after the iteration.
  std::uint64_t next(std::uint64_t iteration) const {
    return (iteration / options_.every + 1) * options_.every;
  }
  // A member has come to a round with these losses and settings. Returns when all members have,
  // with what it takes over, if it surely loses. While it waits it has left the stream of samples.
  // After a stop request it returns nothing.
  Result<std::optional<TakenOver>> meet(int member, Trainer& training, std::vector<float> losses,
                                        double learning_rate, double momentum);
  // Replaces the arrays of a loser.
  Status take(const TakenOver& from, std::uint64_t round, Trainer& training) const;
  // The others do not wait for this member any more.
  void leave(int member);

  // Where members are spread over ranks, the first rank decides. Arrivals and leaves are sent to
  // it, and its decisions to the others. heard() takes what another rank sent.
  void over_ranks(bool is_first, std::function<void(const nlohmann::json&)> send);
  void heard(const nlohmann::json& letter);

 private:
  struct Arrival {
    std::uint64_t round = 0;
    std::vector<float> losses;
    double learning_rate = 0, momentum = 0;
  };
  std::filesystem::path arrays_of(int member, std::uint64_t round) const;
  Status write_arrays(int member, Trainer& training) const;
  void decide();
  Status decide(std::uint64_t round);
  void go_on();
  Status record() const;

  RoundOptions options_;
  std::filesystem::path folder_;
  std::vector<RoundMember> members_;
  std::mutex mutex_;
  std::condition_variable decided_;
  std::set<int> active_;                                       // who has not left
  std::map<int, Arrival> arrived_;                             // by member, on the first rank
  std::map<int, Trainer*> waiting_;                            // by member, on this rank
  std::map<std::uint64_t, std::vector<TakenOver>> decisions_;  // by round
  Status status_;                                              // of the last decision
  bool decides_ = true;
  std::function<void(const nlohmann::json&)> send_{};  // empty: there is one rank
};

}  // namespace omni
