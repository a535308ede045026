// The files of perf/report/page as text; embed.cmake writes their definitions when building.
#pragma once

#include <string_view>

namespace omni::perf {

extern const std::string_view kPageTemplate, kPageStyle, kPageScript;

}  // namespace omni::perf
