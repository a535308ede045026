// The documented exit codes (docs/user/exit-codes.md): the only place that turns an error into a
// number.
#pragma once

#include "runtime/result.hpp"

namespace omni {

constexpr int kSuccess = 0;

constexpr int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::failed: return 1;
    case ErrorKind::usage: return 2;
    case ErrorKind::data: return 3;
    case ErrorKind::out_of_memory: return 4;
    case ErrorKind::device: return 5;
    case ErrorKind::diverged: return 6;
    case ErrorKind::interrupted:
      return 75;  // EX_TEMPFAIL: what was done is in a checkpoint, please requeue
  }
  return 1;
}

}  // namespace omni
