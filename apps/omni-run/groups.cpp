#include "apps/omni-run/groups.hpp"

#include <fmt/format.h>

#include "apps/omni-run/open_net.hpp"
#include "runtime/log.hpp"

namespace omni {

Result<ComputeGroups> open_groups(const NetSpec& spec, const NetArguments& net,
                                  const GroupArguments& arguments) {
  return ComputeGroups::make(arguments.count, arguments.fully_connected,
                             [&](const Sharing& sharing, int slice) {
                               return Net::build(spec, {.training = true,
                                                        .strict = net.strict,
                                                        .slice = slice != 0 ? slice : net.slice,
                                                        .sharing = sharing});
                             });
}

Status assign_workers(ComputeGroups& groups, const GroupArguments& arguments,
                      const Session& session) {
  const auto workers = static_cast<int>(session.workers().size());
  GroupLayout layout = spread_groups(groups.count(), workers);
  if (!arguments.layout.empty()) {
    OMNI_TRY(layout, parse_group_layout(arguments.layout, workers));
    if (static_cast<int>(layout.size()) != groups.count())
      return Error{ErrorKind::usage, "--group-layout",
                   fmt::format("names {} groups, --groups {}", layout.size(), groups.count()),
                   fmt::format("--groups {}", layout.size())};
  }
  if (groups.count() == 1 && arguments.layout.empty()) return {};
  groups.assign(layout);
  log::info("{} compute group{} on workers {}", groups.count(), groups.count() == 1 ? "" : "s",
            describe(layout));
  if (groups.count() > 1 && !groups.has_replicated_phase())
    log::warn(
        "all layers are fully connected and merged: the groups take turns, and gain nothing "
        "(--fc replicated gives each a copy)");
  return {};
}

Result<Asynchrony> chosen_asynchrony(const GroupArguments& arguments, bool deterministic) {
  if (!deterministic) return arguments.asynchrony.value_or(Asynchrony::free);
  if (arguments.asynchrony == Asynchrony::free && arguments.count > 1)
    return Error{ErrorKind::usage, "--async free", "the order of arrival is never the same twice",
                 "leave it out, or leave out --deterministic"};
  return Asynchrony::reproducible;
}

}  // namespace omni
