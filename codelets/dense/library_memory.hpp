// load_library_code() makes the libraries of CPU kernels load and generate their code before memory
// is planned. The memory of that code is then measured as a part of the process.
#pragma once

namespace omni {

// Computes a small convolution, forward and backward, by all fast implementations, which include
// matrix products. This takes some milliseconds. The libraries keep the memory.
void load_library_code();

}  // namespace omni
