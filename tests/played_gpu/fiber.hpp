// A Fiber is a function with a stack of its own. It can stop in the middle and continue later in
// the same thread.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace omni::played {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);  // which never returns
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();        // runs the body until it pauses
  static void pause();  // called by a body: goes back to the caller of resume

 private:
  static void enter();

  const std::function<void()> body_;
  std::byte* stack_;
  bool entered_ = false;
  ucontext_t context_;
  jmp_buf home_, here_;
  // These tell address sanitizer about the change of stacks.
  void *home_frames_ = nullptr, *our_frames_ = nullptr;
  const void* home_stack_ = nullptr;
  std::size_t home_size_ = 0;
};

}  // namespace omni::played
