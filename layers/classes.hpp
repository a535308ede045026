// Another number of classes for a net that is described: the option that decides how many outputs
// its last layer with weights has.
#pragma once

#include "layers/net_description.hpp"
#include "runtime/result.hpp"

namespace omni {

// Refuses a net in which no single layer decides it, naming the section.
Status set_classes(NetDescription& net, int classes);

}  // namespace omni
