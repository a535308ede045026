// A process that runs out of memory ends with the exit code for it, wherever that shows first.
#pragma once

namespace omni {

void end_in_order_without_memory();  // from here on, in every thread

}  // namespace omni
