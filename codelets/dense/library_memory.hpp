// Makes the libraries of CPU kernels load and generate their code before memory is planned. Then
// the memory of that code is measured as a part of the process.
#pragma once

namespace omni {

// Computes a small convolution, forward and backward, by all fast implementations, which include
// matrix products. Takes some milliseconds. The libraries' memory stays in the process.
void load_library_code();

}  // namespace omni
