#include "apps/omni-run/ensemble/outcome.hpp"

#include <algorithm>

#include "apps/omni-run/setup.hpp"
#include "runtime/own_command.hpp"

namespace omni {

Status outcome(const std::vector<Status>& ended, const std::vector<EnsembleMember>& members,
               bool strict) {
  const auto with = [&](ErrorKind kind) {
    return std::ranges::find_if(
        ended, [&](const Status& each) { return !each && each.error().kind == kind; });
  };
  for (const Status& each : ended)
    if (!each && each.error().kind != ErrorKind::interrupted &&
        (each.error().kind != ErrorKind::diverged || strict))
      return each;
  if (with(ErrorKind::interrupted) != ended.end()) {
    std::vector<std::string> words = words_without({"--resume"}, own_words());
    words.insert(words.end(), {"--resume", "auto"});
    return Error{ErrorKind::interrupted, "",
                 "stopped; to go on:\n  " + launcher() + for_shell(words), ""};
  }
  const auto first = with(ErrorKind::diverged);
  const bool some_end_well =
      std::ranges::any_of(ended, [](const Status& each) { return bool(each); }) ||
      std::ranges::find(members, MemberState::finished, &EnsembleMember::state) != members.end();
  return first == ended.end() || some_end_well ? Status() : *first;
}

bool is_followed(const Status& wave, bool strict) {
  return wave || (wave.error().kind == ErrorKind::diverged && !strict);
}

}  // namespace omni
