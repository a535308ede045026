// StarPU's workers look for tasks all the time. While this object lives, and another rank has been
// silent for some time, they sleep: until a message arrives, or a task is there to be done.
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
