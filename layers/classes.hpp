// Another number of classes for a net that is described: the option that decides how many outputs
// its last layer with weights has.
#pragma once

#include "layers/options.hpp"
#include "runtime/result.hpp"

namespace omni {

// Refuses a net in which no single layer decides it, naming the section.
Status set_classes(NetSpec& spec, int classes, bool strict);

}  // namespace omni
