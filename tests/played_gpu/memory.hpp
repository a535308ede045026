// This is the memory of a played device. What is not allocated, the zone between two allocations
// included, is filled with 0xFF (as a float: NaN) and checked. So reading it shows in the results.
// Writing it ends the program, at the latest when a neighbour is freed or the place is allocated
// again.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace omni::played {

class Memory {
 public:
  // After so many allocations others have the rest; negative: they have nothing.
  Memory(std::size_t bytes, long allocations);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* allocate(std::size_t bytes);  // null: no room
  bool release(void* address);        // false: not the begin of an allocation
  void release_all();

  bool contains(const void* address) const;  // allocated or not
  // All of it in one allocation; an empty range may also be at the end of one.
  bool holds(const void* address, std::size_t bytes) const;
  std::size_t capacity() const { return capacity_; }
  std::size_t available() const;

 private:
  using Allocations = std::map<unsigned char*, std::size_t>;  // begin and bytes
  unsigned char* place_for(std::size_t bytes) const;
  Allocations::iterator release(Allocations::iterator at);

  const std::size_t capacity_, mapped_;
  unsigned char* begin_;
  unsigned char* touched_end_;  // from here on never allocated, and not yet filled
  mutable std::mutex mutex_;
  Allocations allocations_;
  std::size_t used_ = 0;
  long allocations_left_;
};

}  // namespace omni::played
