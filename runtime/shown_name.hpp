// A name out of an untrusted file, fit for a message on a terminal: quoted, escaped, shortened.
#pragma once

#include <string>
#include <string_view>

namespace omni {

std::string shown_name(std::string_view name);

}  // namespace omni
