#include "runtime/communicator/idle_workers.hpp"

#include <starpu.h>

#include "runtime/communicator/ranks.hpp"

namespace omni {

IdleWorkers::IdleWorkers() {
  ranks::watch_silence([asleep = false](bool silence) mutable {
    if (!silence && !asleep) return;
    const bool sleep = silence && starpu_task_nready() == 0;
    if (sleep == asleep) return;
    asleep = sleep;
    sleep ? starpu_pause() : starpu_resume();
  });
}

IdleWorkers::~IdleWorkers() { ranks::watch_silence({}); }

}  // namespace omni
