#include "perf/report/page.hpp"

namespace omni::perf {
namespace {

// Makes JSON safe in a script element: only "<" can end the element or begin a comment. JSON has
// "<" only in strings, where it may be escaped.
std::string for_script(std::string_view json) {
  std::string text;
  text.reserve(json.size() + 64);
  for (const char letter : json)
    if (letter == '<')
      text += "\\u003c";
    else
      text += letter;
  return text;
}

}  // namespace

std::string filled_page(std::string_view page_template, std::string_view json,
                        std::string_view script) {
  const std::string data = for_script(json);
  std::string page;
  page.reserve(data.size() + (1 << 18));
  // The template has a line {{name}} where another part goes.
  std::string_view rest = page_template;
  for (;;) {
    const std::size_t mark = rest.find("{{");
    page += rest.substr(0, mark);
    if (mark == std::string_view::npos) return page;
    rest.remove_prefix(mark + 2);
    const std::string_view name = rest.substr(0, rest.find("}}"));
    page += name == "data" ? std::string_view(data) : name == "style" ? kPageStyle : script;
    rest.remove_prefix(name.size() + 2);
  }
}

}  // namespace omni::perf
