// How much of the machine's memory this process has. Bytes; 0 where the system does not tell.
#pragma once

#include <cstddef>

namespace omni {

std::size_t resident_memory();
std::size_t resident_data();         // of it, what is in no file
std::size_t peak_resident_memory();  // since the process began

}  // namespace omni
