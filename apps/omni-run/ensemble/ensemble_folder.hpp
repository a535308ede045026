// The run folder of an ensemble. `omni-run ensemble` writes it; `valid` and `predict` read it.
//   FOLDER/ensemble.json        the members and their results, see below
//   FOLDER/<name>/net.weights   of a member that has finished: Darknet weights
//   FOLDER/<name>/...           its metrics.jsonl and checkpoints
// ensemble.json: {"format": "omnivore-ensemble", "version": 1, "state": "finished", "members":
//   [{"name": "lenet-1", "net": "lenet", "options": ["--seed", "1"], "state": "finished",
//   "iteration": 100, "loss": 0.3, "accuracy": 0.9}]}; loss and accuracy may be null. Unknown keys
// are ignored. A net with a solver has its "solver", too. A member that has failed, has diverged or
// was stopped has an "error", and so has a run of which a member has failed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.hpp"

namespace omni {

enum class MemberState { running, finished, diverged, stopped, dropped, failed };
std::string_view text_of(MemberState state);

struct EnsembleMember {
  std::string name{};                  // also of its folder; see check_members()
  std::string net{};                   // the name of a shipped net, or an absolute path
  std::string solver{};                // likewise; "": none
  std::vector<std::string> options{};  // words of its training's command line, besides net, solver,
                                       // data and outputs
  MemberState state = MemberState::running;
  std::uint64_t iteration = 0;
  std::optional<double> loss{}, accuracy{};  // on the test set, when it ended; none: not known
  std::string error{};  // why it has failed, diverged or stopped; "": it has not

  bool operator==(const EnsembleMember&) const = default;
};

inline constexpr std::size_t kMostMembers = 1000;
inline constexpr std::string_view kEnsembleFile = "ensemble.json";

// Returns the name of a net or solver in a form that `valid` understands later, which may run in
// another folder. The name of a file becomes its whole path; names of what is shipped stay.
std::string lasting_name(const std::string& file);

// Returns the file in which a member that has finished keeps its weights.
std::filesystem::path member_weights(const std::filesystem::path& folder,
                                     const EnsembleMember& member);

// Refuses members that the folder cannot hold: none or too many, or two of one name. It also
// refuses a name that is no plain name of a folder, and text with control characters. `where`
// begins the message.
Status check_members(const std::vector<EnsembleMember>& members, const std::string& where);

// Reads the members of an ensemble. A folder that does not exist or has no ensemble.json is
// ErrorKind::usage. A damaged file is ErrorKind::data.
Result<std::vector<EnsembleMember>> read_ensemble(const std::filesystem::path& folder);
// Replaces those members in ensemble.json that `are_own` marks; the others stay as they are there.
// Where there is no file of the same members, it writes all. Several processes may do so at once.
Status update_ensemble(const std::filesystem::path& folder,
                       const std::vector<EnsembleMember>& members,
                       const std::vector<bool>& are_own);
// The process ends: those members that `are_own` marks and that are running have failed.
Status fail_running(const std::filesystem::path& folder, const std::vector<bool>& are_own,
                    const std::string& reason);
// Replaces ensemble.json as a whole. The folder must exist.
Status write_ensemble(const std::filesystem::path& folder,
                      const std::vector<EnsembleMember>& members);

}  // namespace omni
