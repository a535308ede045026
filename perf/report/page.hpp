// This header has the parts of a page for a browser, and makes the page of them.
#pragma once

#include <string>
#include <string_view>

namespace omni::perf {

// These are the files of perf/report/page; embed.cmake writes the definitions during a build.
extern const std::string_view kPageTemplate, kPageStyle, kPageScript;
extern const std::string_view kComparisonTemplate, kComparisonScript;
extern const std::string_view kEnsembleTemplate, kEnsembleScript;

// Puts the style, the data and the script into their places in the template.
std::string filled_page(std::string_view page_template, std::string_view json,
                        std::string_view script);

}  // namespace omni::perf
