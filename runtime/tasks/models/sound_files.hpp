// Checks files of performance models. StarPU ends the process if it cannot parse a file, or if a
// number is impossible; so files are checked before StarPU reads them.
#pragma once

#include <string_view>

namespace omni {

// `version` is the name of the folder that StarPU looks in. Only models of ours: they are
// STARPU_HISTORY_BASED.
bool is_sound_codelet_model(std::string_view text, std::string_view version);

// Files of measured bandwidths and latencies. `kind` is the end of the file's name; `config` is the
// text of the host's ".config", which counts the memories.
bool is_sound_bus_file(std::string_view kind, std::string_view text, std::string_view config);

}  // namespace omni
