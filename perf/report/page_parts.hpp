// The files of perf/report/page as text; embed.cmake writes their definitions when building.
#pragma once

#include <string>
#include <string_view>

namespace omni::perf {

extern const std::string_view kPageTemplate, kPageStyle, kPageScript;
extern const std::string_view kComparisonTemplate, kComparisonScript;

// A whole page: the template with the style, the data and the script in their places.
std::string filled_page(std::string_view page_template, std::string_view json,
                        std::string_view script);

}  // namespace omni::perf
