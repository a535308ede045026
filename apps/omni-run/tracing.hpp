// --trace: starts the recording of a run.
#pragma once

#include <memory>
#include <string>

#include "layers/net.hpp"
#include "runtime/tasks/recorder.hpp"
#include "runtime/tasks/session.hpp"

namespace omni {

// Null when the folder is "". Measures the machine's peaks first, for the roofline. Destroy the
// result before the session.
Result<std::unique_ptr<Recorder>> start_trace(const std::string& folder, const Session& session,
                                              const Net& net);

}  // namespace omni
