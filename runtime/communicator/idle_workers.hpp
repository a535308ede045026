// StarPU's workers poll for tasks without a pause. While this object lives and another rank has
// been silent for some time, they sleep until a message arrives or a task is ready.
#pragma once

namespace omni {

class IdleWorkers {
 public:
  IdleWorkers();  // needs a running Session
  ~IdleWorkers();
  IdleWorkers(const IdleWorkers&) = delete;
  IdleWorkers& operator=(const IdleWorkers&) = delete;
};

}  // namespace omni
