// Whether StarPU can use a file of performance models. It ends the process over one that it cannot
// read, and over numbers that cannot be, so files are looked at before it is given them.
#pragma once

#include <string_view>

namespace omni {

// `version` is the name of the folder that StarPU looks in. Only models of ours: they are
// STARPU_HISTORY_BASED.
bool is_sound_codelet_model(std::string_view text, std::string_view version);

// What StarPU measured of a host's memories and the ways between them. `kind` is what the name of
// the file ends with; `config` is the text of the host's ".config", which counts the memories.
bool is_sound_bus_file(std::string_view kind, std::string_view text, std::string_view config);

}  // namespace omni
