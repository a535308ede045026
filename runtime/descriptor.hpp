// A file descriptor, closed when its owner goes.
#pragma once

#include <unistd.h>

#include <utility>

namespace omni {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}  // negative: of nothing
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  operator int() const { return number_; }
  int release() { return std::exchange(number_, -1); }  // to be closed by the caller

 private:
  int number_;
};

}  // namespace omni
