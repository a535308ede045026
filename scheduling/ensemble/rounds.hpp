// In a tournament all members wait for each other every so many iterations, and are compared in
// pairs: a round. A sure loser continues from the winner's weights, with the winner's learning rate
// changed a little (Jaderberg et al. 2017; LBANN's tournaments, Jacobs et al. 2019).
//
// Before a member waits, it writes its arrays to its folder. A decision is recorded before any
// member continues. So a run that was killed makes the same decisions again, or reads them.
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

// A RoundMember is a member in a tournament.
struct RoundMember {
  std::string name;  // also of its folder
  std::string kind;  // members of one kind have nets with the same arrays, and are compared
};

// TakenOver is what a loser takes over: the winner's arrays, which are in a file, and these
// settings of its updates.
struct TakenOver {
  int winner = 0, loser = 0;
  double learning_rate = 0, momentum = 0;
};

class Rounds {
 public:
  // `folder` is the folder of the run. It has the members' folders and rounds.json. To continue the
  // run of an earlier process, read() reads that file.
  Rounds(RoundOptions options, std::filesystem::path folder, std::vector<RoundMember> members);
  Status read();

  // Returns the first round after the iteration.
  std::uint64_t next(std::uint64_t iteration) const {
    return (iteration / options_.every + 1) * options_.every;
  }
  // Call meet() when a member has reached a round, with its losses and settings. It returns when
  // all members have reached the round. A sure loser gets what it takes over, other members get
  // nothing. A waiting member has left the stream of samples. After a stop request meet() returns
  // nothing.
  Result<std::optional<TakenOver>> meet(int member, Trainer& training, std::vector<float> losses,
                                        double learning_rate, double momentum);
  // Replaces the arrays of a loser by those of the winner `from`.
  Status take(const TakenOver& from, std::uint64_t round, Trainer& training) const;
  // Call leave() when a member trains no more: other members then do not wait for it.
  void leave(int member);

  // Call over_ranks() if members are spread over ranks. The first rank decides: other ranks send it
  // arrivals and leaves, and it sends them its decisions. heard() takes a message of another rank.
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
