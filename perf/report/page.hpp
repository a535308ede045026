// The parts of a page for a browser, and the page that they make together.
#pragma once

#include <string>
#include <string_view>

namespace omni::perf {

// The files of perf/report/page; embed.cmake writes these definitions during a build.
extern const std::string_view kPageTemplate, kPageStyle, kPageScript;
extern const std::string_view kComparisonTemplate, kComparisonScript;
extern const std::string_view kEnsembleTemplate, kEnsembleScript;

// Puts the style, the data and the script into their places in the template.
std::string filled_page(std::string_view page_template, std::string_view json,
                        std::string_view script);

}  // namespace omni::perf
