// Fibers start with ucontext, and switch by jumps later. _FORTIFY_SOURCE is off, because it takes a
// jump to another stack for an error.
#undef _FORTIFY_SOURCE
#include "tests/played_gpu/fiber.hpp"

#include <sys/mman.h>

#include "tests/played_gpu/device.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else  // the same calls, without effect
namespace {
void __sanitizer_start_switch_fiber(void**, const void*, std::size_t) {}
void __sanitizer_finish_switch_fiber(void*, const void**, std::size_t*) {}
}  // namespace
#endif

namespace omni::played {
namespace {

constexpr std::size_t kStack = 128 << 10, kGuard = 4096;
thread_local Fiber* running = nullptr;

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  void* mapped = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapped == MAP_FAILED || mprotect(mapped, kGuard, PROT_NONE) != 0)
    stop_program("no memory for the stack of a kernel's thread");
  stack_ = static_cast<std::byte*>(mapped) + kGuard;
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = kStack;
  context_.uc_link = nullptr;
  makecontext(&context_, enter, 0);
}

Fiber::~Fiber() { munmap(stack_ - kGuard, kGuard + kStack); }

void Fiber::enter() {
  __sanitizer_finish_switch_fiber(nullptr, &running->home_stack_, &running->home_size_);
  running->body_();
}

// The first switch uses the new context. Later switches jump, which needs no system call.
void Fiber::resume() {
  running = this;
  if (_setjmp(home_) == 0) {
    __sanitizer_start_switch_fiber(&home_frames_, stack_, kStack);
    if (entered_) _longjmp(here_, 1);
    entered_ = true;
    setcontext(&context_);
  }
  __sanitizer_finish_switch_fiber(home_frames_, nullptr, nullptr);
}

void Fiber::pause() {
  Fiber* const self = running;
  if (_setjmp(self->here_) == 0) {
    __sanitizer_start_switch_fiber(&self->our_frames_, self->home_stack_, self->home_size_);
    _longjmp(self->home_, 1);
  }
  __sanitizer_finish_switch_fiber(self->our_frames_, &self->home_stack_, &self->home_size_);
}

}  // namespace omni::played
