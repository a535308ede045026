// This header writes the page of an ensemble for a browser: a table of the members, and the curves
// of all of them.
#pragma once

#include <filesystem>
#include <vector>

#include "apps/omni-run/ensemble/ensemble_folder.hpp"

namespace omni {

inline constexpr const char* kCurvesPage = "curves.html";

// Writes curves.html into the run folder, from the metrics of members that have begun.
Status write_curves(const std::filesystem::path& folder,
                    const std::vector<EnsembleMember>& members);

}  // namespace omni
